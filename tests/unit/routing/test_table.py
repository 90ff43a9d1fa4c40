"""The route table against a plain model that scans every rule, and its cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import RoutingError
from tidegate.routing.bindings import (
    ANY,
    Binding,
    Match,
    MatchedBy,
    RouteQuery,
    compile_rule,
    peer_key,
    query_account,
)
from tidegate.routing.keys import DmScope, GroupScope, PeerRef
from tidegate.routing.roster import Roster
from tidegate.routing.table import RouteTable, SessionScopes, select_route

CHANNELS = st.sampled_from(["telegram", "discord"])
ACCOUNTS = st.sampled_from([None, "default", "biz", "*"])
PEERS = st.one_of(
    st.none(),
    st.builds(PeerRef, st.sampled_from(["direct", "group", "channel", "thread"]), st.sampled_from(["1", "2", "*", ""])),
)
GUILDS = st.sampled_from([None, "g1", "g2"])
ROLES = st.lists(st.sampled_from(["r1", "r2", "r3"]), max_size=2, unique=True).map(tuple)
MATCHES = st.builds(Match, CHANNELS, ACCOUNTS, PEERS, GUILDS, st.sampled_from([None, "t1"]), ROLES)
QUERIES = st.builds(RouteQuery, CHANNELS, ACCOUNTS, PEERS, PEERS, GUILDS, st.sampled_from([None, "t1"]), ROLES)


def numbered(matches: list[Match]) -> list[Binding]:
    return [Binding(f"a{index}", match, index) for index, match in enumerate(matches)]


def roster(size: int) -> Roster:
    return Roster(("home", *(f"a{index}" for index in range(size))), marked=("home",))


def scanned(query: RouteQuery, bindings: list[Binding]) -> tuple[MatchedBy, int | None]:
    """The model: every rule of every level, in order."""
    for level in MatchedBy:
        for binding in bindings:
            rule = compile_rule(binding)
            if rule is None:
                continue
            is_parent = level is MatchedBy.PARENT
            if rule.level is not (MatchedBy.PEER if is_parent else level):
                continue
            want = rule.constraints
            peer = peer_key(query.parent_peer if is_parent else query.peer)
            if want.peer is not None and want.peer[1] == ANY:
                peer_fits = peer is not None and peer[0] is want.peer[0]
            else:
                peer_fits = want.peer is None or peer == want.peer
            fits = (
                want.channel == query.channel
                and want.account in (ANY, query_account(query.account))
                and peer_fits
                and want.guild in ("", query.guild)
                and want.team in ("", query.team)
                and (not rule.roles or bool(set(rule.roles) & set(query.roles)))
            )
            if fits:
                return level, binding.index
    return MatchedBy.DEFAULT, None


@given(st.lists(MATCHES, max_size=12), QUERIES)
def test_a_lookup_answers_what_scanning_every_rule_would(matches: list[Match], query: RouteQuery) -> None:
    bindings = numbered(matches)
    route = select_route(query, RouteTable.compile(bindings, roster(len(bindings))))
    found = (route.matched_by, route.binding.index if route.binding else None)
    assert found == scanned(query, bindings)


class CountingBuckets(dict[Any, Any]):
    """Buckets that count how often they are asked, and cannot be walked through."""

    asked = 0

    def get(self, key: Any, default: Any = None) -> Any:
        self.asked += 1
        return super().get(key, default)

    def __iter__(self) -> Any:
        raise AssertionError("a lookup walked through the rules")

    items = values = keys = __iter__


@pytest.mark.parametrize("size", [10, 10_000])
def test_a_lookup_costs_the_same_with_ten_bindings_and_with_ten_thousand(size: int) -> None:
    matches = [Match("telegram", "*", PeerRef("group", str(n))) for n in range(size)]
    matches += [Match("discord", "*", guild="g", roles=(f"r{n}",)) for n in range(size)]
    table = RouteTable.compile(numbered(matches), Roster(None))
    buckets = CountingBuckets(dict(table.buckets))
    query = RouteQuery(
        "discord", "biz", PeerRef("channel", "x"), PeerRef("channel", "y"), "g", "t", (f"r{size - 1}", "r0")
    )
    route = select_route(query, replace(table, buckets=buckets))
    assert route.binding is not None
    assert route.binding.index == size, "of two roles the earlier rule wins"
    assert buckets.asked <= 40


def test_a_rule_of_the_message_itself_beats_one_of_its_parent_whatever_the_order() -> None:
    bindings = numbered(
        [
            Match("telegram", peer=PeerRef("group", "-100")),
            Match("telegram", peer=PeerRef("group", "-100:topic:5")),
        ]
    )
    query = RouteQuery("telegram", None, PeerRef("group", "-100:topic:5"), PeerRef("group", "-100"))
    assert select_route(query, RouteTable.compile(bindings, Roster(None))).agent == "a1"


def test_a_message_nobody_owns_is_refused_and_never_guessed() -> None:
    table = RouteTable.compile([], Roster(("a", "b"), is_explicit=True))
    with pytest.raises(RoutingError) as caught:
        select_route(RouteQuery("telegram", None, PeerRef("direct", "1")), table)
    assert caught.value.code == "AGENT_SELECTION_REQUIRED"


def test_a_rule_for_an_unknown_agent_refuses_instead_of_falling_back() -> None:
    table = RouteTable.compile([Binding("ghost", Match("telegram"), 0)], Roster(("a",)))
    with pytest.raises(RoutingError, match="ghost"):
        select_route(RouteQuery("telegram", None, PeerRef("direct", "1")), table)


def test_the_scope_of_a_rule_beats_the_callers_and_the_callers_beats_the_configs() -> None:
    scopes = SessionScopes(DmScope.PER_PEER, GroupScope.MAIN)
    binding = Binding("a", Match("telegram"), 0, dm_scope=DmScope.PER_CHANNEL_PEER)
    query = RouteQuery("telegram", None, PeerRef("direct", "1"), dm_scope=DmScope.PER_ACCOUNT_CHANNEL_PEER)
    with_rule = RouteTable.compile([binding], Roster(("a",)), scopes)
    without = RouteTable.compile([], Roster(("a",)), scopes)
    assert select_route(query, with_rule).key == "agent:a:telegram:direct:1"
    assert select_route(query, without).key == "agent:a:telegram:default:direct:1"
    assert select_route(replace(query, dm_scope=None), without).key == "agent:a:direct:1"
