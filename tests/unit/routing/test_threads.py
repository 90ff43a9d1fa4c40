"""Threads and topics in keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.routing import threads

BASE = "agent:main:slack:channel:c1"


@given(st.from_regex(r"[a-z0-9.$:]{1,12}", fullmatch=True).filter(lambda text: ":thread:" not in f":{text}:"))
def test_a_thread_suffix_can_be_taken_off_again(thread: str) -> None:
    assert threads.split_thread(threads.thread_keys(BASE, thread).key) == (BASE, thread)


@pytest.mark.parametrize("blank", [None, "", "  "])
def test_a_blank_thread_is_the_base_without_a_parent(blank: str | None) -> None:
    assert threads.thread_keys(BASE, blank, BASE) == threads.ThreadKeys(BASE)


def test_case_is_kept_only_on_request() -> None:
    assert threads.thread_keys(BASE, "AbC").key.endswith(":abc")
    assert threads.thread_keys(BASE, "AbC", keep_case=True).key.endswith(":AbC")


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("-100:topic:5", ("-100", 5)),
        ("-100:5", ("-100", 5)),
        ("-100:TOPIC:5", ("-100", 5)),
        ("-100", None),
        ("-1:topic:x", None),
    ],
)
def test_topics_are_read_in_both_spellings(text: str, topic: tuple[str, int] | None) -> None:
    assert threads.parse_topic(text) == topic


def test_a_forum_message_without_a_thread_is_in_the_general_topic_and_other_groups_have_none() -> None:
    assert threads.telegram_forum_topic(is_group=True, is_forum=True, thread=None) == 1
    assert threads.telegram_forum_topic(is_group=True, is_forum=False, thread=9) is None
