"""Adapters between conformance vectors (raw dictionaries) and the product's typed functions.

`ANSWERS` maps each kind to a function from one row, without its expected part, to our answer.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Answer = Callable[[dict[str, Any]], Any]

_MODULES = {
    "route": "routing_kinds",
    "session_key": "routing_kinds",
    "thread": "thread_kinds",
    "reset": "reset_kinds",
    "freshness": "reset_kinds",
    "normalize": "routing_kinds",
    "loader": "config_kinds",
    "duration": "config_kinds",
    "queue": "runtime_kinds",
    "commands": "runtime_kinds",
    "silent_tokens": "egress_kinds",
    "response_prefix": "egress_kinds",
    "access": "runtime_kinds",
    "mention_gating": "runtime_kinds",
    "mention_patterns": "runtime_kinds",
    "inbound_debounce": "runtime_kinds",
}

KINDS = tuple(_MODULES)

_STREAMS = {"protocol": "protocol_kinds"}
"""Kinds whose input is one recording as a whole, not rows."""
STREAMS = tuple(_STREAMS)

Replay = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def replayer(kind: str) -> Replay:
    """Return the function that replays a recording of `kind`. Raises KeyError or ImportError."""
    module = importlib.import_module(f"conformance_kinds.{_STREAMS[kind]}")
    replay: Replay = module.replay
    return replay


def answerer(kind: str) -> Answer:
    """Return the function that answers rows of `kind`; its module is loaded now, so kinds stay independent.

    Raises:
        KeyError: There is no such kind.
        ImportError: The module of this kind is not here.
    """
    module = importlib.import_module(f"conformance_kinds.{_MODULES[kind]}")
    answer: Answer = getattr(module, f"answer_{kind}")
    return answer
