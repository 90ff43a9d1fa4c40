"""Dotted paths of configuration keys: `agents.entries["Main Agent"].model`, `bindings[0].match`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

KeyPath = tuple[str | int, ...]

_NEEDS_QUOTES = re.compile(r"[\s.\[\]\"'\\]")
_PART = re.compile(r"""\[(?P<index>\d+)\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]|(?P<dot>\.?)(?P<name>[^.\[\]"]+)""")


def format_path(parts: Iterable[str | int]) -> str:
    """Write a path as an operator types it; keys that would be ambiguous are quoted."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif not part or _NEEDS_QUOTES.search(part):
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
        else:
            text += f".{part}" if text else part
    return text


def parse_path(text: str) -> KeyPath:
    """Read a path as `format_path` writes it; digits between dots are keys, in brackets indices.

    Raises:
        ValueError: The text is empty or not a path.
    """
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None or (match["name"] is not None and bool(parts) != bool(match["dot"])):
            raise ValueError(f"not a path at character {position + 1}: {text!r}")
        if match["index"] is not None:
            parts.append(int(match["index"]))
        elif match["quoted"] is not None:
            parts.append(str(json.loads(match["quoted"])))
        else:
            parts.append(match["name"])
        position = match.end()
    if not parts:
        raise ValueError("a path needs at least one key")
    return tuple(parts)
