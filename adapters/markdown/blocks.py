"""Reads Markdown blocks: paragraphs, headings, fences, quotes, lists, tables, rules.

Follows CommonMark 0.31 where chats do, and departs where they do not: a line after a quote is not part of it, two
spaces are enough to nest a list, `---` under a line is a rule, four spaces do not make code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidegate.adapters.markdown.inline import parse_inline
from tidegate.adapters.markdown.tree import (
    Block,
    CodeBlock,
    Heading,
    Inline,
    Item,
    Listing,
    Paragraph,
    Quote,
    Rule,
    Table,
)

MAX_DEPTH = 8
"""Deepest nesting of quotes and lists; what is deeper stays text."""
MAX_COLUMNS = 64
MAX_TABLE_LINE = 4_000
"""Characters of the longest line that can be part of a table."""

_FENCE = re.compile(r"^(?P<indent> {0,3})(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>.*)$")
_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*)$")
_RULE = re.compile(r"^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_QUOTE = re.compile(r"^ {0,3}>[ \t]?")
_ITEM = re.compile(r"^(?P<indent>[ \t]*)(?P<marker>[-*+]|\d{1,9}[.)])(?P<gap>[ \t]+)(?=\S)")
_DASHES = re.compile(r"^\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?$")
_UNDERLINE = re.compile(r"^ {0,3}={2,}[ \t]*$")
_STARTS = re.compile(r"^[ \t]*(?:[>#`~*_+-]|\d{1,9}[.)])")
_CELL = re.compile(r"\\.|(?P<ticks>`+)(?:(?!(?P=ticks)).)+(?P=ticks)(?!`)|(?P<bar>\|)")


def parse(markdown: str) -> tuple[Block, ...]:
    """Return the blocks of a text. Takes any text; nothing is an error."""
    lines = markdown.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return _Reader(lines, 0).read()


class _Reader:
    """Reads the lines of one container: the whole text, a quote or a list item."""

    def __init__(self, lines: Sequence[str], depth: int) -> None:
        self._lines = lines
        self._depth = depth
        self._at = 0
        self._blocks: list[Block] = []
        self._spaced = False

    def read(self) -> tuple[Block, ...]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not line.strip():
                self._at += 1
                self._spaced = True
                continue
            block = self._special(line) if _STARTS.match(line) or "|" in line else None
            self._blocks.append(block if block is not None else self._paragraph())
            self._spaced = False
        return tuple(self._blocks)

    def _special(self, line: str) -> Block | None:
        if (fence := _opening(line)) is not None:
            code = self._code(fence)
            if code is not None:
                return code
        if (heading := _HEADING.match(line)) and (words := _heading_words(heading)):
            self._at += 1
            return Heading(len(heading[1]), parse_inline(words), self._spaced)
        if _RULE.match(line):
            self._at += 1
            return Rule(self._spaced)
        if self._depth < MAX_DEPTH and _QUOTE.match(line):
            return self._quote()
        if self._depth < MAX_DEPTH and _ITEM.match(line):
            return self._listing()
        if "|" in line:
            return self._table()
        return None

    def _paragraph(self) -> Block:
        start = self._at
        self._at += 1
        while self._at < len(self._lines) and not self._interrupts(self._lines[self._at]):
            self._at += 1
        lines = [line.rstrip() for line in self._lines[start : self._at]]
        if self._at < len(self._lines) and len(lines) == 1 and _UNDERLINE.match(self._lines[self._at]):
            self._at += 1
            return Heading(1, parse_inline(lines[0].strip()), self._spaced)
        return Paragraph(parse_inline("\n".join(lines)), self._spaced)

    def _interrupts(self, line: str) -> bool:
        """Tell whether a line ends the paragraph before it."""
        if not line.strip() or _UNDERLINE.match(line):
            return True
        if "|" in line and self._is_table_at(self._at):
            return True
        if not _STARTS.match(line):
            return False
        if _opening(line) is not None or _RULE.match(line):
            return True
        if (heading := _HEADING.match(line)) is not None:
            return bool(_heading_words(heading))
        if self._depth >= MAX_DEPTH:
            return False
        item = _ITEM.match(line)
        return _QUOTE.match(line) is not None or (
            item is not None and (not item["marker"][0].isdigit() or item["marker"][:-1] == "1")
        )

    def _code(self, fence: re.Match[str]) -> CodeBlock | None:
        sign, size, indent = fence["fence"][0], len(fence["fence"]), len(fence["indent"])
        closing = re.compile(rf"^ {{0,3}}{re.escape(sign)}{{{size},}}[ \t]*$")
        end = self._at + 1
        while end < len(self._lines) and not closing.match(self._lines[end]):
            end += 1
        inside = [_without_indent(line, indent) for line in self._lines[self._at + 1 : end]]
        text = "\n".join(inside)
        if not text.strip():
            return None
        self._at = end + 1
        return CodeBlock(text, fence["info"].strip(), fence["fence"], self._spaced)

    def _quote(self) -> Quote:
        inside = []
        while self._at < len(self._lines) and (marker := _QUOTE.match(self._lines[self._at])):
            inside.append(self._lines[self._at][marker.end() :])
            self._at += 1
        return Quote(_Reader(inside, self._depth + 1).read(), self._spaced)

    def _listing(self) -> Listing:
        items: list[Item] = []
        first = _ITEM.match(self._lines[self._at])
        assert first is not None
        indent = _width(first["indent"])
        was_spaced, gap = self._spaced, False
        while self._at < len(self._lines):
            marker = _ITEM.match(self._lines[self._at])
            if marker is None or _width(marker["indent"]) >= indent + 2 or _RULE.match(self._lines[self._at]):
                break
            items.append(self._item(marker, indent, gap))
            at = self._at
            while self._at < len(self._lines) and not self._lines[self._at].strip():
                self._at += 1
            gap = self._at > at
            if self._at < len(self._lines) and not _ITEM.match(self._lines[self._at]):
                self._at = at
                break
        return Listing(tuple(items), was_spaced)

    def _item(self, marker: re.Match[str], indent: int, gap: bool) -> Item:
        content = _width(marker["indent"]) + len(marker["marker"]) + _width(marker["gap"])
        inside = [self._lines[self._at][marker.end() :]]
        self._at += 1
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not line.strip():
                after = self._at
                while after < len(self._lines) and not self._lines[after].strip():
                    after += 1
                if after == len(self._lines) or _indent(self._lines[after]) < indent + 2:
                    break
                inside.extend([""] * (after - self._at))
                self._at = after
                continue
            if _indent(line) < indent + 2:
                break
            inside.append(_without_indent(line, content))
            self._at += 1
        number = marker["marker"] if marker["marker"][0].isdigit() else ""
        return Item(number, _Reader(inside, self._depth + 1).read(), gap)

    def _is_table_at(self, at: int) -> bool:
        if at + 1 >= len(self._lines):
            return False
        dashes = self._lines[at + 1]
        if len(dashes) > MAX_TABLE_LINE or len(self._lines[at]) > MAX_TABLE_LINE:
            return False
        return bool("-" in dashes and _DASHES.match(dashes.strip()) and "|" in dashes) and len(_cells(dashes)) == len(
            _cells(self._lines[at])
        )

    def _table(self) -> Table | None:
        if not self._is_table_at(self._at):
            return None
        start = self._at
        aligned = tuple(_alignment(cell) for cell in _cells(self._lines[start + 1]))
        if len(aligned) > MAX_COLUMNS:
            return None
        self._at += 2
        while self._at < len(self._lines) and "|" in (line := self._lines[self._at]) and len(line) <= MAX_TABLE_LINE:
            self._at += 1
        written = [self._lines[start], *self._lines[start + 2 : self._at]]
        rows = tuple(_row(line, len(aligned)) for line in written)
        return Table(rows, aligned, "\n".join(self._lines[start : self._at]), self._spaced)


def _opening(line: str) -> re.Match[str] | None:
    fence = _FENCE.match(line)
    return None if fence is None or (fence["fence"][0] == "`" and "`" in fence["info"]) else fence


def _heading_words(heading: re.Match[str]) -> str:
    """Return the words of a heading without the signs that may close it."""
    words = heading[2].strip()
    shorter = words.rstrip("#")
    return words if shorter and not shorter[-1].isspace() else shorter.rstrip()


def _cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    bars = [found.start() for found in _CELL.finditer(line) if found["bar"]]
    starts, ends = [0, *(bar + 1 for bar in bars)], [*bars, len(line)]
    cells = [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
    return cells[:-1] if bars and not cells[-1] and bars[-1] == len(line) - 1 else cells


def _row(line: str, columns: int) -> tuple[tuple[Inline, ...], ...]:
    cells = _cells(line)
    if len(cells) > columns:
        cells = [*cells[: columns - 1], " | ".join(cells[columns - 1 :])]
    cells += [""] * (columns - len(cells))
    return tuple(parse_inline(cell.replace("\\|", "|")) for cell in cells)


def _alignment(cell: str) -> str:
    if cell.endswith(":"):
        return "center" if cell.startswith(":") else "right"
    return "left"


def _width(blank: str) -> int:
    return len(blank.expandtabs(4))


def _indent(line: str) -> int:
    return _width(line[: len(line) - len(line.lstrip(" \t"))])


def _without_indent(line: str, width: int) -> str:
    if not width:
        return line
    blank = line[: len(line) - len(line.lstrip(" \t"))]
    return " " * max(0, _width(blank) - width) + line[len(blank) :]
