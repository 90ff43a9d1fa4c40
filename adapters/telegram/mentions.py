"""What Telegram marked in a message: who was addressed, and where words lead.

Offsets count UTF-16 units: https://core.telegram.org/bots/api#messageentity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.events import MentionFacts


@dataclass(frozen=True, slots=True)
class Me:
    """The bot itself, as `getMe` describes it."""

    id: str
    username: str
    has_topics: bool = False


_NOBODY = MentionFacts()


def mentions_in(text: str, entities: Sequence[Mapping[str, Any]], me: Me) -> MentionFacts:
    """Return who was mentioned."""
    if not entities:
        return _NOBODY
    units = text.encode("utf-16-le", "surrogatepass")
    ours = f"@{me.username}".casefold()
    explicit = somebody = False
    for entity in entities:
        kind = entity.get("type")
        if kind == "text_mention":
            somebody = True
            explicit = explicit or str((entity.get("user") or {}).get("id")) == me.id
        elif kind in ("mention", "bot_command"):
            start = 2 * int(entity["offset"])
            words = units[start : start + 2 * int(entity["length"])].decode("utf-16-le", "replace")
            _, at, name = words.partition("@")
            if at:
                somebody = True
                explicit = explicit or f"@{name}".casefold() == ours
    return MentionFacts(explicit=explicit, any=somebody)


def with_links(text: str, entities: Sequence[Mapping[str, Any]]) -> str:
    """Return the text with the addresses of links that hide behind words put after these."""
    links = [entity for entity in entities if entity.get("type") == "text_link" and entity.get("url")]
    if not links:
        return text
    units = text.encode("utf-16-le", "surrogatepass")
    for entity in sorted(links, key=lambda link: int(link["offset"]), reverse=True):
        start, end = 2 * int(entity["offset"]), 2 * (int(entity["offset"]) + int(entity["length"]))
        if units[start:end].decode("utf-16-le", "replace") != entity["url"]:
            units = units[:end] + f" ({entity['url']})".encode("utf-16-le", "surrogatepass") + units[end:]
    return units.decode("utf-16-le", "surrogatepass")
