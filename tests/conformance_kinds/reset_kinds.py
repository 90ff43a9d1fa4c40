"""Vectors about resets and freshness."""

from __future__ import annotations

import math
from typing import Any
from zoneinfo import ZoneInfo

from conformance_kinds.routing_kinds import Row
from tidegate.routing import reset
from tidegate.routing.reset import ResetMode, ResetPolicy, ResetRule, ResetSettings, ResetType, SessionTimes

_MICROS = 1000


def rule(raw: Any) -> ResetRule | None:
    """Return a raw reset section."""
    if not isinstance(raw, dict):
        return None
    mode = raw.get("mode")
    return ResetRule(
        ResetMode(mode) if mode in set(ResetMode) else None, _number(raw.get("atHour")), _number(raw.get("idleMinutes"))
    )


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if is_number else None


def settings(session: Row) -> ResetSettings:
    """Return the reset sections of a raw session section."""
    by_type = {
        ResetType(k): r for k, v in (session.get("resetByType") or {}).items() if k in set(ResetType) and (r := rule(v))
    }
    by_channel = {k: r for k, v in (session.get("resetByChannel") or {}).items() if (r := rule(v))}
    return ResetSettings(rule(session.get("reset")), by_type, by_channel)


def _policy(policy: ResetPolicy) -> Row:
    answer: Row = {"mode": policy.mode.value, "atHour": policy.at_hour, "configured": policy.is_configured}
    return answer if policy.idle_minutes is None else answer | {"idleMinutes": policy.idle_minutes}


def answer_reset(row: Row) -> Any:
    """Answer a row about reset policies and triggers."""
    raw = row["input"]
    match row["fn"]:
        case "resolveSessionResetPolicy":
            kind = ResetType(raw["resetType"])
            return _policy(reset.reset_policy(settings(raw["session"]), kind, override=rule(raw.get("resetOverride"))))
        case "resolveChannelResetConfig":
            channel = raw.get("channel")
            found = settings(raw["session"]).for_channel(channel)
            if found is None:
                return None
            values = {"mode": found.mode, "atHour": found.at_hour, "idleMinutes": found.idle_minutes}
            return {name: value for name, value in values.items() if value is not None}
        case "resolveSessionResetType":
            return reset.reset_type(
                raw.get("sessionKey") or "",
                is_group=raw.get("isGroup") is True,
                is_thread=raw.get("isThread") is True,
            ).value
        case "resolveThreadFlag":
            return _is_thread(raw)
    return _trigger(raw)


def _is_thread(raw: Row) -> bool:
    blank = (str(raw.get(name) or "").strip() for name in ("threadLabel", "threadStarterBody", "parentSessionKey"))
    flagged = raw.get("messageThreadId") is not None or any(blank)
    return flagged or reset.reset_type(raw.get("sessionKey") or "") is ResetType.THREAD


def _trigger(raw: Row) -> Row:
    triggers = raw["session"].get("resetTriggers") or reset.DEFAULT_TRIGGERS
    found = reset.reset_request(raw["text"], triggers, raw.get("botUsername"))
    is_match = found is not None and not found.is_soft
    return {
        "matched": is_match,
        "trigger": found.trigger if found and is_match else None,
        "payload": found.payload if found and is_match else None,
        "soft": found is not None and found.is_soft,
    }


def answer_freshness(row: Row) -> Any:
    """Answer a row about freshness."""
    raw = row["input"]
    if row["fn"] == "composedFreshness":
        kind = reset.reset_type(raw["sessionKey"])
        policy = reset.reset_policy(settings(raw["session"]), kind, raw.get("channel"))
        return {"resetType": kind.value, "policy": _policy(policy)} | _freshness(raw, policy, row["tz"])
    given = raw["policy"]
    idle = given.get("idleMinutes")
    policy = ResetPolicy(ResetMode(given["mode"]), given["atHour"], idle, is_configured=True)
    return _freshness(raw, policy, row["tz"])


def _freshness(raw: Row, policy: ResetPolicy, zone: str) -> Row:
    times = SessionTimes(
        _instant(raw.get("updatedAt")), _instant(raw.get("sessionStartedAt")), _instant(raw.get("lastInteractionAt"))
    )
    found = reset.freshness(times, policy, raw["now"] * _MICROS, ZoneInfo(zone))
    answer: Row = {"fresh": found.is_fresh}
    if found.daily_reset_at is not None:
        answer["dailyResetAt"] = found.daily_reset_at // _MICROS
    if found.idle_expires_at is not None:
        answer["idleExpiresAt"] = found.idle_expires_at // _MICROS
    return answer | ({"staleReason": found.stale_reason.value} if found.stale_reason else {})


def _instant(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number * _MICROS)
