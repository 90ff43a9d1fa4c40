"""Valid frames, damaged in many ways, always the same for a seed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Mapping
from typing import Any

from plane.client import Key, connect_params

VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**63,
    1e308,
    "",
    "x",
    "operator.admin",
    "node",
    "\ud800",
    "\x00",
    "a" * 5_000,
    [],
    ["operator.admin"],
    {},
    {"a": {"b": [1]}},
    [[[[[[]]]]]],
]


class Mutator:
    """Makes frames."""

    def __init__(self, seed: int, methods: list[str]) -> None:
        self._random = random.Random(seed)
        self._methods = methods

    def stranger(self, challenge: Mapping[str, Any]) -> str:
        """Return a first frame of somebody without any secret."""
        rng = self._random
        params = connect_params(
            scopes=["operator.admin", "operator.write"],
            auth=rng.choice([{}, {"token": "wrong"}, {"password": ""}, {"deviceToken": "x"}, {"bootstrapToken": "y"}]),
        )
        if rng.random() < 0.5:
            params = Key(rng.randrange(256)).sign(params, challenge["nonce"], challenge["ts"])
        frame = {"type": "req", "id": "c", "method": "connect", "params": params}
        return self._text(self._damage(frame, rng.randrange(3)))

    def insider(self) -> str:
        """Return a request of somebody who is in."""
        rng = self._random
        params = {
            "requestId": "x",
            "deviceId": "y",
            "role": "operator",
            "label": "z",
            "scopes": ["operator.admin"],
            "sessionKey": "main",
        }
        some = {name: params[name] for name in rng.sample(sorted(params), rng.randrange(len(params)))}
        frame = {"type": "req", "id": f"f{rng.random()}", "method": rng.choice(self._methods), "params": some}
        return self._text(self._damage(frame, rng.randrange(3)))

    def node(self, node: str) -> str:
        """Return a request of a node that guesses what others wait for."""
        rng = self._random
        params = {
            "id": "0198b6a0-0000-7000-8000-000000000000",
            "nodeId": node,
            "ok": True,
            "payload": {"a": [1]},
            "payloadJSON": '{"a":1}',
            "error": {"code": "X", "message": "y"},
            "event": rng.choice(["voice.transcript", "agent.request", "chat.subscribe", "exec.finished", ""]),
        }
        some = {name: params[name] for name in rng.sample(sorted(params), rng.randrange(len(params) + 1))}
        names = ["node.invoke.result", "node.event", "node.pending.pull", "skills.bins", *self._methods]
        method = rng.choice(names[: 4 if rng.random() < 0.8 else None])
        frame = {"type": "req", "id": f"f{rng.random()}", "method": method, "params": some}
        return self._text(self._damage(frame, rng.randrange(3)))

    def _damage(self, frame: Any, times: int) -> Any:
        frame = copy.deepcopy(frame)
        for _ in range(times):
            frame = self._once(frame)
        return frame

    def _once(self, value: Any) -> Any:
        """Change one place, at any depth."""
        rng = self._random
        if isinstance(value, dict) and value and rng.random() < 0.85:
            name = rng.choice(sorted(value, key=str))
            match rng.randrange(4):
                case 0:
                    del value[name]
                case 1:
                    value[rng.choice(["extra", "scopes", "role", "__proto__", ""])] = self._value()
                case _:
                    value[name] = self._once(value[name])
            return value
        if isinstance(value, list) and value and rng.random() < 0.5:
            value[rng.randrange(len(value))] = self._value()
            return value
        return self._value()

    def _value(self) -> Any:
        return copy.deepcopy(self._random.choice(VALUES))

    def _text(self, frame: Any) -> str:
        rng, text = self._random, json.dumps(frame)
        match rng.randrange(12):
            case 0:
                cut = rng.randrange(len(text) + 1)
                return text[:cut]
            case 1:
                at = rng.randrange(len(text) + 1)
                return text[:at] + rng.choice(['"', "\x00", "}", "[", "\\u", "NaN", "\U0001f600"]) + text[at:]
            case 2:
                return "[" * rng.randrange(2_000) + text
        return text
