"""How answers of servers are classed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.agent_runtime.models.failures import MAX_RETRY_AFTER, failure_of_status
from tidegate.errors import ModelError, ModelUnavailable

NOW = 1_800_000_000.0


def kind_of(status: int, message: str) -> str:
    body = json.dumps({"error": {"message": message}}).encode()
    return failure_of_status("p", status, {}, body, NOW).kind


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (402, "insufficient credits", "billing"),
        (402, "usage limit reached, try again in 5 minutes", "rate_limit"),
        (402, "Payment Required", "billing"),
        (403, "Forbidden", "auth"),
        (403, "spending limit reached", "billing"),
        (404, "No endpoints found that support tool use", "not_found"),
        (429, "Rate limit reached for requests", "rate_limit"),
        (500, "the request exceeds the available context size", "context_overflow"),
        (500, "engine is overloaded", "overloaded"),
        (504, "", "timeout"),
        (400, "model `nope` not found", "not_found"),
        (400, "Incorrect API key provided", "auth"),
    ],
)
def test_status_and_words_give_the_class(status: int, message: str, kind: str) -> None:
    assert kind_of(status, message) == kind


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Fri, 15 Jan 2027 08:01:00 GMT"}, 60.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e99"}, MAX_RETRY_AFTER),
        ({}, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(headers: dict[str, str], seconds: float | None) -> None:
    error = failure_of_status("p", 429, headers, b"", NOW)
    assert isinstance(error, ModelUnavailable)
    assert error.retry_after == seconds


@given(st.integers(201, 599), st.binary(max_size=200), st.dictionaries(st.just("retry-after"), st.text(max_size=40)))
def test_any_answer_gives_a_typed_error(status: int, body: bytes, headers: dict[str, str]) -> None:
    error = failure_of_status("p", status, headers, body, NOW)
    assert isinstance(error, ModelError)
    assert str(error).startswith("p ")
    assert str(error).endswith(f" (HTTP {status})")
