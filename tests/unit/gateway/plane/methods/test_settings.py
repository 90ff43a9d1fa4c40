"""Secrets of a configuration are hidden from those who read it, and kept by those who write it back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.store import REMOVED
from tidegate.gateway.plane.contract import RpcError
from tidegate.gateway.plane.methods.settings import KEPT, _difference, _merge, _redact_text, _restored, _shown

PLAIN: dict[str, Any] = {"a": {"token": "s3cret-value", "url": "http://u:pw@host/"}, "b": [1, 2]}
VALUES = st.recursive(
    st.integers() | st.sampled_from(["", "x", "1"]) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


def applied(before: Any, changes: list[tuple[Any, object]]) -> Any:
    """Carry out changes on a copy."""
    state = {**before}
    for path, value in changes:
        target = state
        for part in path[:-1]:
            target[part] = dict(target[part])
            target = target[part]
        if value is REMOVED:
            target.pop(path[-1], None)
        else:
            target[path[-1]] = value
    return state


def test_what_was_shown_can_be_written_back() -> None:
    shown = _shown(PLAIN)
    assert shown["a"]["token"] == KEPT
    assert "pw" not in shown["a"]["url"]
    assert _restored(shown, PLAIN) == PLAIN


def test_a_placeholder_where_there_was_no_secret_is_refused() -> None:
    with pytest.raises(RpcError, match="no value that could be kept"):
        _restored({"c": {"token": KEPT}}, PLAIN)
    with pytest.raises(RpcError, match="no value that could be kept"):
        _restored({"b": KEPT}, PLAIN)


def test_the_text_of_a_file_is_shown_as_it_stands_without_its_secrets() -> None:
    text = "{ // mine\n  a: { token: 's3cret-value', url: \"http://u:pw@host/\" },\n  b: [1, 2],\n}"
    shown = _redact_text(text, PLAIN)
    assert "// mine" in shown
    assert "s3cret" not in shown
    assert "pw" not in shown


def test_a_secret_that_is_written_in_another_way_is_not_shown_either() -> None:
    text = '{ a: { token: "s3cret-value" }, note: "it is s3cret-value, really" }'
    shown = _redact_text(text, {"a": {"token": "s3cret-value"}, "note": "n"})
    assert "s3cret" not in shown


@given(OBJECTS, OBJECTS)
def test_the_changes_between_two_states_lead_from_one_to_the_other(before: Any, after: Any) -> None:
    assert applied(before, list(_difference(before, after))) == after


def test_a_patch_merges_objects_removes_nulls_and_replaces_the_rest() -> None:
    before = {"a": {"x": 1, "y": 2}, "l": [1, 2], "s": 3}
    patch = {"a": {"y": None, "z": {"n": 1, "gone": None}}, "l": [9], "s": 3}
    assert applied(before, list(_merge(before, patch))) == {"a": {"x": 1, "z": {"n": 1}}, "l": [9], "s": 3}
