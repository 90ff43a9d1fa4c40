"""`tidegate config` on a gateway elsewhere: what is read is changed under its hash, so nobody's change is lost."""

from __future__ import annotations

import copy
import json
from collections.abc import MutableMapping
from typing import Any

from tidegate.config.paths import KeyPath, format_path
from tidegate.config.view import MASK, value_at
from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.remote import harmless, needs, run
from tidegate.gateway.client.connection import Connection
from tidegate.gateway.client.dial import Kind
from tidegate.gateway.client.errors import Refused
from tidegate.gateway.program import hint

KEPT = "__OPENCLAW_REDACTED__"
"""How the protocol shows a secret."""
REMOVED = object()


def fetch(call: Call, path: KeyPath) -> Any:
    """Return what is in force there at a path, secrets masked. Raises Refused when there is no such setting."""

    async def work(line: Connection) -> Any:
        return await line.call("config.get")

    data = run(call, Kind(needs("config.get")), work)
    for values in (data.get("resolved"), data.get("parsed")):
        try:
            return harmless(_masked(value_at(values or {}, path)))
        except KeyError:
            continue
    raise Refused(f"there is no such setting; {hint('config schema')} has them all")


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    return value.replace(KEPT, MASK) if isinstance(value, str) else value


def change(call: Call, path: KeyPath, value: object) -> dict[str, Any]:
    """Set one key there, or take it away with `REMOVED`; returns what the gateway says. Raises ClientError."""

    async def work(line: Connection) -> Any:
        before = await line.call("config.get")
        if before.get("issues"):
            raise Refused(f"{before.get('path')} cannot be read there: {before['issues'][0].get('message')}")
        data = copy.deepcopy(before.get("parsed") or {})
        _put(data, path, value)
        params = {"raw": json.dumps(data, ensure_ascii=False), "baseHash": before["hash"]}
        return await line.call("config.set", params)

    done: dict[str, Any] = run(call, Kind(needs("config.set")), work)
    return done


def _put(data: Any, path: KeyPath, value: object) -> None:
    """Set a value in plain data, making the objects on the way. Raises Refused where the path leads nowhere."""
    for at, part in enumerate(path[:-1]):
        if isinstance(part, str) and isinstance(data, MutableMapping):
            if value is REMOVED and part not in data:
                raise Refused(f"{format_path(path)} is not set there")
            data = data.setdefault(part, {})
        elif isinstance(part, int) and isinstance(data, list) and part < len(data):
            data = data[part]
        else:
            raise Refused(f"{format_path(path[: at + 1])} is not there")
    last = path[-1]
    if isinstance(last, str) and isinstance(data, MutableMapping):
        if value is REMOVED and last not in data:
            raise Refused(f"{format_path(path)} is not set there")
        if value is REMOVED:
            del data[last]
        else:
            data[last] = value
    elif isinstance(last, int) and isinstance(data, list) and last < len(data) + (value is not REMOVED):
        data[last : last + 1] = [] if value is REMOVED else [value]
    else:
        raise Refused(f"{format_path(path)} is not there")
