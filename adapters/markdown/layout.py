"""Lays a tree out as one line of styled runs of text, the form in which it is counted and cut."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidegate.adapters.markdown.tree import (
    Block,
    Code,
    CodeBlock,
    Heading,
    Inline,
    Item,
    Link,
    Listing,
    Mark,
    Marked,
    Paragraph,
    Quote,
    Rule,
    Table,
    Text,
    plain,
)

MAX_CODE_TABLE = 100
"""Columns of the widest table shown as code; wider ones become a list."""
MAX_TABLE_CELLS = 2_000
RULE = "———"
BULLETS = ("•", "◦", "▪")
_BOXES = (("[ ] ", "☐ "), ("[x] ", "☑ "), ("[X] ", "☑ "))
_LANGUAGE = re.compile(r"[\w+#.-]{1,32}", re.ASCII)
_WEB = re.compile(r"(?:https?|tg|mailto|tel):\S+", re.IGNORECASE)


class StyleKind(StrEnum):
    """What a platform can do to a run of text."""

    BOLD = "bold"
    ITALIC = "italic"
    STRIKE = "strike"
    SPOILER = "spoiler"
    LINK = "link"
    CODE = "code"
    BLOCK = "block"
    QUOTE = "quote"


@dataclass(frozen=True, slots=True)
class Style:
    """One style of a run.

    Attributes:
        value: Address of a link; language of a code block.
        fence: Fence of a code block.
        part: Tells apart neighbours of the same style.
    """

    kind: StyleKind
    value: str = ""
    fence: str = ""
    part: int = 0


Styles = tuple[Style, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Text of one style; styles are listed from the outside in."""

    text: str
    styles: Styles = ()


_MARKS = {
    Mark.BOLD: Style(StyleKind.BOLD),
    Mark.ITALIC: Style(StyleKind.ITALIC),
    Mark.STRIKE: Style(StyleKind.STRIKE),
    Mark.SPOILER: Style(StyleKind.SPOILER),
}
_BOLD = _MARKS[Mark.BOLD]
_CODE = Style(StyleKind.CODE)


def lay_out(blocks: Sequence[Block], tables: str = "code") -> list[Run]:
    """Return the runs of blocks.

    Args:
        tables: How tables are shown: `code`, `bullets`, or `off` for as they were written.
    """
    layout = _Layout(tables)
    layout.blocks(blocks, (), "")
    return layout.runs


