"""The words for silence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.silence import (
    is_scratch_empty,
    is_silent_payload,
    is_silent_prefix,
    is_silent_text,
    strip_heartbeat,
    strip_silent,
)


@given(st.text(max_size=60))
def test_text_without_the_words_is_only_trimmed(text: str) -> None:
    if "NO_REPLY" not in text.upper() and "HEARTBEAT_OK" not in text:
        assert strip_silent(text) == text.strip()
        assert strip_heartbeat(text).text == text.strip()
        assert not is_silent_payload(text)


@given(st.text(alphabet="NO_REPLY ab.*`", max_size=20))
def test_a_silent_text_is_a_silent_payload(text: str) -> None:
    assert is_silent_text(text) <= is_silent_payload(text)


@pytest.mark.parametrize("length", range(2, 9))
def test_every_beginning_of_the_word_is_held_back_in_capitals_only(length: int) -> None:
    assert is_silent_prefix("NO_REPLY"[:length])
    assert not is_silent_prefix("no_reply"[:length])


def test_the_heartbeat_word_inside_a_sentence_stays() -> None:
    assert strip_heartbeat("say HEARTBEAT_OK when done please").was_stripped is False


@pytest.mark.parametrize("markup", ["<b>HEARTBEAT_OK</b>", "**HEARTBEAT_OK**", "HEARTBEAT_OK HEARTBEAT_OK"])
def test_the_heartbeat_word_in_markup_or_twice_is_silence(markup: str) -> None:
    assert strip_heartbeat(markup).is_silent


@pytest.mark.parametrize("text", ["─" * 100_000 + "x", "NO_REPLYx" + "<" * 100_000, "a" + " " * 100_000 + "NO_REPLYx"])
def test_long_decorations_and_runs_of_spaces_are_no_silence(text: str) -> None:
    assert not is_silent_payload(text)


def test_a_scratch_file_with_a_task_is_not_empty() -> None:
    assert is_scratch_empty("# Tasks\n\n- [ ]\n<!-- later\n-->\n")
    assert not is_scratch_empty("- [ ] water the plants")
    assert not is_scratch_empty(None)
