"""Small texts: errors, arguments of tools, messages of transcripts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.client.errors import ClientError, Forbidden, RateLimited, Unreachable
from tidegate.gateway.client.refusals import denied, refused
from tidegate.gateway.client.said import last_answer, text_of
from tidegate.gateway.client.tools import MAX_SUMMARY, summary

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=10,
)


@given(st.text())
def test_an_error_is_one_line_that_can_be_printed(text: str):
    told = str(ClientError(text))
    assert told.isprintable()
    assert len(told) <= 600


CODES = st.sampled_from(["PAIRING_REQUIRED", "AUTH_RATE_LIMITED", "PROTOCOL_MISMATCH", "AUTH_TOKEN_MISSING", "X"])


@given(st.dictionaries(st.sampled_from(["message", "code", "retryAfterMs", "details"]), JSON), CODES, JSON)
def test_whatever_a_refusal_holds_it_becomes_an_error(error: dict[str, Any], code: str, more: Any):
    assert isinstance(denied(error, "wss://x"), ClientError)
    names = ("requestedScopes", "requestId", "expectedProtocol", "reason")
    details = {"code": code, **dict.fromkeys(names, more)}
    assert isinstance(denied({**error, "details": details}, "wss://x"), ClientError)
    assert isinstance(refused(error), ClientError)


def test_refusals_keep_what_programs_need():
    limited = denied({"details": {"code": "AUTH_RATE_LIMITED"}, "retryAfterMs": 90_000}, "x")
    assert isinstance(limited, RateLimited)
    assert limited.seconds == 90
    missing = {"code": "MISSING_SCOPE", "missingScope": "operator.admin"}
    error = refused({"code": "FORBIDDEN", "message": "missing scope: operator.admin", "details": missing})
    assert isinstance(error, Forbidden)
    assert error.scope == "operator.admin"
    assert isinstance(denied({"code": "UNAVAILABLE", "message": "starting"}, "x"), Unreachable)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"path": "a b"}, "a b"),
        ({"path": "a", "text": "x\ny", "empty": ""}, "path=a text=x y"),
        ({"n": [1, 2]}, "[1, 2]"),
        ("plain", "plain"),
        (None, ""),
        ({}, ""),
    ],
)
def test_arguments_of_a_tool_in_a_few_words(arguments: Any, told: str):
    assert summary(arguments) == told


@given(JSON)
def test_any_arguments_fit_on_one_short_line(arguments: Any):
    told = summary(arguments)
    assert len(told) <= MAX_SUMMARY
    assert "\n" not in told


def test_the_text_of_a_message_and_the_answer_to_one():
    said = {
        "role": "assistant",
        "content": [{"type": "text", "text": "one"}, {"type": "toolCall"}, {"type": "text", "text": "two"}],
    }
    asked = {"role": "user", "content": "question"}
    assert text_of(said) == "one\n\ntwo"
    assert last_answer([asked, said], "question") == "one\n\ntwo"
    assert last_answer([asked, said], "another") == ""
    assert last_answer([said], "question") == ""


@given(st.lists(JSON, max_size=5))
def test_a_transcript_of_any_shape_is_read(messages: list[Any]):
    assert isinstance(last_answer(messages, "x"), str)
