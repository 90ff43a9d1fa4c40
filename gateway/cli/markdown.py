"""Markdown for a terminal: bold, code, headings, lists and tables, without their marks where colours are not allowed.

Programs get the text as written.
"""

from __future__ import annotations

import re

from tidegate.gateway.cli.tables import draw_table, table_rows
from tidegate.gateway.cli.terminal import NO_LIMIT, Style, fold, printable

_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"#{1,6}\s+(.*)")
_BULLET = re.compile(r"(\s*)[-*+]\s+(.*)")
_QUOTE = re.compile(r">\s?(.*)")
_INLINE = re.compile(
    r"`(?P<code>[^`\n]+)`"
    r"|\*\*(?P<bold>[^*\n]+)\*\*"
    r"|(?<![\w*])\*(?P<italic>[^*\s][^*\n]*)\*(?![\w*])"
    r"|\[(?P<label>[^\]\n]+)\]\((?P<link>[^)\s]+)\)"
)


def render(text: str, style: Style, room: int = NO_LIMIT) -> str:
    """Return Markdown as it is shown; for programs only control characters are taken out.

    Args:
        room: Columns after which lines are broken between words; lines of code never are.
    """
    text = printable(text)
    if not style.markup:
        return text
    lines: list[str] = []
    in_code, behind = False, 0
    written = text.split("\n")
    for at, line in enumerate(written):
        if at < behind:
            continue
        if _FENCE.match(line):
            in_code = not in_code
        elif in_code:
            lines.append(style.paint(f"  {line}", "cyan"))
        elif rows := table_rows(written, at):
            behind = at + rows
            lines += _table(written[at:behind], style, room)
        else:
            lines += fold(_line(line, style), room, split=False)
    return "\n".join(lines)


def _table(written: list[str], style: Style, room: int) -> list[str]:
    drawn = draw_table("\n".join(written), style, room)
    lines = [_line(line, style) for line in written] if drawn is None else drawn
    return [row for line in lines for row in fold(line, room, split=False)]


def _line(line: str, style: Style) -> str:
    if match := _HEADING.fullmatch(line):
        return style.bold(match[1])
    if match := _BULLET.fullmatch(line):
        return f"{match[1]}• {_inline(match[2], style)}"
    if match := _QUOTE.fullmatch(line):
        return style.dim("│ ") + _inline(match[1], style)
    return _inline(line, style)


def _inline(text: str, style: Style) -> str:
    def mark(match: re.Match[str]) -> str:
        if match["code"] is not None:
            return style.paint(match["code"], "cyan")
        if match["bold"] is not None:
            return style.bold(match["bold"])
        if match["italic"] is not None:
            return style.paint(match["italic"], "bold")
        return f"{match['label']} {style.dim('(' + match['link'] + ')')}"

    return _INLINE.sub(mark, text)
