"""Waiting for more text."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tidegate.routing.debounce import DebounceSettings, debounce_time, should_debounce, waits_for_continuation


def test_nothing_waits_unless_the_config_says_so() -> None:
    assert debounce_time(DebounceSettings(), "telegram") == timedelta(0)


def test_the_channels_time_beats_the_general_one() -> None:
    settings = DebounceSettings(2000, {"telegram": 750})
    assert debounce_time(settings, "Telegram") == timedelta(milliseconds=750)
    assert debounce_time(settings, "slack") == timedelta(seconds=2)


@given(st.floats())
def test_no_number_makes_a_wait_negative_or_endless(value: float) -> None:
    if value < 1e9 or value != value or value == float("inf"):
        assert timedelta(0) <= debounce_time(DebounceSettings(value), "x") < timedelta(days=30)


def test_commands_stop_words_and_media_do_not_wait() -> None:
    assert should_debounce("hey /status")
    assert not any(map(should_debounce, ["/status", "stop", "", "  "]))
    assert not should_debounce("look", has_media=True)


def test_only_long_telegram_texts_wait_for_their_continuation() -> None:
    assert waits_for_continuation("telegram", "x" * 4000)
    assert not waits_for_continuation("telegram", "x" * 3999)
    assert not waits_for_continuation("discord", "x" * 4000)
