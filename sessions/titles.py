"""The title of a conversation, for lists."""

from __future__ import annotations

import json

MAX_TITLE = 60


def title_of(body: str) -> str:
    """Return the first words of a conversation's first message, given as its stored body."""
    if not body:
        return ""
    data = json.loads(body)
    text = " ".join(str(data.get("t", "") if isinstance(data, dict) else "").split())
    return text[:MAX_TITLE] + ("…" if len(text) > MAX_TITLE else "")
