"""Colours, tables and times for people."""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

NO_LIMIT = 1_000_000
MIN_LAST_COLUMN = 20
"""Columns that the last column of a table gets even where the others fill the terminal."""

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_WORDS = re.compile(r"[^ ]+ *| +")
_PIECES = re.compile(r"\x1b\[[0-9;]*m|.", re.DOTALL)
_BULLET = re.compile(r"(?:[•▸]|│|\d{1,3}\.) ")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_DIRECTION = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Characters that turn the direction of text, so that a line reads otherwise than it is."""
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_UNSEEN = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029{_DIRECTION}]+")
_IN_JSON = re.compile(f"[\x7f-\x9f\ud800-\udfff{_DIRECTION}]")
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


class Style:
    """Marks up text with colours, or leaves it alone.

    Attributes:
        markup: Marks of Markdown are taken out, because a person reads this; programs get them as written.
    """

    def __init__(self, colour: bool, *, markup: bool | None = None) -> None:
        self.colour = colour
        self.markup = colour if markup is None else markup

    def paint(self, text: str, *names: str) -> str:
        """Return `text` in the named colours."""
        if not self.colour or not text:
            return text
        return f"\x1b[{';'.join(_CODES[name] for name in names)}m{text}\x1b[0m"

    def bold(self, text: str) -> str:
        """Return `text` in bold."""
        return self.paint(text, "bold")

    def dim(self, text: str) -> str:
        """Return `text` in a faint colour."""
        return self.paint(text, "dim")


def wants_colour(stream: TextIO, environ: Mapping[str, str], *, off: bool = False) -> bool:
    """Tell whether colours may be used: a terminal, and nobody said no (https://no-color.org)."""
    return not off and stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """Return text of others without what could move the cursor, change colours or turn the order of letters."""
    return _CONTROL.sub("\ufffd", _TURNS.sub("", text))


def one_line(text: object, limit: int = NO_LIMIT) -> str:
    """Return a name that others chose on one line that reads as it is: no breaks, and no turns of direction."""
    line = " ".join(_UNSEEN.sub(" ", str(text)).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def as_json(data: object, indent: int | None = 2) -> str:
    """Return JSON in which nothing commands a terminal: what could is written as an escape."""
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(data, indent=indent, ensure_ascii=False))


def width(text: str) -> int:
    """Return how many columns a text takes."""
    plain = _ANSI.sub("", text)
    if plain.isascii():
        return len(plain)
    return sum(_columns(char) for char in plain)


def _columns(char: str) -> int:
    if unicodedata.combining(char) or char in "\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def columns(stream: TextIO | None = None) -> int:
    """Return how many columns a line may take; without a terminal nothing is folded."""
    try:
        found = os.get_terminal_size((stream or sys.stdout).fileno()).columns
    except (OSError, ValueError):
        return NO_LIMIT
    return max(20, found) if found else NO_LIMIT


def fold(text: str, room: int, *, split: bool = True) -> list[str]:
    """Return a text in rows of at most `room` columns, broken between words where that is possible.

    Colours count nothing, and blanks at the beginning of a line are kept and repeated in its other rows.

    Args:
        split: Words that are longer than a row are broken too; else they stay whole, so that a link can be copied.
    """
    rows: list[str] = []
    for line in text.split("\n"):
        rows += [line] if width(line) <= room else _folded(line, max(8, room), split)
    return rows


def _folded(line: str, room: int, split: bool) -> list[str]:
    indent = line[: len(line) - len(line.lstrip(" "))][: room // 2]
    bullet = _BULLET.match(line[len(indent) :])
    hanging = indent + " " * (width(bullet[0]) if bullet else 0)
    rows, row, used = [], indent, len(indent)
    for word in _WORDS.findall(line[len(indent) :]):
        size = width(word)
        if used + width(word.rstrip(" ")) > room and used > len(hanging):
            rows.append(row.rstrip(" "))
            row, used = hanging, len(hanging)
        if split and used + width(word.rstrip(" ")) > room:
            for char in _PIECES.findall(word):
                if used + width(char) > room:
                    rows.append(row)
                    row, used = hanging, len(hanging)
                row, used = row + char, used + width(char)
            continue
        row, used = row + word, used + size
    return [*rows, row.rstrip(" ")]


def table(style: Style, heads: Sequence[str], rows: Iterable[Sequence[str]], room: int | None = None) -> list[str]:
    """Return aligned columns under dim headings; the last column is folded under itself at the terminal's edge.

    Args:
        room: Columns of the terminal; None asks it.
    """
    body = [list(row) for row in rows]
    widths = [max(map(width, column)) for column in zip(list(heads), *body, strict=True)]
    before = sum(widths[:-1]) + 2 * (len(widths) - 1)
    left = max(MIN_LAST_COLUMN, (columns() if room is None else room) - before)
    lines = []
    for row in [[style.dim(head) for head in heads], *body]:
        first, *more = fold(row[-1], left)
        lines.append("  ".join(_padded([*row[:-1], first], widths)).rstrip())
        lines += [" " * before + rest for rest in more]
    return lines


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [cell + " " * (widths[i] - width(cell)) for i, cell in enumerate(row[:-1])] + [row[-1]]


def ago(then: int, now: int) -> str:
    """Return how long ago an instant was (both microseconds UTC), for people."""
    if not then:
        return "never"
    seconds = max(0, (now - then) // 1_000_000)
    if seconds < 60:
        return f"{seconds} s ago"
    if seconds < 3600:
        return f"{seconds // 60} min ago"
    if seconds < 2 * 86400:
        return f"{seconds // 3600} h ago"
    return f"{seconds // 86400} days ago"
