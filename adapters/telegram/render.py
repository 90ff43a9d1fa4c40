"""A reply's Markdown as Telegram messages."""

from __future__ import annotations

import html

from tidegate.adapters.base import TextPart

HARD_LIMIT = 4096


def render(markdown: str, limit: int) -> tuple[TextPart, ...]:
    """Return the parts of a text."""
    text = markdown.strip()
    return tuple(
        TextPart(html.escape(text[at : at + limit], quote=False), text[at : at + limit])
        for at in range(0, len(text), limit)
    )