class _Layout:
    def __init__(self, tables: str) -> None:
        self.runs: list[Run] = []
        self._tables = tables
        self._part = 0

    def blocks(self, blocks: Sequence[Block], styles: Styles, indent: str, bullet: int = 0) -> None:
        """Lay out blocks below each other.

        Args:
            indent: Put before every line but the first.
            bullet: How deep in lists this is.
        """
        for index, block in enumerate(blocks):
            if index:
                self._text(("\n\n" if block.spaced else "\n") + indent, styles)
            self._block(block, styles, indent, bullet)

    def _block(self, block: Block, styles: Styles, indent: str, bullet: int) -> None:
        if isinstance(block, Paragraph):
            self._inline(block.children, styles, indent)
        elif isinstance(block, Heading):
            self._inline(block.children, (*styles, _BOLD), indent)
        elif isinstance(block, CodeBlock):
            self._code(block, styles)
        elif isinstance(block, Quote):
            if any(style.kind is StyleKind.QUOTE for style in styles):
                self._text("> ", styles)
                self.blocks(block.children, styles, indent + "> ", bullet)
            else:
                self._part += 1
                self.blocks(block.children, (*styles, Style(StyleKind.QUOTE, part=self._part)), "", bullet)
        elif isinstance(block, Listing):
            self._listing(block, styles, indent, bullet)
        elif isinstance(block, Table):
            self._table(block, styles, indent)
        else:
            assert isinstance(block, Rule)
            self._text(RULE, styles)

    def _listing(self, block: Listing, styles: Styles, indent: str, bullet: int) -> None:
        for index, item in enumerate(block.items):
            if index:
                self._text(("\n\n" if item.spaced else "\n") + indent, styles)
            marker, children = _marker(item, bullet)
            self._text(marker, styles)
            self.blocks(children, styles, indent + "  ", bullet + 1)

    def _code(self, block: CodeBlock, styles: Styles) -> None:
        first, _, rest = block.info.partition(" ")
        language = first if _LANGUAGE.fullmatch(first) else ""
        unsaid = rest.strip() if language else block.info
        if unsaid:
            self._text(f"{unsaid}\n", styles)
        self._part += 1
        style = Style(StyleKind.BLOCK, language, block.fence, self._part)
        self._text(block.text, (*styles, style))

    def _table(self, table: Table, styles: Styles, indent: str) -> None:
        rows = [[_one_line(plain(cell)) for cell in row] for row in table.rows]
        widths = [max(display_width(row[index]) for row in rows) for index in range(len(table.aligned))]
        is_small = sum(widths) + 3 * len(widths) <= MAX_CODE_TABLE and len(rows) * len(widths) <= MAX_TABLE_CELLS
        if self._tables == "off":
            self._text(table.source, styles)
        elif self._tables == "code" and is_small:
            self._part += 1
            style = Style(StyleKind.BLOCK, "", "```", self._part)
            self._text(_grid(rows, widths, table.aligned), (*styles, style))
        else:
            self._rows(table, styles, indent)

    def _rows(self, table: Table, styles: Styles, indent: str) -> None:
        """Show each row as its first cell and a list of the others with their headings."""
        head, *rows = table.rows
        if not rows:
            rows, head = [head], tuple(() for _ in head)
        for number, row in enumerate(rows):
            if number:
                self._text(f"\n\n{indent}", styles)
            self._inline(row[0], (*styles, _BOLD), indent)
            for name, cell in zip(head[1:], row[1:], strict=True):
                if not cell:
                    continue
                self._text(f"\n{indent}{BULLETS[0]} ", styles)
                if name:
                    self._inline(name, styles, indent)
                    self._text(": ", styles)
                self._inline(cell, styles, indent)

    def _inline(self, nodes: Sequence[Inline], styles: Styles, indent: str) -> None:
        for node in nodes:
            if isinstance(node, Text):
                self._text(node.text.replace("\n", f"\n{indent}") if indent else node.text, styles)
            elif isinstance(node, Code):
                self._text(node.text, (*styles, _CODE))
            elif isinstance(node, Marked):
                style = _MARKS[node.mark]
                self._inline(node.children, styles if style in styles else (*styles, style), indent)
            else:
                self._link(node, styles, indent)

    def _link(self, link: Link, styles: Styles, indent: str) -> None:
        if _WEB.fullmatch(link.url) and not any(style.kind is StyleKind.LINK for style in styles):
            self._part += 1
            self._inline(link.children, (*styles, Style(StyleKind.LINK, link.url, part=self._part)), indent)
            return
        self._inline(link.children, styles, indent)
        if link.url and plain(link.children) != link.url:
            self._text(f" ({link.url})", styles)

    def _text(self, text: str, styles: Styles) -> None:
        if text:
            self.runs.append(Run(text, styles))


def display_width(text: str) -> int:
    """Return how many columns a text takes where every sign is equally wide."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.combining(sign) or unicodedata.category(sign) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(sign) in ("W", "F")
        else 1
        for sign in text
    )


def _marker(item: Item, bullet: int) -> tuple[str, tuple[Block, ...]]:
    """Return what stands before an item, and the item without its check box."""
    if item.marker:
        return f"{item.marker} ", item.children
    first = item.children[0] if item.children else None
    if isinstance(first, Paragraph) and first.children and isinstance(first.children[0], Text):
        words = first.children[0].text
        for box, shown in _BOXES:
            if words.startswith(box):
                rest = (Text(words[len(box) :]), *first.children[1:])
                return shown, (Paragraph(rest, first.spaced), *item.children[1:])
    return f"{BULLETS[min(bullet, len(BULLETS) - 1)]} ", item.children


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _grid(rows: Sequence[Sequence[str]], widths: Sequence[int], aligned: Sequence[str]) -> str:
    lines = []
    for number, row in enumerate(rows):
        cells = [_padded(cell, width, side) for cell, width, side in zip(row, widths, aligned, strict=True)]
        lines.append(" | ".join(cells).rstrip())
        if number == 0:
            lines.append("-+-".join("-" * width for width in widths))
    return "\n".join(lines)


def _padded(cell: str, width: int, side: str) -> str:
    blank = width - display_width(cell)
    left = {"left": 0, "right": blank, "center": blank // 2}[side]
    return " " * left + cell + " " * (blank - left)
