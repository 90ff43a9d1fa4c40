"""Explanations, and rules that can never decide anything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.routing.bindings import Binding, Match, MatchedBy, RouteQuery
from tidegate.routing.explain import explain, shadowed
from tidegate.routing.keys import PeerRef
from tidegate.routing.roster import Roster
from tidegate.routing.table import RouteTable, select_route

ROSTER = Roster(None)


def table(*matches: Match, agents: Roster = ROSTER) -> RouteTable:
    return RouteTable.compile([Binding("a", m, i, f"t.json:{i + 1}:3") for i, m in enumerate(matches)], agents)


def test_an_explanation_names_the_winner_and_why_every_other_rule_of_a_level_did_not_fit() -> None:
    routes = table(
        Match("telegram", "biz", PeerRef("direct", "5")),
        Match("telegram", "*", PeerRef("direct", "5")),
        Match("telegram", None, PeerRef("direct", "X")),
    )
    query = RouteQuery("telegram", "home", PeerRef("direct", "5"))
    told = explain(query, routes)
    level = told.levels[0]
    assert level.level is MatchedBy.PEER
    assert level.winner is routes.bindings[1]
    assert [candidate.reason for candidate in level.candidates] == [
        "account is 'home', the rule wants 'biz'",
        "",
        "account is 'home', the rule wants 'default' (a rule without accountId means 'default')",
    ]
    assert told.route == select_route(query, routes)


def test_an_explanation_tells_that_ids_are_compared_with_their_case() -> None:
    told = explain(
        RouteQuery("slack", None, PeerRef("channel", "C1")), table(Match("slack", peer=PeerRef("group", "c1")))
    )
    assert "compared with their case" in told.levels[0].candidates[0].reason


def test_an_explanation_of_a_refused_message_holds_the_error() -> None:
    told = explain(RouteQuery("slack"), table(agents=Roster(("a", "b"))))
    assert told.route is None
    assert told.error is not None


MATCHES = st.builds(
    Match,
    st.sampled_from(["telegram", "discord"]),
    st.sampled_from([None, "biz", "*"]),
    st.one_of(st.none(), st.builds(PeerRef, st.sampled_from(["direct", "group"]), st.sampled_from(["1", "*", ""]))),
    st.sampled_from([None, "g1"]),
    st.sampled_from([None, "t1"]),
    st.lists(st.sampled_from(["r1", "r2"]), max_size=2, unique=True).map(tuple),
)
QUERIES = st.builds(
    RouteQuery,
    st.sampled_from(["telegram", "discord"]),
    st.sampled_from(["default", "biz", "other"]),
    st.one_of(st.none(), st.builds(PeerRef, st.sampled_from(["direct", "channel"]), st.sampled_from(["1", "2"]))),
    st.one_of(st.none(), st.builds(PeerRef, st.sampled_from(["direct", "channel"]), st.sampled_from(["1", "2"]))),
    st.sampled_from([None, "g1"]),
    st.sampled_from([None, "t1"]),
    st.lists(st.sampled_from(["r1", "r2"]), max_size=2, unique=True).map(tuple),
)


@given(st.lists(MATCHES, max_size=8), QUERIES)
def test_an_explanation_always_agrees_with_the_router(matches: list[Match], query: RouteQuery) -> None:
    routes = table(*matches, agents=Roster(("a",)))
    told = explain(query, routes)
    winner = next((level for level in told.levels if level.winner is not None), None)
    assert told.route is not None
    assert told.route.binding is (winner.winner if winner else None)
    assert told.route.matched_by is (winner.level if winner else MatchedBy.DEFAULT)


@given(st.lists(MATCHES, max_size=8), QUERIES)
def test_a_rule_called_shadowed_never_wins(matches: list[Match], query: RouteQuery) -> None:
    routes = table(*matches, agents=Roster(("a",)))
    never = {item.binding.index for item in shadowed(routes)}
    found = select_route(query, routes).binding
    assert found is None or found.index not in never


def test_shadowed_rules_are_named_with_the_rules_that_take_their_messages() -> None:
    routes = table(
        Match("discord", "*", guild="g", roles=("r1",)),
        Match("discord", "*", guild="g", roles=("r2",)),
        Match("discord", "biz", guild="g", roles=("r1", "r2")),
        Match("discord", "*", guild="g", roles=("r1", "r3")),
    )
    (item,) = shadowed(routes)
    assert item.binding.index == 2
    assert [binding.index for binding in item.by] == [0, 1]
    assert "t.json:1:3" in item.reason


def test_rules_that_are_at_fault_themselves_say_what_is_wrong() -> None:
    routes = table(
        Match("telegram", peer=PeerRef("direct", " ")),
        Match("telegram", peer=PeerRef("thread", "5")),
        Match("*"),
        Match("telgram"),
        Match("telegram", "bi*"),
        agents=Roster(("a",)),
    )
    reasons = [item.reason for item in shadowed(routes, channels=["telegram"])]
    assert [
        word in reason for word, reason in zip(["blank", "thread", "'*'", "telgram", "pattern"], reasons, strict=True)
    ] == [True] * 5


def test_a_rule_for_an_unknown_agent_is_reported() -> None:
    (item,) = shadowed(table(Match("telegram"), agents=Roster(("b",))))
    assert "there is no agent 'a'" in item.reason
