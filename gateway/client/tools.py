"""What a tool was called with, in a few words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MAX_SUMMARY = 200


def summary(arguments: Any) -> str:
    """Return the arguments of a call on one line: the value alone where there is one, else names and values."""
    if isinstance(arguments, Mapping):
        values = [(str(name), _word(value)) for name, value in arguments.items() if value not in (None, "", [], {})]
        text = values[0][1] if len(values) == 1 else " ".join(f"{name}={value}" for name, value in values)
    else:
        text = _word(arguments) if arguments else ""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SUMMARY else line[: MAX_SUMMARY - 1] + "…"


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value[:MAX_SUMMARY]
    return json.dumps(value, ensure_ascii=False, default=str)[:MAX_SUMMARY]
