"""How a session's queue behaves: modes, limits, and the `/queue` command that changes them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from tidegate.config.durations import parse_duration_ms
from tidegate.routing.normalize import fold

DEFAULT_DEBOUNCE_MS: Final = 500
DEFAULT_CAP: Final = 20
MAX_DEBOUNCE_MS: Final = 3_600_000
"""An hour: whoever sets more means something else."""
MAX_CHAT_DEBOUNCE_MS: Final = 60_000
"""What somebody may set from a chat: a session is shared in groups."""
MAX_CAP: Final = 1_000


class QueueMode(StrEnum):
    """What happens to a message that comes in while the session's run is busy."""

    COLLECT = "collect"
    STEER = "steer"
    FOLLOWUP = "followup"
    INTERRUPT = "interrupt"
    STEER_BACKLOG = "steer-backlog"


class DropPolicy(StrEnum):
    """Which message gives way when more wait than the cap allows."""

    OLD = "old"
    NEW = "new"
    SUMMARIZE = "summarize"


_MODES: Final = {
    "collect": QueueMode.COLLECT,
    "coalesce": QueueMode.COLLECT,
    "steer": QueueMode.STEER,
    "steering": QueueMode.STEER,
    "queue": QueueMode.STEER,
    "queued": QueueMode.STEER,
    "followup": QueueMode.FOLLOWUP,
    "followups": QueueMode.FOLLOWUP,
    "follow-up": QueueMode.FOLLOWUP,
    "follow-ups": QueueMode.FOLLOWUP,
    "interrupt": QueueMode.INTERRUPT,
    "interrupts": QueueMode.INTERRUPT,
    "abort": QueueMode.INTERRUPT,
    "steer-backlog": QueueMode.STEER_BACKLOG,
    "steer+backlog": QueueMode.STEER_BACKLOG,
    "steer_backlog": QueueMode.STEER_BACKLOG,
}
_DROPS: Final = {
    "old": DropPolicy.OLD,
    "oldest": DropPolicy.OLD,
    "new": DropPolicy.NEW,
    "newest": DropPolicy.NEW,
    "summarize": DropPolicy.SUMMARIZE,
    "summarise": DropPolicy.SUMMARIZE,
    "summary": DropPolicy.SUMMARIZE,
}


def parse_mode(text: str | None) -> QueueMode | None:
    """Return the mode that a spelling stands for, or None."""
    return _MODES.get(fold(text))


