"""Who may speak: fails closed, knows people by their ids only, and never opens by tightening."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tidegate.events import Address, MessageEvent, Peer, PeerKind, Sender
from tidegate.routing.access import (
    AccessPolicy,
    Allow,
    AllowList,
    Approach,
    CommandPolicy,
    Deny,
    DmPolicy,
    GroupPolicy,
    GroupRule,
    Identity,
    Pair,
    Reason,
    decide_access,
    is_owner,
    may_command,
)

ANN = Identity("telegram", "123")
GROUPS = {"crew": {"telegram": ("123",), "*": ("9",)}}
ENTRIES = st.lists(
    st.sampled_from(["*", "123", "tg:123", "discord:123", "@ann", "accessGroup:crew", "accessGroup:none", "9", ""]),
    max_size=4,
).map(tuple)
RULES = st.builds(
    GroupRule, st.booleans(), st.one_of(st.none(), st.sampled_from(GroupPolicy)), st.one_of(st.none(), ENTRIES)
)
POLICIES = st.builds(
    AccessPolicy,
    st.sampled_from(DmPolicy),
    st.sampled_from(GroupPolicy),
    ENTRIES,
    ENTRIES,
    st.one_of(st.none(), st.dictionaries(st.sampled_from(["-1", "*"]), RULES)),
    st.just(GROUPS),
    st.booleans(),
)
APPROACHES = st.builds(
    Approach,
    st.builds(Identity, st.sampled_from(["telegram", "discord"]), st.sampled_from(["123", "9", "5", " "])),
    st.booleans(),
    st.just(("-1:topic:5", "-1")),
    st.booleans(),
)


def is_allowed(approach: Approach, policy: AccessPolicy, paired: tuple[str, ...] = ()) -> bool:
    return isinstance(decide_access(approach, policy, paired), Allow)


@given(APPROACHES, POLICIES, st.data())
def test_taking_an_entry_out_of_a_list_never_lets_more_people_in(
    approach: Approach, policy: AccessPolicy, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(["allow_from", "group_allow_from"]))
    entries = getattr(policy, name)
    assume(entries)
    gone = data.draw(st.integers(0, len(entries) - 1))
    left = entries[:gone] + entries[gone + 1 :]
    # The config format defines an empty group list as "the direct list"; that step is a change of meaning.
    assume(name == "allow_from" or left)
    tighter = replace(policy, **{name: left})
    assert is_allowed(approach, policy, ("5",)) or not is_allowed(approach, tighter, ("5",))


@given(APPROACHES, POLICIES)
def test_forgetting_who_was_paired_never_lets_more_people_in(approach: Approach, policy: AccessPolicy) -> None:
    assert is_allowed(approach, policy, ("5",)) or not is_allowed(approach, policy)


@given(APPROACHES, POLICIES)
def test_disabling_lets_nobody_in(approach: Approach, policy: AccessPolicy) -> None:
    off = replace(policy, dm_policy=DmPolicy.DISABLED, group_policy=GroupPolicy.DISABLED)
    assert not is_allowed(approach, off)


@given(APPROACHES, POLICIES, RULES)
def test_taking_a_group_off_the_list_never_lets_more_people_in(
    approach: Approach, policy: AccessPolicy, rule: GroupRule
) -> None:
    listed = replace(policy, groups={"-1": rule})
    assert is_allowed(approach, listed) or not is_allowed(approach, replace(policy, groups={}))


@pytest.mark.parametrize("entry", ["123", " 123 ", "telegram:123", "tg:123", "TG:123", "accessGroup:crew"])
def test_an_id_is_recognised_with_and_without_its_channel(entry: str) -> None:
    assert AllowList((entry,), GROUPS).names(ANN)


@pytest.mark.parametrize(
    "entry", ["*", "", "ann", "@ann", "discord:123", "12", "1234", "accessGroup:unknown", "telegram:"]
)
def test_nothing_but_the_id_names_a_person(entry: str) -> None:
    assert not AllowList((entry,), GROUPS).names(ANN)


def test_a_matrix_id_is_compared_with_its_case_and_is_not_taken_for_a_prefix() -> None:
    who = Identity("matrix", "@Ann:example.org")
    assert AllowList(("@Ann:example.org",)).names(who)
    assert AllowList(("matrix:@Ann:example.org",)).names(who)
    assert not AllowList(("@ann:example.org",)).names(who)


def test_a_user_name_in_a_list_never_lets_the_one_who_bears_it_in() -> None:
    event = MessageEvent(
        Address("telegram", "default", "5"),
        Peer(PeerKind.DIRECT, "5"),
        Sender("5", name="123", username="ann"),
        "1",
        "hi",
    )
    policy = AccessPolicy(DmPolicy.ALLOWLIST, allow_from=("ann", "@ann", "123"))
    assert decide_access(Approach.of(event), policy) == Deny(Reason.DM_NOT_ALLOWLISTED)


def test_an_unknown_person_may_pair_only_where_pairing_is_the_policy() -> None:
    stranger = Approach(Identity("telegram", "5"))
    assert decide_access(stranger, AccessPolicy()) == Pair()
    assert decide_access(stranger, AccessPolicy(DmPolicy.ALLOWLIST)) == Deny(Reason.DM_NOT_ALLOWLISTED)
    assert isinstance(decide_access(replace(stranger, is_group=True), AccessPolicy()), Deny)


def test_pairing_admits_to_direct_chats_and_never_to_groups() -> None:
    policy = AccessPolicy()
    assert is_allowed(Approach(ANN), policy, ("123",))
    assert not is_allowed(Approach(ANN, True, ("-1",)), policy, ("123",))


def test_our_own_messages_bots_and_messages_without_a_sender_are_not_heard() -> None:
    policy = AccessPolicy(DmPolicy.OPEN, allow_from=("*",))
    assert decide_access(Approach(ANN, is_self=True), policy) == Deny(Reason.OWN_MESSAGE)
    assert decide_access(Approach(ANN, is_bot=True), policy) == Deny(Reason.BOT)
    assert decide_access(Approach(Identity("telegram", " ")), policy) == Deny(Reason.NO_SENDER)
    assert is_allowed(Approach(ANN, is_bot=True), replace(policy, allows_bots=True))


def test_a_topic_is_admitted_by_the_entry_of_its_group() -> None:
    policy = AccessPolicy(allow_from=("123",), groups={"-1": GroupRule()})
    assert is_allowed(Approach(ANN, True, ("-1:topic:5", "-1")), policy)
    assert decide_access(Approach(ANN, True, ("-2",)), policy) == Deny(Reason.GROUP_NOT_LISTED)


def test_an_empty_list_of_a_group_admits_nobody_there() -> None:
    policy = AccessPolicy(allow_from=("*",), groups={"-1": GroupRule(allow_from=())})
    assert decide_access(Approach(ANN, True, ("-1",)), policy) == Deny(Reason.GROUP_EMPTY_ALLOWLIST)


def test_the_star_makes_nobody_the_owner() -> None:
    assert not is_owner(ANN, AllowList(("*",)))
    assert is_owner(ANN, AllowList(("*", "telegram:123")))
    assert not is_owner(Identity("telegram", ""), AllowList(("", "telegram:")))


def test_commands_are_for_the_owner_and_for_those_the_config_names() -> None:
    policy = CommandPolicy(AllowList(("telegram:123",)), {"telegram": ("5",), "*": ("*",)})
    assert may_command(ANN, policy, is_admitted=False)
    assert may_command(Identity("telegram", "5"), policy, is_admitted=True)
    assert not may_command(Identity("telegram", "6"), policy, is_admitted=True)
    assert may_command(Identity("discord", "6"), policy, is_admitted=True)
    assert not may_command(Identity("discord", "6"), policy, is_admitted=False)
    assert may_command(Identity("discord", "6"), CommandPolicy(), is_admitted=True)
