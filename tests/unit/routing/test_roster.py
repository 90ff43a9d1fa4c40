"""Who answers when no binding says who."""

from __future__ import annotations

import pytest

from tidegate.errors import RoutingError
from tidegate.routing.roster import Roster


@pytest.mark.parametrize(
    ("roster", "agent"),
    [
        (Roster(), "main"),
        (Roster(("solo",)), "solo"),
        (Roster(("a", "b"), marked=("b",)), "b"),
        (Roster(("a", "b"), marked=("b",), system_agent="a"), "b"),
        (Roster(("a", "b"), is_explicit=True, system_agent=" A "), "a"),
        (Roster(("a", "b"), marked=("b",), is_explicit=True), None),
        (Roster(("a", "b"), marked=("a", "b")), None),
        (Roster(("a", "b"), is_explicit=True, system_agent="ghost"), None),
        (Roster(("main", "b")), None),
    ],
)
def test_the_default_agent_is_the_one_that_was_chosen_or_the_only_one(roster: Roster, agent: str | None) -> None:
    assert roster.default_agent() == agent


def test_without_agents_an_unmatched_message_is_refused() -> None:
    with pytest.raises(RoutingError) as caught:
        Roster(()).require_default()
    assert caught.value.code == "NO_AGENTS_CONFIGURED"


def test_a_binding_may_name_the_agents_that_exist_and_main() -> None:
    roster = Roster(("a",))
    assert roster.require(" A ") == "a"
    assert roster.require("main") == "main"
    with pytest.raises(RoutingError):
        roster.require("b")
