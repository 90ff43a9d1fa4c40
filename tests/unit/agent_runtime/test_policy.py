"""Which tools may be used: deny wins, layers only narrow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.agent_runtime.policy import (
    GROUPS,
    PROFILES,
    Subject,
    ToolPolicy,
    ToolRules,
    decide_tool,
    expand_groups,
)
from tidegate.agent_runtime.tools.base import Effect

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data/agent_runtime/tool_policy.jsonl").read_text().splitlines()
]
ALLOWED = [row for row in ROWS if row["fn"] == "sandboxIsToolAllowed"]
EXPANDED = [row for row in ROWS if row["fn"] == "expandToolGroups"]


def allowed(name: str, *layers: ToolRules, subject: Subject | None = None) -> bool:
    return decide_tool(name, Effect.READ, subject or Subject(), ToolPolicy(layers)).allowed


@pytest.mark.parametrize("row", ALLOWED)
def test_one_layer_decides_as_known(row: dict[str, dict[str, object]]) -> None:
    lists = {key: tuple(value) for key, value in dict(row["input"]["policy"]).items()}  # type: ignore[call-overload]
    expected = row["output"]
    tool = str(row["input"]["tool"])
    if tool == "apply_patch" and lists.get("allow") == ("write",):
        expected = True  # type: ignore[assignment]  # allowing `write` implies it
    assert allowed(tool, ToolRules(**lists)) == expected


@pytest.mark.parametrize("row", EXPANDED)
def test_groups_and_old_names_are_understood(row: dict[str, dict[str, list[str]]]) -> None:
    assert set(row["output"]) <= set(expand_groups(row["input"]["list"])) <= {*row["output"], "find"}


def test_denying_write_leaves_apply_patch() -> None:
    rules = ToolRules(allow=("group:fs",), deny=("write",))
    assert not allowed("write", rules)
    assert allowed("apply_patch", rules)


def test_a_profile_is_extended_by_also_allow() -> None:
    rules = ToolRules(profile="messaging", also_allow=("exec",))
    assert allowed("exec", rules)
    assert allowed("message", rules)
    assert not allowed("write", rules)


def test_allow_and_also_allow_in_one_place_are_an_error() -> None:
    with pytest.raises(ValueError, match="alsoAllow"):
        ToolRules(allow=("read",), also_allow=("exec",))


def test_an_unknown_profile_is_an_error() -> None:
    with pytest.raises(ValueError, match="profile"):
        ToolRules(profile="nope")


def test_owner_only_tools_are_for_the_owner() -> None:
    assert not allowed("gateway")
    assert allowed("gateway", subject=Subject(is_owner=True))


def test_the_rules_of_the_exact_model_come_before_those_of_its_provider() -> None:
    policy = ToolPolicy(by_provider={"p": ToolRules(deny=("exec",)), "p/m": ToolRules(deny=("read",))})
    assert decide_tool("exec", Effect.EXECUTE, Subject(model="p/m"), policy).allowed
    assert not decide_tool("read", Effect.READ, Subject(model="p/m"), policy).allowed
    assert decide_tool("exec", Effect.EXECUTE, Subject(model="p/other"), policy).reason == "denied"


PATTERNS = st.lists(st.sampled_from(["read", "WRITE", "*", "e*", "group:fs", "bash", "nope"]), max_size=3).map(tuple)
RULES = st.builds(ToolRules, profile=st.sampled_from(["", *PROFILES]), allow=PATTERNS, deny=PATTERNS) | st.builds(
    ToolRules, profile=st.sampled_from(["", *PROFILES]), also_allow=PATTERNS, deny=PATTERNS
)
TOOLS = st.sampled_from([*GROUPS["group:fs"], "exec", "message", "session_status"])


@given(TOOLS, st.lists(RULES, max_size=3), RULES)
def test_a_further_layer_never_allows_more(name: str, layers: list[ToolRules], more: ToolRules) -> None:
    assert allowed(name, *layers) or not allowed(name, *layers, more)


@given(TOOLS, st.lists(RULES, max_size=3))
def test_what_is_denied_anywhere_is_denied(name: str, layers: list[ToolRules]) -> None:
    assert not allowed(name, *layers, ToolRules(deny=(name,)))
