"""Colours, tables and times for people."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


class Style:
    """Marks up text with colours, or leaves it alone."""

    def __init__(self, colour: bool) -> None:
        self.colour = colour

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
    """Return text of others without control characters, which could move the cursor or change colours."""
    return _CONTROL.sub("\ufffd", text)


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


def table(style: Style, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return aligned columns under dim headings; the last column is not padded."""
    body = [list(row) for row in rows]
    widths = [max(map(width, column)) for column in zip(list(heads), *body, strict=True)]
    lines = [[style.dim(head) for head in heads], *body]
    return ["  ".join(_padded(row, widths)).rstrip() for row in lines]


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
