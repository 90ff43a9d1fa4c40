"""Whether a message waits a moment for others from the same person, and how long.

Off by default: an idle session starts at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from tidegate.routing.commands import is_control_command_message
from tidegate.routing.normalize import fold

MAX_EXTENSION: Final = 5
"""However much somebody types, a burst ends after this many debounce times."""

TELEGRAM_SPLIT_LENGTH: Final = 4000
"""Telegram clients cut longer texts in pieces at about this many characters; a piece waits for the next."""
TELEGRAM_SPLIT_WAIT: Final = timedelta(milliseconds=1500)


@dataclass(frozen=True, slots=True)
class DebounceSettings:
    """`messages.inbound`, in milliseconds; None where the config is silent."""

    debounce_ms: float | None = None
    by_channel: Mapping[str, float] = field(default_factory=dict)


def debounce_time(settings: DebounceSettings, channel: str, override_ms: float | None = None) -> timedelta:
    """Return how long to wait for more text; zero when negative or not a number."""
    layers = (override_ms, settings.by_channel.get(fold(channel)), settings.debounce_ms)
    chosen = next((value for value in layers if value is not None), 0)
    return timedelta(milliseconds=max(0, math.floor(chosen)) if math.isfinite(chosen) else 0)


def should_debounce(text: str, *, has_media: bool = False, is_allowed: bool = True) -> bool:
    """Return whether a message may wait: text only, and no command or word that stops the agent."""
    return is_allowed and not has_media and bool(text.strip()) and not is_control_command_message(text)


def waits_for_continuation(channel: str, text: str) -> bool:
    """Return whether a text looks like a piece of a longer one that the platform cut."""
    return fold(channel) == "telegram" and len(text) >= TELEGRAM_SPLIT_LENGTH
