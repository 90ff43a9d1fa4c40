from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from tidegate.gateway.plane.contract import Params, RpcError
from tidegate.gateway.plane.frames import (
    close_reason,
    echo_id,
    encode,
    event_text,
    parse_json,
    read_request,
    validate,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


class Inner(Params):
    name: str = Field(min_length=1)
    kind: Literal["a", "b"] = "a"
    only: Literal["x"] = "x"


class Outer(Params):
    first: str
    second: int
    inner: Inner
    many: tuple[str, ...] = Field(default=(), max_length=2)
    short: str = Field(default="", max_length=3)
    small: int = Field(default=1, ge=1, le=9)


GOOD: dict[str, Any] = {"first": "1", "second": 2, "inner": {"name": "n"}}


def problem(params: Any) -> str:
    with pytest.raises(RpcError) as caught:
        validate(Outer, params, "some.method")
    return caught.value.message.removeprefix("invalid some.method params: ")


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({}, "must have required property 'first'"),
        ({**GOOD, "bogus": 1}, "at root: unexpected property 'bogus'"),
        ({**GOOD, "inner": {}}, "at /inner: must have required property 'name'"),
        ({**GOOD, "inner": {"name": "n", "x": 1}}, "at /inner: unexpected property 'x'"),
        ({**GOOD, "inner": {"name": ""}}, "at /inner/name: must not have fewer than 1 characters"),
        ({**GOOD, "inner": {"name": "n", "kind": "c"}}, "at /inner/kind: must be equal to one of the allowed values"),
        ({**GOOD, "inner": {"name": "n", "only": "y"}}, "at /inner/only: must be equal to constant"),
        ({**GOOD, "first": 1}, "at /first: must be string"),
        ({**GOOD, "second": "2"}, "at /second: must be integer"),
        ({**GOOD, "second": 2.5}, "at /second: must be integer"),
        ({**GOOD, "inner": []}, "at /inner: must be object"),
        ({**GOOD, "many": "a"}, "at /many: must be array"),
        ({**GOOD, "many": ["a", 1]}, "at /many/1: must be string"),
        ({**GOOD, "many": ["a", "b", "c"]}, "at /many: must not have more than 2 items"),
        ({**GOOD, "short": "long"}, "at /short: must not have more than 3 characters"),
        ({**GOOD, "small": 0}, "at /small: must be >= 1"),
        ({**GOOD, "small": 10}, "at /small: must be <= 9"),
        ({"second": 2, "x": 1}, "must have required property 'first'; at root: unexpected property 'x'"),
    ],
)
def test_a_problem_has_the_words_that_clients_know(params: Any, text: str) -> None:
    assert problem(params) == text


def test_lists_may_become_tuples_and_nothing_else_is_coerced() -> None:
    assert validate(Outer, {**GOOD, "many": ["a"]}, "m").many == ("a",)


def test_a_frame_without_parameters_is_a_request() -> None:
    assert read_request({"type": "req", "id": "1", "method": "health"}).params is None


@given(JSON)
def test_anything_that_is_json_and_no_request_is_refused_with_the_fixed_words(data: Any) -> None:
    assert isinstance(echo_id(data), str)
    if isinstance(data, dict) and {"type", "id", "method"} <= set(data):
        return
    with pytest.raises(RpcError, match=r"^invalid request frame: "):
        read_request(data)


@given(st.text())
def test_any_text_is_json_or_a_value_error(text: str) -> None:
    try:
        value = parse_json(text)
    except ValueError:
        return
    json.dumps(value)


@pytest.mark.parametrize(
    "text", ["NaN", '{"a":Infinity}', "[" * 5_000, '{"a":"\\ud800"' + "[" * 5_000, '["\\u0041", NaN]']
)
def test_what_is_not_json_or_too_deep_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    assert parse_json('{"a":"x\\ud83d"}') == {"a": "x\ufffd"}
    assert parse_json('{"a":"\\ud83d\\ude00"}') == {"a": "\U0001f600"}


@given(JSON)
def test_what_is_encoded_can_be_read_again(value: Any) -> None:
    assert json.loads(encode(value)) == value


def test_text_that_is_no_unicode_is_escaped_and_not_refused() -> None:
    assert json.loads(encode({"a": "\ud800"})) == {"a": "\ud800"}


def test_an_event_carries_number_and_versions_only_when_given() -> None:
    assert json.loads(event_text("tick", "{}")) == {"type": "event", "event": "tick", "payload": {}}
    full = json.loads(event_text("presence", "[]", seq=3, state_version={"presence": 1, "health": 2}))
    assert (full["seq"], full["stateVersion"]) == (3, {"presence": 1, "health": 2})


@given(st.text(max_size=200))
def test_a_close_reason_fits_and_stays_text(text: str) -> None:
    reason = close_reason(text)
    assert len(reason) <= 123
    reason.decode()


def test_infinity_becomes_null_as_in_javascript() -> None:
    assert encode([float("inf"), float("nan")]) == "[null,null]"


def test_what_no_unicode_stands_beside_is_json_all_the_same() -> None:
    written = encode([float("nan"), float("inf"), "\ud800"])
    assert parse_json(written) == [None, None, "\ufffd"]


def test_what_is_nested_too_deep_is_a_wrong_value() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deep"):
        encode(deep)
