"""When a session starts afresh: the policy that applies, and whether a session is stale under it.

Instants are microseconds UTC. The daily boundary is a wall-clock hour in the configured zone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Final

from tidegate.clock import MINUTE
from tidegate.routing import normalize
from tidegate.routing.normalize import fold
from tidegate.routing.threads import THREAD_MARK

DEFAULT_HOUR: Final = 4
DEFAULT_TRIGGERS: Final = ("/new", "/reset")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ResetType(StrEnum):
    """What sort of session a reset rule is for."""

    DIRECT = "direct"
    GROUP = "group"
    THREAD = "thread"


class ResetMode(StrEnum):
    """What ends a session by itself."""

    NONE = "none"
    DAILY = "daily"
    IDLE = "idle"


class StaleReason(StrEnum):
    """Which deadline ended a session."""

    DAILY = "daily"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class ResetRule:
    """A reset section as written; None stands for a field that is not there."""

    mode: ResetMode | None = None
    at_hour: float | None = None
    idle_minutes: float | None = None

    def over(self, below: ResetRule | None) -> ResetRule:
        """Return this rule with its gaps filled from `below`."""
        if below is None:
            return self
        return ResetRule(
            self.mode if self.mode is not None else below.mode,
            self.at_hour if self.at_hour is not None else below.at_hour,
            self.idle_minutes if self.idle_minutes is not None else below.idle_minutes,
        )


@dataclass(frozen=True, slots=True)
class ResetSettings:
    """The reset sections of a config."""

    base: ResetRule | None = None
    by_type: Mapping[ResetType, ResetRule] = field(default_factory=dict)
    by_channel: Mapping[str, ResetRule] = field(default_factory=dict)

    def for_channel(self, channel: str | None) -> ResetRule | None:
        """Return the rule of a channel, if it has one of its own; config keys are canonical names."""
        name = normalize.message_channel(channel)
        return self.by_channel.get(name) if name else None


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    """The rule in force for one session.

    Attributes:
        at_hour: 0 to 23.
        idle_minutes: 0 means never; None means that nobody said.
        is_configured: The config says anything at all about this session.
    """

    mode: ResetMode = ResetMode.NONE
    at_hour: int = DEFAULT_HOUR
    idle_minutes: int | None = None
    is_configured: bool = False


def reset_type(key: str, *, is_group: bool = False, is_thread: bool = False) -> ResetType:
    """Return what sort of session a key is; a forum topic's key alone reads as a group."""
    folded = key.lower()
    if is_thread or THREAD_MARK in folded:
        return ResetType.THREAD
    if is_group or ":group:" in folded or ":channel:" in folded:
        return ResetType.GROUP
    return ResetType.DIRECT


def reset_policy(
    settings: ResetSettings, kind: ResetType, channel: str | None = None, override: ResetRule | None = None
) -> ResetPolicy:
    """Return the policy for a session.

    A channel's own rule (or `override`) replaces everything; otherwise the rule for the session's type lies over
    the base rule field by field. Anything written without a mode means daily.
    """
    rule = override or settings.for_channel(channel)
    if rule is None:
        own = settings.by_type.get(kind)
        rule = own.over(settings.base) if own is not None else settings.base
    if rule is None:
        return ResetPolicy()
    mode = rule.mode or ResetMode.DAILY
    idle = None if rule.idle_minutes is None else max(0, math.floor(rule.idle_minutes))
    if idle is None and mode is ResetMode.IDLE:
        idle = 0
    hour = DEFAULT_HOUR if rule.at_hour is None else min(23, max(0, math.floor(rule.at_hour)))
    return ResetPolicy(mode, hour, idle, is_configured=True)


@dataclass(frozen=True, slots=True)
class SessionTimes:
    """What is known of a session's past; None where it is not."""

    updated_at: int | None = None
    started_at: int | None = None
    last_interaction_at: int | None = None


