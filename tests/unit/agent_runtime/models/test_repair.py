"""Tool calls that a model wrote almost right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.agent_runtime.models.repair import calls_in_text, repair_arguments, repair_tool_name

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[3] / "data/agent_runtime/tool_call_repair.jsonl").read_text().splitlines()
]
KNOWN = (
    "read_file",
    "write_file",
    "patch",
    "terminal",
    "todo",
    "web_search",
    "session_search",
    "browser_click",
    "execute_code",
)
NAMES = [row for row in ROWS if row["kind"] == "name" and row["judgement"] == "agree"]


@pytest.mark.parametrize("row", NAMES, ids=[row["input"] for row in NAMES])
def test_names_are_recognised(row: dict[str, str | None]) -> None:
    assert repair_tool_name(str(row["input"]), KNOWN) == (row["hermes"] or "")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("write", "write_file"),
        ("functions.read_file", "read_file"),
        ("default_api.terminal", "terminal"),
        ("run_terminal_cmd", ""),
        ("search", ""),
        ("rm", ""),
    ],
)
def test_prefixes_are_dropped_and_guesses_are_not_made(name: str, found: str) -> None:
    assert repair_tool_name(name, KNOWN) == found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("   ", {}),
        ("None", {}),
        ('{"a":1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ("{'a':1}", {"a": 1}),
        ('{"a":True, "b": None,}', {"a": True, "b": None}),
        ('{"a":NaN}', {"a": None}),
        ('{"a":[1,2,],}', {"a": [1, 2]}),
        ('{"a":"line\nbreak\there"}', {"a": "line\nbreak\there"}),
        ('{"cmd":"echo {, True,}"}', {"cmd": "echo {, True,}"}),
        ('{"cmd":"echo {, True,}",}', {"cmd": "echo {, True,}"}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('{"a":[1,2,}', None),
        ('{"a":"x', None),
        ('{"path":"a.md","content":"half', None),
        ("[1,2", None),
        ("[1,2]", None),
        ('"str"', None),
        ('{"path":"C:\\dir"}', None),
        ('{"a":1,,"b":2}', None),
        ('{"a":"}"', None),
        ("{1: 2}", {"1": 2}),
        ("__import__('os')", None),
        ("[" * 100_000, None),
        ("{" * 3000 + "'a'", None),
    ],
)
def test_arguments_are_understood_or_refused_but_never_completed(text: str, value: object) -> None:
    assert repair_arguments(text) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_good_arguments_stay_as_they_are(value: dict[str, object]) -> None:
    assert repair_arguments(json.dumps(value)) == value


@given(st.dictionaries(st.text(min_size=1), JSON, min_size=1, max_size=4), st.data())
def test_arguments_that_were_cut_off_are_refused(value: dict[str, object], data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = data.draw(st.integers(1, len(text) - 1))
    assert repair_arguments(text[:cut]) is None


@given(st.text())
def test_any_text_gives_an_object_or_nothing(text: str) -> None:
    value = repair_arguments(text)
    assert value is None or isinstance(value, dict)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "patch", "arguments": {"a": 1}}</tool_call>',
        '<function=patch>{"a": 1}</function>',
        '[TOOL_CALLS] [{"name": "patch", "arguments": {"a": 1}}]',
        '{"name": "patch", "parameters": {"a": 1}}',
        '```json\n{"name": "patch", "arguments": "{\\"a\\": 1}"}\n```',
    ],
)
def test_calls_written_as_text_are_found(text: str) -> None:
    (call,) = calls_in_text(text, KNOWN)
    assert (call.name, json.loads(call.arguments)) == ("patch", {"a": 1})


@pytest.mark.parametrize(
    "text",
    [
        'Use <tool_call>{"name": "patch", "arguments": {}}</tool_call>',
        '{"name": "unknown", "arguments": {}}',
        '{"name": "patch"}',
        '<tool_call>{"name": "patch", "arguments": {"a"</tool_call>',
        "plain words",
        "",
    ],
)
def test_text_that_only_talks_about_calls_is_text(text: str) -> None:
    assert calls_in_text(text, KNOWN) == ()
