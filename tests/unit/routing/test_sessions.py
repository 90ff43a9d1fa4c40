"""From events to sessions: owner and guests, accounts, threads, topics."""

from __future__ import annotations

import pytest

from tidegate.errors import RoutingError
from tidegate.events import Address, MessageEvent, Peer, PeerKind, Sender
from tidegate.routing.bindings import Binding, Match, MatchedBy
from tidegate.routing.keys import DmScope, PeerRef
from tidegate.routing.links import IdentityLinks
from tidegate.routing.roster import Roster
from tidegate.routing.sessions import ResolveOptions, resolve_session, shared_with
from tidegate.routing.table import RouteTable, SessionScopes

PLAIN = RouteTable.compile([])


def direct(
    person: str = "7", channel: str = "telegram", account: str = "default", thread: str | None = None
) -> MessageEvent:
    return MessageEvent(
        Address(channel, account, person, thread), Peer(PeerKind.DIRECT, person), Sender(person), "1", "hi"
    )


def topic(number: str) -> MessageEvent:
    return MessageEvent(
        Address("telegram", "default", "-100", number),
        Peer(PeerKind.GROUP, f"-100:topic:{number}"),
        Sender("7"),
        "1",
        "hi",
        parent_peer=Peer(PeerKind.GROUP, "-100"),
    )


def scoped(scope: DmScope | None, **links: list[str]) -> RouteTable:
    return RouteTable.compile([], scopes=SessionScopes(scope, links=IdentityLinks.build(links)))


def test_without_a_chosen_scope_the_owner_continues_one_session_across_channels() -> None:
    keys = {resolve_session(direct("7", channel), PLAIN, is_owner=True).key for channel in ("telegram", "discord")}
    assert keys == {"agent:main:main"}


def test_without_a_chosen_scope_anybody_else_gets_a_session_of_their_own() -> None:
    found = resolve_session(direct("8"), PLAIN, is_owner=False)
    assert found.key == "agent:main:telegram:direct:8"
    assert found.dm_scope is DmScope.PER_CHANNEL_PEER


def test_a_scope_that_somebody_chose_holds_for_guests_too() -> None:
    assert resolve_session(direct("8"), scoped(DmScope.MAIN), is_owner=False).is_main
    assert resolve_session(direct("8"), scoped(DmScope.PER_PEER), is_owner=False).key == "agent:main:direct:8"


def test_a_rules_own_scope_counts_as_chosen() -> None:
    table = RouteTable.compile([Binding("main", Match("telegram"), dm_scope=DmScope.MAIN)])
    assert resolve_session(direct("8"), table, is_owner=False).is_main


@pytest.mark.parametrize("is_owner", [True, False])
def test_a_named_telegram_account_without_a_rule_keeps_to_itself_before_the_guest_rule(is_owner: bool) -> None:
    found = resolve_session(direct("8", account="biz"), PLAIN, is_owner=is_owner)
    assert found.key == "agent:main:telegram:biz:direct:8"
    options = ResolveOptions(default_accounts={"telegram": "biz"})
    default = resolve_session(direct("8", account="biz"), PLAIN, options, is_owner=is_owner)
    assert default.key == ("agent:main:main" if is_owner else "agent:main:telegram:direct:8")


def test_groups_do_not_depend_on_who_is_the_owner() -> None:
    keys = {resolve_session(topic("5"), PLAIN, is_owner=owner).key for owner in (True, False)}
    assert keys == {"agent:main:telegram:group:-100:topic:5"}


def test_a_topic_hangs_under_its_group_and_follows_the_groups_rule() -> None:
    table = RouteTable.compile([Binding("crew", Match("telegram", peer=PeerRef("group", "-100")))], Roster(("crew",)))
    found = resolve_session(topic("5"), table, is_owner=True)
    assert found.matched_by is MatchedBy.PARENT
    assert found.parent_key == "agent:crew:telegram:group:-100"


def test_a_topic_may_have_an_agent_of_its_own_which_must_exist() -> None:
    options = ResolveOptions(topic_agents={("default", "-100:topic:5"): "zu"})
    table = RouteTable.compile([], Roster(("main", "zu"), marked=("main",)))
    found = resolve_session(topic("5"), table, options, is_owner=True)
    assert (found.agent, found.key) == ("zu", "agent:zu:telegram:group:-100:topic:5")
    assert resolve_session(topic("6"), table, options, is_owner=True).agent == "main"
    with pytest.raises(RoutingError):
        resolve_session(topic("5"), PLAIN, options, is_owner=True)


def test_a_direct_topic_has_a_session_of_its_own_under_the_direct_one() -> None:
    found = resolve_session(direct("7", thread="9"), PLAIN, is_owner=True)
    assert found.key == "agent:main:main:thread:7:9"
    assert found.parent_key == "agent:main:main"


def test_a_matrix_thread_keeps_the_case_of_its_id() -> None:
    event = MessageEvent(
        Address("matrix", "default", "!R:x", "$EvtAbC"), Peer(PeerKind.CHANNEL, "!R:x"), Sender("@u:x"), "1", "hi"
    )
    assert resolve_session(event, PLAIN, is_owner=True).key == "agent:main:matrix:channel:!R:x:thread:$EvtAbC"


def test_sharing_is_told_in_words() -> None:
    def told(event: MessageEvent, table: RouteTable, is_owner: bool) -> str:
        return " ".join(shared_with(resolve_session(event, table, is_owner=is_owner), event, table))

    assert "owner" in told(direct(), PLAIN, True)
    assert "everybody admitted" in told(direct(), scoped(DmScope.MAIN), False)
    assert "telegram:7" in told(direct(), scoped(DmScope.PER_PEER, ann=["telegram:7", "discord:9"]), False)
    assert "everybody admitted in this group" in told(topic("5"), PLAIN, False)
