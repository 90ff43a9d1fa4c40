"""When sessions start afresh."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.clock import DAY, HOUR, MINUTE, SECOND
from tidegate.routing.reset import (
    ResetMode,
    ResetPolicy,
    ResetRequest,
    SessionTimes,
    StaleReason,
    daily_boundary,
    freshness,
    reset_request,
)

ZONES = st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Europe/London"]).map(
    ZoneInfo
)
INSTANTS = st.integers(1_600_000_000 * SECOND, 2_000_000_000 * SECOND)


def at(text: str, zone: str) -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))
    return int(moment.timestamp()) * SECOND


@given(INSTANTS, st.integers(0, 23), ZONES)
def test_the_boundary_lies_at_most_a_day_and_a_clock_change_back(now: int, hour: int, zone: ZoneInfo) -> None:
    found = daily_boundary(now, hour, zone)
    assert found <= now < found + DAY + 2 * HOUR
    local = datetime.fromtimestamp(found / SECOND, UTC).astimezone(zone)
    assert local.hour == hour or (local.hour - hour) % 24 == 1, "an hour that was skipped counts from the change on"


@given(INSTANTS, st.integers(0, DAY), st.integers(0, 23), ZONES)
def test_time_never_makes_a_stale_session_fresh_again(started: int, later: int, hour: int, zone: ZoneInfo) -> None:
    policy = ResetPolicy(ResetMode.DAILY, hour, 30)
    times = SessionTimes(started, started, started)
    first = freshness(times, policy, started + later, zone)
    assert first.is_fresh or not freshness(times, policy, started + later + HOUR, zone).is_fresh


def test_the_clock_change_moves_the_boundary_with_the_wall_clock() -> None:
    zone = ZoneInfo("America/New_York")
    before = daily_boundary(at("2026-03-07T12:00", "America/New_York"), 4, zone)
    after = daily_boundary(at("2026-03-08T12:00", "America/New_York"), 4, zone)
    assert after - before == 23 * HOUR


def test_idle_sessions_end_after_the_minutes_and_not_at_them() -> None:
    policy = ResetPolicy(ResetMode.IDLE, idle_minutes=10)
    times = SessionTimes(100 * DAY, 100 * DAY, 100 * DAY)
    zone = ZoneInfo("UTC")
    assert freshness(times, policy, 100 * DAY + 10 * MINUTE, zone).is_fresh
    assert freshness(times, policy, 100 * DAY + 10 * MINUTE + 1, zone).stale_reason is StaleReason.IDLE


def test_without_a_policy_a_session_never_ends() -> None:
    assert freshness(SessionTimes(1, 1, 1), ResetPolicy(), 10**15, ZoneInfo("UTC")).is_fresh


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("/new", ResetRequest("/new", "")),
        (" /NEW hello ", ResetRequest("/new", "hello")),
        ("/reset\nline one\nline two", ResetRequest("/reset", "line one\nline two")),
        ("/new@TideBot go", ResetRequest("/new", "go")),
        ("/new: go", ResetRequest("/new", "go")),
        ("/reset soft", ResetRequest(None, "", is_soft=True)),
        ("/reset soft again", ResetRequest(None, "again", is_soft=True)),
        ("/reset softly", ResetRequest("/reset", "softly")),
        ("/newer", None),
        ("hello /new", None),
        ("/new@other", None),
        ("new", None),
    ],
)
def test_a_fresh_session_is_asked_for_at_the_beginning_of_a_message(text: str, asked: ResetRequest | None) -> None:
    assert reset_request(text, bot_username="@tidebot") == asked


def test_configured_triggers_replace_the_built_in_ones() -> None:
    assert reset_request("Start Over please", ["start over"]) == ResetRequest("start over", "please")
    assert reset_request("/new", ["start over"]) is None
    assert reset_request("/new", []) == ResetRequest("/new", "")
    assert reset_request("", [""]) is None
