"""Tables of an answer, drawn for a terminal: aligned columns where they fit, else a list for each row."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidegate.adapters.markdown.blocks import parse
from tidegate.adapters.markdown.tree import Code, Inline, Link, Mark, Marked, Table, Text
from tidegate.gateway.cli.terminal import Style, width

MAX_ROOM = 120
"""Columns of the widest table; wider ones are hard to read along, also where a terminal has the room."""
MAX_CELLS = 2_000
_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")

Cells = tuple[tuple[Inline, ...], ...]


def table_rows(lines: Sequence[str], at: int) -> int:
    """Return how many lines from `at` on are a table; 0 when none begins there."""
    if at + 1 >= len(lines) or "|" not in lines[at] or "|" not in lines[at + 1]:
        return 0
    if not _RULE.fullmatch(lines[at + 1]):
        return 0
    end = at + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    return end - at


def draw_table(source: str, style: Style, room: int) -> list[str] | None:
    """Return a table as it is shown in `room` columns; None when it is none."""
    blocks = parse(source)
    if len(blocks) != 1 or not isinstance(blocks[0], Table):
        return None
    table = blocks[0]
    cells = [[_shown(cell, style) for cell in row] for row in table.rows]
    widths = [max(1, *(width(row[index]) for row in cells)) for index in range(len(table.aligned))]
    fits = sum(widths) + 3 * (len(widths) - 1) <= min(room, MAX_ROOM)
    if fits and len(cells) * len(widths) <= MAX_CELLS:
        return _grid(cells, widths, table.aligned, style)
    return _lists(cells, style)


def _grid(cells: list[list[str]], widths: list[int], aligned: Sequence[str], style: Style) -> list[str]:
    bar = style.dim(" │ ")
    rows = []
    for number, row in enumerate(cells):
        padded = [_padded(cell, size, side) for cell, size, side in zip(row, widths, aligned, strict=True)]
        if number == 0:
            rows.append(bar.join(style.bold(cell) for cell in [*padded[:-1], padded[-1].rstrip()]))
            rows.append(style.dim("─┼─".join("─" * size for size in widths)))
        else:
            rows.append(bar.join(padded).rstrip())
    return rows


def _lists(cells: list[list[str]], style: Style) -> list[str]:
    head, *body = cells
    rows: list[str] = []
    for row in body or [head]:
        rows += [""] if rows else []
        rows.append(style.bold(row[0]))
        for name, cell in zip(head[1:], row[1:], strict=True):
            if cell:
                rows.append(f"• {name}: {cell}" if name and body else f"• {cell}")
    return rows


def _padded(cell: str, size: int, side: str) -> str:
    blank = size - width(cell)
    left = {"left": 0, "right": blank, "center": blank // 2}[side]
    return " " * left + cell + " " * (blank - left)


def _shown(cell: Sequence[Inline], style: Style) -> str:
    """Return a cell on one line, with colours that end where they began."""
    found = ""
    for node in cell:
        if isinstance(node, Text):
            found += node.text
        elif isinstance(node, Code):
            found += style.paint(node.text, "cyan")
        elif isinstance(node, Marked):
            inner = _shown(node.children, Style(False))
            found += style.bold(inner) if node.mark in (Mark.BOLD, Mark.ITALIC) else inner
        else:
            found += _link(node, style)
    return " ".join(found.split())


def _link(link: Link, style: Style) -> str:
    label = _shown(link.children, Style(False))
    return label if not link.url or link.url == label else f"{label} {style.dim('(' + link.url + ')')}"
