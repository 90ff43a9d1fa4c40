"""A reply's Markdown as Telegram messages, in Telegram's HTML (https://core.telegram.org/bots/api#html-style)."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from tidegate.adapters.base import TextPart
from tidegate.adapters.markdown.blocks import parse
from tidegate.adapters.markdown.layout import Run, Style, StyleKind, Styles, lay_out
from tidegate.adapters.markdown.split import Piece, split, utf16, visible
from tidegate.adapters.telegram.settings import Settings
from tidegate.events import clean_text

HARD_LIMIT = 4096
"""UTF-16 units of one message, counted without markup."""
MAX_BODY = 16_000
"""Characters of one message with its markup; more is cut smaller."""
MIN_LIMIT = 4
"""UTF-16 units of the smallest piece that is cut further for its markup."""

_MARKUP = re.compile(r"[\\`*_~|\[<&]|https?://|^[ \t]*(?:[-+>#=]|\d{1,9}[.)])|[ \t]$|\n\n\n", re.MULTILINE)
_TAGS = {StyleKind.BOLD: "b", StyleKind.ITALIC: "i", StyleKind.STRIKE: "s", StyleKind.SPOILER: "tg-spoiler"}
_TAGS |= {StyleKind.CODE: "code", StyleKind.QUOTE: "blockquote"}


def render(markdown: str, limit: int, tables: str = "code", *, at_paragraphs: bool = False) -> tuple[TextPart, ...]:
    """Return the parts of a text; empty for an empty text.

    Args:
        limit: Longest text of a part in UTF-16 units.
        tables: block, code, bullets or off.
    """
    text = clean_text(markdown).strip()
    if not text:
        return ()
    limit = max(2, min(limit, HARD_LIMIT))
    if len(text) <= limit and not _MARKUP.search(text) and utf16(text) <= limit:
        return (_unmarked(text),)
    runs = lay_out(parse(clean_text(markdown)), "code" if tables == "block" else tables)
    parts = [part for piece in split(runs, limit, at_paragraphs=at_paragraphs) for part in _parts(piece)]
    return tuple(parts) or tuple(_unmarked(visible(piece)) for piece in split([Run(text)], limit))


def render_for(settings: Settings, markdown: str) -> tuple[TextPart, ...]:
    """Return the parts of a text as one bot's settings want them."""
    at_paragraphs = settings.chunk_mode == "newline"
    return render(markdown, settings.text_limit, settings.tables, at_paragraphs=at_paragraphs)


def _parts(piece: Piece) -> list[TextPart]:
    """Return one part for a piece, or several where its markup is too much for one message."""
    body = to_html(piece)
    if len(body) <= MAX_BODY:
        return [TextPart(body, to_plain(piece))]
    half = utf16(visible(piece)) // 2
    if half < MIN_LIMIT:
        return [_unmarked(to_plain(piece))]
    return [part for smaller in split(piece, half) for part in _parts(smaller)]


def _unmarked(text: str) -> TextPart:
    return TextPart(html.escape(text, quote=False), text)


def to_html(piece: Sequence[Run]) -> str:
    """Return runs as HTML with well-nested tags."""
    out: list[str] = []
    open_now: Styles = ()
    for run in piece:
        styles = _allowed(run.styles)
        shared = 0
        while shared < min(len(open_now), len(styles)) and open_now[shared] == styles[shared]:
            shared += 1
        out.extend(_closing(style) for style in reversed(open_now[shared:]))
        out.extend(_opening(style) for style in styles[shared:])
        out.append(html.escape(run.text, quote=False))
        open_now = styles
    out.extend(_closing(style) for style in reversed(open_now))
    return "".join(out)


def to_plain(piece: Sequence[Run]) -> str:
    """Return runs without markup, with the addresses of links as far as they fit."""
    out: list[str] = []
    for index, run in enumerate(piece):
        out.append(run.text)
        following = piece[index + 1].styles if index + 1 < len(piece) else ()
        out.extend(
            f" ({style.value})"
            for style in run.styles
            if style.kind is StyleKind.LINK and style not in following and style.value != run.text
        )
    text = "".join(out).strip("\n")
    return text if utf16(text) <= HARD_LIMIT else visible(piece).strip("\n")


def _allowed(styles: Styles) -> Styles:
    """Leave out what Telegram does not nest: code holds nothing, and code blocks stand in nothing."""
    kinds = {style.kind for style in styles}
    if StyleKind.BLOCK in kinds:
        return tuple(style for style in styles if style.kind is StyleKind.BLOCK)
    if StyleKind.CODE in kinds and StyleKind.LINK in kinds:
        return tuple(style for style in styles if style.kind is not StyleKind.CODE)
    if StyleKind.CODE in kinds:
        return tuple(style for style in styles if style.kind in (StyleKind.CODE, StyleKind.QUOTE))
    return styles


def _opening(style: Style) -> str:
    if style.kind is StyleKind.LINK:
        return f'<a href="{html.escape(style.value)}">'
    if style.kind is StyleKind.BLOCK:
        return f'<pre><code class="language-{html.escape(style.value)}">' if style.value else "<pre>"
    return f"<{_TAGS[style.kind]}>"


def _closing(style: Style) -> str:
    if style.kind is StyleKind.LINK:
        return "</a>"
    if style.kind is StyleKind.BLOCK:
        return "</code></pre>" if style.value else "</pre>"
    return f"</{_TAGS[style.kind]}>"
