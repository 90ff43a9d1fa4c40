"""`route explain` over whole configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tidegate.config.load import load_config
from tidegate.gateway.cli.parser import build_parser
from tidegate.gateway.cli.route import ask, imagine, lines, to_data
from tidegate.gateway.cli.terminal import Style
from tidegate.gateway.offline import StoredPeople
from tidegate.gateway.site import Site

TOKEN = "123456:" + "a" * 35


def explained(tmp_path: Path, config: dict[str, Any], words: str, people: StoredPeople | None = None) -> dict[str, Any]:
    path = tmp_path / "tidegate.json"
    path.write_text(json.dumps(config, indent=1))
    loaded = load_config(path, environ={"HOME": str(tmp_path)}, state_dir=tmp_path)
    arguments = build_parser().parse_fully(["route", "explain", *words.split()])
    data = to_data(ask(loaded, Site(tmp_path, path), imagine(arguments), people or StoredPeople()))
    assert list(lines(data, Style(colour=True)))
    return data


def two_agents(*bindings: dict[str, Any]) -> dict[str, Any]:
    return {
        "agents": {"entries": {"main": {"default": True}, "ops": {}}},
        "channels": {"telegram": {"botToken": TOKEN, "allowFrom": ["7"]}},
        "bindings": list(bindings),
    }


GROUP = {"agentId": "ops", "match": {"channel": "telegram", "peer": {"kind": "group", "id": "-100"}}}


def test_a_topic_inherits_the_binding_of_its_group(tmp_path: Path):
    data = explained(tmp_path, two_agents(GROUP), "--channel telegram --peer group:-100 --thread 5 --sender 7")
    assert (data["agent"], data["matched_by"]) == ("ops", "binding.peer.parent")
    assert data["session"] == "agent:ops:telegram:group:-100:topic:5"
    assert data["binding"].startswith("bindings[0] (")
    assert data["access"] == {"verdict": "allow", "reason": "group_policy_allowed"}
    assert [level["level"] for level in data["levels"] if level["decides"]] == ["binding.peer.parent"]


def test_the_owner_that_the_store_knows_speaks_into_the_main_session(tmp_path: Path):
    words = "--channel telegram --peer direct:7"
    guest = explained(tmp_path, two_agents(), words)
    owner = explained(tmp_path, two_agents(), words, StoredPeople(owners=frozenset({"telegram:7"})))
    assert (guest["session"], guest["message"]["is_owner"]) == ("agent:main:telegram:direct:7", False)
    assert (owner["session"], owner["message"]["is_owner"]) == ("agent:main:main", True)
    assert "terminal chat" in owner["shared_with"][0]


def test_somebody_let_in_by_pairing_is_heard_and_a_stranger_is_offered_a_code(tmp_path: Path):
    words = "--channel telegram --peer direct:9"
    paired = StoredPeople(allowed={("telegram", "default"): frozenset({"9"})})
    assert explained(tmp_path, two_agents(), words)["access"]["verdict"] == "pair"
    assert explained(tmp_path, two_agents(), words, paired)["access"]["verdict"] == "allow"


def test_bindings_that_never_decide_are_listed_with_their_place(tmp_path: Path):
    data = explained(tmp_path, two_agents(GROUP, GROUP), "--channel telegram --peer direct:7")
    (row,) = data["never_matching"]
    assert row["binding"] == "bindings[1]"
    assert row["where"].startswith(f"{tmp_path / 'tidegate.json'}:")


def test_a_message_that_nobody_would_answer_is_explained(tmp_path: Path):
    config = {"agents": {"entries": {"a": {}, "b": {}}}, "channels": {"telegram": {"botToken": TOKEN}}}
    data = explained(tmp_path, config, "--channel telegram --peer direct:7")
    assert data["error"]["code"] == "AGENT_SELECTION_REQUIRED"
    assert data["session"] is None


@pytest.mark.parametrize(
    ("words", "verdict", "reason", "answered"),
    [
        ("--channel discord --peer channel:1", "absent", "discord/default is not configured", False),
        ("--channel telegram --account x --peer direct:7", "absent", "telegram/x is not configured", False),
        ("--channel telegram --peer group:-1", "unknown", "name the sender", True),
        ("--channel telegram --peer direct:9", "pair", "pairing", False),
        ("--channel telegram --peer group:-1 --sender 9", "deny", "group", False),
    ],
)
def test_what_is_not_certainly_heard_is_not_shown_as_if_it_were(
    tmp_path: Path, words: str, verdict: str, reason: str, answered: bool
):
    data = explained(tmp_path, two_agents(), words)
    assert data["access"]["verdict"] == verdict
    assert reason in data["access"]["reason"]
    assert data["answered"] is answered
    shown = "\n".join(lines(data, Style(colour=False)))
    assert "✓ decides" not in shown
    assert "goes to   agent" not in shown
    assert "it would go to agent main" in shown
    assert ("goes to   nobody" in shown) is not answered


def test_the_terminal_is_the_owner(tmp_path: Path):
    data = explained(tmp_path, two_agents(), "--channel terminal --peer direct:local")
    assert (data["session"], data["access"]["verdict"]) == ("agent:main:main", "allow")
