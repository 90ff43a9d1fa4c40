"""Secrets of a configuration are hidden from those who read it, and kept by those who write it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.json5 import Json5Error
from tidegate.config.store import REMOVED
from tidegate.gateway.plane.contract import RpcError
from tidegate.gateway.plane.methods.settings import KEPT, _difference, _merge, _restored, _shown
from tidegate.gateway.plane.methods.settings_text import shown_text

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


FILE = Path("tidegate.json")


def seen(text: str, *, with_comments: bool = False) -> str:
    return shown_text(text, FILE, _shown, with_comments=with_comments)


def test_the_text_of_a_file_is_shown_as_it_stands_without_its_secrets() -> None:
    text = "{ // mine\n  a: { token: 's3cret-value', url: \"http://u:pw@host/\" },\n  b: [1, 2], /* end */\n}"
    shown = seen(text, with_comments=True)
    assert shown == text.replace("'s3cret-value'", f'"{KEPT}"').replace("u:pw@", "u:***@")
    assert seen(text) == shown.replace("// mine", "").replace("/* end */", "")


@pytest.mark.parametrize(
    "text",
    [
        r"""{ gateway: { auth: { password: "back\\slash\"s3cret" } } }""",
        r"""{ gateway: { auth: { password: "s3\u0063ret" } } }""",
        r"""{ gateway: { auth: { password: "\x73\x33cret" } } }""",
        "{ gateway: { auth: { password: 's3c\\\nret' } } }",
        "{ gateway: { auth: { token: 's3cret', token: 'other s3cret' } } }",
        "{ gateway: { auth: { token: 's3cret' } }, gateway: {} }",
        "{ gateway: { auth: { /* token: 's3cret', */ token: 'x' } } } // s3cret",
        "{ channels: { telegram: { botToken: 's3cret' } }, x: 'it is not, s3cre', y: [{ apiKey: 's3cret' }] }",
        "{ gateway: { auth: { password: 12345678 } } }",
    ],
)
def test_a_secret_is_found_however_it_is_spelled(text: str) -> None:
    shown = seen(text)
    for part in ("s3cret", "slash", "cret'", 'cret"', "\\u0063", "\\x73", "s3c\\", "12345678"):
        assert part not in shown, shown
    assert KEPT in shown or "gateway: {}" in shown


@given(st.text(min_size=1, max_size=20), st.booleans())
def test_no_spelling_of_any_secret_is_shown(secret: str, escaped: bool) -> None:
    spelled = json.dumps(secret, ensure_ascii=escaped)
    text = f"{{ first: 1, gateway: {{ auth: {{ token: {spelled}, mode: 'token' }} }} }}"
    try:
        shown = seen(text)
    except Json5Error:
        return
    assert shown == text.replace(spelled, f'"{KEPT}"')


@given(OBJECTS, OBJECTS)
def test_the_changes_between_two_states_lead_from_one_to_the_other(before: Any, after: Any) -> None:
    assert applied(before, list(_difference(before, after))) == after


def test_a_patch_merges_objects_removes_nulls_and_replaces_the_rest() -> None:
    before = {"a": {"x": 1, "y": 2}, "l": [1, 2], "s": 3}
    patch = {"a": {"y": None, "z": {"n": 1, "gone": None}}, "l": [9], "s": 3}
    assert applied(before, list(_merge(before, patch))) == {"a": {"x": 1, "z": {"n": 1}}, "l": [9], "s": 3}
