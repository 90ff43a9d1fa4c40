"""Queue settings and the `/queue` command."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.routing.queue_settings import (
    DropPolicy,
    QueueConfig,
    QueueMode,
    QueueOverride,
    QueueRequest,
    QueueSettings,
    inline_queue_directive,
    parse_mode,
    parse_queue_arguments,
    resolve_settings,
)


def test_nothing_said_means_collect() -> None:
    assert resolve_settings(QueueConfig(), "telegram") == QueueSettings(
        QueueMode.COLLECT, 500, 20, DropPolicy.SUMMARIZE
    )


@pytest.mark.parametrize("text", ["steer-backlog", "Steer+Backlog", " steer_backlog "])
def test_steer_backlog_has_three_spellings(text: str) -> None:
    assert parse_mode(text) is QueueMode.STEER_BACKLOG


def test_the_message_beats_the_session_the_session_the_channel_and_the_channel_the_config() -> None:
    config = QueueConfig(QueueOverride(QueueMode.STEER, 1, 3), {"discord": QueueMode.INTERRUPT}, {"discord": 2})
    session = QueueOverride(QueueMode.FOLLOWUP)
    inline = QueueOverride(debounce_ms=0)
    assert resolve_settings(config, "Discord").mode is QueueMode.INTERRUPT
    assert resolve_settings(config, "slack").mode is QueueMode.STEER
    found = resolve_settings(config, "discord", session, inline, channel_debounce_ms=9)
    assert (found.mode, found.debounce_ms, found.cap) == (QueueMode.FOLLOWUP, 0, 3)


@given(st.floats(), st.floats())
def test_limits_are_always_usable(debounce: float, cap: float) -> None:
    found = resolve_settings(QueueConfig(QueueOverride(debounce_ms=debounce, cap=cap)), "x")
    assert found.debounce_ms >= 0
    assert found.cap >= 1


def test_the_command_sets_shows_and_clears() -> None:
    found = parse_queue_arguments("collect debounce:2s cap=25 drop:old")
    assert found.request is QueueRequest.SET
    assert found.override == QueueOverride(QueueMode.COLLECT, 2000, 25, DropPolicy.OLD)
    assert parse_queue_arguments("").request is QueueRequest.SHOW
    assert parse_queue_arguments("Reset").request is QueueRequest.CLEAR


@pytest.mark.parametrize("bad", ["nonsense", "collect cap:0", "cap:two", "debounce:soon", "drop:all", "collect please"])
def test_a_bad_value_changes_nothing_and_is_named(bad: str) -> None:
    found = parse_queue_arguments(bad)
    assert found.request is QueueRequest.INVALID
    assert found.override == QueueOverride()
    assert bad.split()[-1].split(":")[-1] in found.problem


def test_a_directive_inside_a_message_is_taken_out_of_it() -> None:
    found = inline_queue_directive("hello /queue interrupt cap:3 and more")
    assert found is not None
    assert found.text == "hello and more"
    assert found.override == QueueOverride(QueueMode.INTERRUPT, cap=3)


@pytest.mark.parametrize(
    "text", ["hello", "a/queue collect", "what does /queue do?", "/queue collect", "x /queued collect"]
)
def test_what_is_no_directive_leaves_the_message_alone(text: str) -> None:
    assert inline_queue_directive(text) is None


@given(st.text(max_size=40))
def test_any_words_are_understood_or_refused(text: str) -> None:
    assert (parse_queue_arguments(text).request is QueueRequest.INVALID) == bool(parse_queue_arguments(text).problem)
    found = inline_queue_directive(text)
    assert found is None or found.text