def parse_drop(text: str | None) -> DropPolicy | None:
    """Return the drop policy that a spelling stands for, or None."""
    return _DROPS.get(fold(text))


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The settings in force for one session.

    Attributes:
        debounce_ms: Quiet time after the last message before what waited is run; never for an idle session.
        cap: Most messages that may wait; at least 1.
    """

    mode: QueueMode = QueueMode.COLLECT
    debounce_ms: int = DEFAULT_DEBOUNCE_MS
    cap: int = DEFAULT_CAP
    drop: DropPolicy = DropPolicy.SUMMARIZE


@dataclass(frozen=True, slots=True)
class QueueOverride:
    """A part of the settings, from a session or from one message; None leaves the rest as it is."""

    mode: QueueMode | None = None
    debounce_ms: float | None = None
    cap: float | None = None
    drop: DropPolicy | None = None

    def over(self, below: QueueOverride | None) -> QueueOverride:
        """Return this override with its gaps filled from `below`."""
        if below is None:
            return self
        return QueueOverride(
            self.mode or below.mode,
            below.debounce_ms if self.debounce_ms is None else self.debounce_ms,
            below.cap if self.cap is None else self.cap,
            self.drop or below.drop,
        )


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """`messages.queue`; channel names are in lower case."""

    base: QueueOverride = field(default_factory=QueueOverride)
    mode_by_channel: Mapping[str, QueueMode] = field(default_factory=dict)
    debounce_ms_by_channel: Mapping[str, float] = field(default_factory=dict)


def resolve_settings(
    config: QueueConfig,
    channel: str,
    session: QueueOverride | None = None,
    inline: QueueOverride | None = None,
    channel_debounce_ms: float | None = None,
) -> QueueSettings:
    """Return the settings for a message: the message's own, the session's, the channel's, the config's, the default.

    Args:
        channel_debounce_ms: What the channel's adapter proposes where the config is silent.
    """
    name = fold(channel)
    by_channel = QueueOverride(config.mode_by_channel.get(name), config.debounce_ms_by_channel.get(name))
    proposed = QueueOverride(QueueMode.COLLECT, channel_debounce_ms, DEFAULT_CAP, DropPolicy.SUMMARIZE)
    found = QueueOverride()
    for layer in (inline, session, by_channel, config.base, proposed):
        found = found.over(layer)
    return QueueSettings(
        mode=found.mode or QueueMode.COLLECT,
        debounce_ms=_whole(found.debounce_ms, DEFAULT_DEBOUNCE_MS, 0, MAX_DEBOUNCE_MS),
        cap=_whole(found.cap, DEFAULT_CAP, 1, MAX_CAP),
        drop=found.drop or DropPolicy.SUMMARIZE,
    )


def _whole(value: float | None, default: int, least: int, most: int) -> int:
    return default if value is None or not math.isfinite(value) else min(most, max(least, math.floor(value)))


class QueueRequest(StrEnum):
    """What a `/queue` command asks for."""

    SHOW = "show"
    CLEAR = "clear"
    SET = "set"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class QueueCommand:
    """A parsed `/queue`.

    Attributes:
        problem: What is wrong, for the person who wrote it; nothing is changed then.
    """

    request: QueueRequest
    override: QueueOverride = field(default_factory=QueueOverride)
    problem: str = ""


_CLEAR: Final = frozenset({"default", "reset", "clear"})
_OPTION: Final = re.compile(r"(?P<name>debounce|cap|drop)[:=](?P<value>\S*)", re.IGNORECASE)
_DIRECTIVE: Final = re.compile(r"(?:^|(?<=\s))/queue(?=$|[\s:])[:\s]*", re.IGNORECASE)


def parse_queue_arguments(arguments: str) -> QueueCommand:
    """Return what the words after `/queue` ask for."""
    words = arguments.split()
    if not words:
        return QueueCommand(QueueRequest.SHOW)
    if len(words) == 1 and words[0].lower() in _CLEAR:
        return QueueCommand(QueueRequest.CLEAR)
    override = QueueOverride()
    for word in words:
        changed = _apply(override, word)
        if isinstance(changed, str):
            return QueueCommand(QueueRequest.INVALID, problem=changed)
        override = changed
    return QueueCommand(QueueRequest.SET, override)


def _apply(override: QueueOverride, word: str) -> QueueOverride | str:
    """Return `override` with one more word applied, or what is wrong with the word."""
    option = _OPTION.fullmatch(word)
    if option is None:
        mode = parse_mode(word)
        if mode is None:
            return f"unknown queue mode {word!r}; use {', '.join(QueueMode)}"
        return replace(override, mode=mode)
    value = option["value"]
    match option["name"].lower():
        case "debounce":
            try:
                chosen = parse_duration_ms(value, "ms")
            except ValueError:
                return f"invalid debounce {value!r}; use for example 500ms or 2s"
            if chosen > MAX_CHAT_DEBOUNCE_MS:
                return f"invalid debounce {value!r}; at most {MAX_CHAT_DEBOUNCE_MS // 1000}s"
            return replace(override, debounce_ms=chosen)
        case "cap":
            if not (value.isascii() and value.isdigit() and int(value[:9]) > 0):
                return f"invalid cap {value!r}; use a whole number above zero"
            return replace(override, cap=int(value[:9]))
        case _:
            drop = parse_drop(value)
            return (
                f"invalid drop {value!r}; use old, new or summarize" if drop is None else replace(override, drop=drop)
            )


@dataclass(frozen=True, slots=True)
class QueueDirective:
    """A `/queue` inside a message: it holds for that message, and `text` is what the model gets."""

    override: QueueOverride
    text: str


def inline_queue_directive(text: str) -> QueueDirective | None:
    """Return the `/queue <mode> …` inside a longer message, or None when there is none.

    Words after `/queue` that are no mode or option belong to the message.
    """
    found = _DIRECTIVE.search(text)
    if found is None:
        return None
    override, at = QueueOverride(), found.end()
    for word in re.finditer(r"\S+", text[found.end() :]):
        changed = _apply(override, word.group())
        if isinstance(changed, str):
            break
        override, at = changed, found.end() + word.end()
    rest = " ".join(part for part in (text[: found.start()].rstrip(), text[at:].lstrip()) if part)
    if override == QueueOverride() or not rest:
        return None
    return QueueDirective(override, rest)
