"""The configuration file as its readers may see it: as it stands, without its secrets.

What is shown is put together from what the parser understood, so that a secret is found however it is spelled. Where
the file holds text that the parser left out, as a key that is given twice, it is written anew instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tidegate.config.document import render
from tidegate.config.json5 import Node, parse, to_plain
from tidegate.config.paths import KeyPath

_COMMENT = re.compile(r"//[^\n\r\u2028\u2029]*|/\*.*?\*/", re.DOTALL)
Segment = tuple[int, int, KeyPath | None]
"""A stretch of the text: from, to, and the path of the value that it spells, None for a key."""


def shown_text(text: str, file: Path, shown: Callable[[object], Any], *, with_comments: bool) -> str:
    """Return the text without secrets.

    Args:
        shown: Replaces the secrets of plain data.
        with_comments: Comments are shown as well. They may hold anything, an old secret too.

    Raises:
        Json5Error: It cannot be read.
    """
    document = parse(text, file)
    plain = to_plain(document.root)
    seen = shown(plain)
    if document.repeated:
        return render(seen)
    found, at = [], 0
    for start, end, path in _segments(document.root, ()):
        found += [_gap(text[at:start], with_comments), _spelled(text[start:end], plain, seen, path)]
        at = end
    return "".join([*found, _gap(text[at:], with_comments)])


def _segments(node: Node, path: KeyPath) -> Iterator[Segment]:
    """Yield the stretches of keys and of values that hold no others, in their order."""
    if isinstance(node.value, dict):
        for key, slot in node.value.items():
            yield slot.start, slot.key_end, None
            yield from _segments(slot.node, (*path, key))
    elif isinstance(node.value, list):
        for index, slot in enumerate(node.value):
            yield from _segments(slot.node, (*path, index))
    else:
        yield node.start, node.end, path


def _gap(text: str, with_comments: bool) -> str:
    """Return what stands between keys and values: blanks, brackets, commas, comments."""
    return text if with_comments else _COMMENT.sub("", text)


def _spelled(text: str, plain: object, seen: object, path: KeyPath | None) -> str:
    if path is None:
        return text
    value = value_of(seen, path)
    return text if value == value_of(plain, path) else render(value)


def value_of(data: object, path: KeyPath) -> object:
    """Return the value at a path of plain data, None where there is nothing."""
    for part in path:
        try:
            data = data[part]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return None
    return data