@dataclass(frozen=True, slots=True)
class Freshness:
    """Whether a session may go on.

    Attributes:
        daily_reset_at: The latest daily boundary, in daily mode.
        idle_expires_at: When the session ends if nobody speaks, where that is limited.
        stale_reason: Which deadline came first, when not fresh; None for a session without a past.
    """

    is_fresh: bool
    daily_reset_at: int | None = None
    idle_expires_at: int | None = None
    stale_reason: StaleReason | None = None


def freshness(times: SessionTimes, policy: ResetPolicy, now: int, zone: tzinfo) -> Freshness:
    """Return whether a session is still fresh at `now`; stale is strictly past a deadline."""
    if times.updated_at == 0:
        return Freshness(is_fresh=False)
    updated = _sane(times.updated_at, now) or 0
    started = _sane(times.started_at, now)
    interaction = _sane(times.last_interaction_at, now)
    if policy.mode is ResetMode.NONE:
        return Freshness(is_fresh=True)
    began = updated if started is None else started
    daily = daily_boundary(now, policy.at_hour, zone) if policy.mode is ResetMode.DAILY else None
    idle = None
    if policy.idle_minutes:
        idle = (began if interaction is None else interaction) + policy.idle_minutes * MINUTE
    daily_deadline = daily if daily is not None and began < daily else None
    idle_deadline = idle if idle is not None and now > idle else None
    reason = None
    if daily_deadline is not None and (idle_deadline is None or daily_deadline <= idle_deadline):
        reason = StaleReason.DAILY
    elif idle_deadline is not None:
        reason = StaleReason.IDLE
    return Freshness(reason is None, daily, idle, reason)


def _sane(instant: int | None, now: int) -> int | None:
    return instant if instant is not None and 0 <= instant <= now else None


def daily_boundary(now: int, at_hour: int, zone: tzinfo) -> int:
    """Return the latest instant at or before `now` when the clock in `zone` read `at_hour`:00.

    An hour that a clock change skips counts from the change on; one that happens twice counts the first time.
    """
    local = (_EPOCH + timedelta(microseconds=now)).astimezone(zone)
    today = _instant(local, at_hour)
    return today if today <= now else _instant(local - timedelta(days=1), at_hour)


def _instant(day: datetime, hour: int) -> int:
    at = day.replace(hour=hour, minute=0, second=0, microsecond=0, fold=0)
    return (at - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """A message that asks for a fresh session.

    Attributes:
        trigger: The configured trigger that matched; `/reset soft` has none.
        payload: The rest of the message, which becomes the first message of the new session.
        is_soft: `/reset soft`: the instructions are read again, the conversation goes on.
    """

    trigger: str | None
    payload: str
    is_soft: bool = False


def reset_request(
    text: str, triggers: Sequence[str] = DEFAULT_TRIGGERS, bot_username: str | None = None
) -> ResetRequest | None:
    """Return what a message asks for, or None when it asks for no reset."""
    body = _without_bot_name(normalize.trim(text), bot_username)
    words = body.split(maxsplit=2)
    if [word.lower() for word in words[:2]] == ["/reset", "soft"]:
        return ResetRequest(None, words[2] if len(words) > 2 else "", is_soft=True)
    for trigger in triggers or DEFAULT_TRIGGERS:
        # A trigger with spaces around it, or an empty one, was never meant for anything a person types.
        if trigger and trigger == normalize.trim(trigger) and body.lower().startswith(trigger.lower()):
            rest = body[len(trigger) :]
            if trigger.startswith("/") and rest.startswith(":"):
                return ResetRequest(trigger, normalize.trim(rest[1:]))
            if not rest or rest[0].isspace():
                return ResetRequest(trigger, normalize.trim(rest))
    return None


def _without_bot_name(body: str, bot_username: str | None) -> str:
    command, at, rest = body.partition("@")
    if not at or not bot_username or not command.startswith("/") or any(sign.isspace() for sign in command):
        return body
    name = fold(bot_username).lstrip("@")
    addressed = rest[: len(name)].lower() == name
    tail = rest[len(name) :]
    return command + tail if addressed and (not tail or not (tail[0].isalnum() or tail[0] == "_")) else body
