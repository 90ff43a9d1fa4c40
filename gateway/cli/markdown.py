"""Markdown for a terminal: bold, code, headings and lists, without their marks where colours are not allowed.

Programs get the text as written.
"""

from __future__ import annotations

import re

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
    in_code = False
    for line in text.split("\n"):
        if _FENCE.match(line):
            in_code = not in_code
            continue
        if in_code:
            lines.append(style.paint(f"  {line}", "cyan"))
        else:
            lines += fold(_line(line, style), room, split=False)
    return "\n".join(lines)


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
