"""Transcripts are valid whatever was recorded, and trimming keeps them so."""

from __future__ import annotations

import json
from asyncio import run

from hypothesis import given
from hypothesis import strategies as st

from fakes.fake_model import check_openai
from tidegate.agent_runtime.history import (
    OUTCOME_UNKNOWN,
    estimate_tokens,
    tool_result,
    trim_history,
    valid_history,
)
from tidegate.agent_runtime.messages import Image, Message, Role, ToolCall
from tidegate.agent_runtime.models.base import ModelRequest
from tidegate.agent_runtime.models.openai_wire import Dialect, encode_request

IDS = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.sampled_from(["", " ", "short", "a longer text " * 20])
MESSAGES = st.lists(
    st.one_of(
        st.builds(lambda text: Message(Role.USER, text), TEXTS),
        st.builds(
            lambda text, ids: Message(Role.ASSISTANT, text, tool_calls=tuple(ToolCall(i, "t", "{}") for i in ids)),
            TEXTS,
            st.lists(IDS, max_size=3),
        ),
        st.builds(lambda call_id, text: tool_result(call_id, text), IDS, TEXTS),
    ),
    max_size=25,
)


def user(text: str) -> Message:
    return Message(Role.USER, text)


def asks(*ids: str) -> Message:
    return Message(Role.ASSISTANT, tool_calls=tuple(ToolCall(call_id, "t", "{}") for call_id in ids))


def problem(messages: tuple[Message, ...]) -> str:
    """Return what a real server would object to."""
    body = run(encode_request(ModelRequest("m", ("", ""), messages), "p", Dialect(), None))
    return check_openai(json.loads(body)["messages"])


def test_a_good_transcript_stays_as_it_is() -> None:
    good = (user("x"), asks("a", "b"), tool_result("a", "1"), tool_result("b", "2"), Message(Role.ASSISTANT, "y"))
    assert valid_history(good) == good


def test_missing_results_are_filled_in_and_late_ones_move_up() -> None:
    history = valid_history((asks("a", "b"), user("new"), tool_result("b", "2")))
    assert history == (
        asks("a", "b"),
        tool_result("a", OUTCOME_UNKNOWN, is_error=True),
        tool_result("b", "2"),
        user("new"),
    )


def test_orphans_repetitions_and_empty_messages_are_dropped() -> None:
    history = valid_history(
        (tool_result("z", "orphan"), asks("a", "a"), tool_result("a", "1"), tool_result("a", "2"), user(" "))
    )
    assert history == (asks("a"), tool_result("a", "1"))


def test_a_picture_without_words_is_a_message() -> None:
    picture = Message(Role.USER, images=(Image("sha256:1", "image/png"),))
    assert valid_history((picture,)) == (picture,)


@given(MESSAGES)
def test_any_record_becomes_valid_and_stays_so(messages: list[Message]) -> None:
    history = valid_history(messages)
    assert problem(history) == ""
    assert valid_history(history) == history


@given(MESSAGES, st.integers(0, 400))
def test_trimming_never_splits_a_pair_and_keeps_the_end(messages: list[Message], budget: int) -> None:
    history = valid_history(messages)
    trimmed = trim_history(history, budget)
    assert problem(trimmed) == ""
    assert trimmed[-1:] == history[-1:]
    if trimmed != history:
        assert sum(map(estimate_tokens, history)) > budget
        users = [message for message in history if message.role is Role.USER]
        assert not users or trimmed[0].role is Role.USER


def conversation(turns: int) -> tuple[Message, ...]:
    messages: list[Message] = []
    for number in range(turns):
        call_id = f"c{number}"
        messages += [user(f"q{number} " * 50), asks(call_id), tool_result(call_id, "r" * 400)]
        messages.append(Message(Role.ASSISTANT, f"a{number} " * 50))
    return tuple(messages)


def test_the_cut_fits_the_budget_and_begins_with_a_user() -> None:
    trimmed = trim_history(conversation(60), 5000)
    assert sum(map(estimate_tokens, trimmed)) <= 5000
    assert trimmed[0].role is Role.USER


def test_the_cut_stays_where_it_is_while_the_conversation_grows_a_little() -> None:
    beginnings = [trim_history(conversation(turns), 5000)[0].text for turns in range(40, 80)]
    assert len(set(beginnings)) <= 14


def test_one_turn_that_is_too_long_loses_its_oldest_steps_but_not_the_question() -> None:
    messages: list[Message] = [user("the question")]
    for number in range(50):
        messages += [asks(f"c{number}"), tool_result(f"c{number}", "r" * 400)]
    trimmed = trim_history(messages, 2000)
    assert trimmed[0] == user("the question")
    assert trimmed[-1] == messages[-1]
    assert sum(map(estimate_tokens, trimmed)) <= 2000
    assert problem(trimmed) == ""
