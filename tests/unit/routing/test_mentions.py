"""Whether the agent was addressed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tidegate.events import Address, MentionFacts, MessageEvent, Peer, PeerKind, ReplyTo, Sender
from tidegate.routing.mentions import (
    GroupMentionRules,
    ImplicitMention,
    MentionInput,
    MentionPolicy,
    decide_mention,
    facts_of,
)

FACTS = st.builds(
    MentionInput,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.lists(st.sampled_from(ImplicitMention), max_size=3).map(tuple),
)
POLICIES = st.builds(
    MentionPolicy,
    st.booleans(),
    st.booleans(),
    st.frozensets(st.sampled_from(ImplicitMention)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
EVENT = MessageEvent(
    Address("telegram", "default", "-100", "5"),
    Peer(PeerKind.GROUP, "-100:topic:5"),
    Sender("7"),
    "1",
    "hi",
    parent_peer=Peer(PeerKind.GROUP, "-100"),
)


@given(FACTS, POLICIES)
def test_a_message_that_addresses_the_agent_is_never_skipped(facts: MentionInput, policy: MentionPolicy) -> None:
    found = decide_mention(facts, policy)
    assert not (found.should_skip and found.was_mentioned)
    assert not (facts.was_mentioned and found.should_skip)


@given(FACTS, POLICIES)
def test_a_direct_chat_is_never_skipped(facts: MentionInput, policy: MentionPolicy) -> None:
    assert not decide_mention(facts, replace(policy, is_group=False)).should_skip


@given(FACTS, POLICIES)
def test_a_command_of_somebody_who_may_not_command_opens_nothing(facts: MentionInput, policy: MentionPolicy) -> None:
    refused = replace(policy, is_command_authorized=False)
    assert (
        decide_mention(facts, refused).should_skip
        == decide_mention(facts, replace(refused, has_control_command=False)).should_skip
    )


def test_a_reply_to_us_counts_as_addressing_us() -> None:
    event = replace(EVENT, reply_to=ReplyTo("9", is_ours=True), mentions=MentionFacts(any=True))
    facts = facts_of(event, matches_pattern=False, has_patterns=False)
    assert facts.implicit == (ImplicitMention.REPLY_TO_BOT,)
    assert not decide_mention(facts, MentionPolicy(is_group=True)).should_skip


def test_a_pattern_makes_mentions_detectable_where_the_platform_does_not() -> None:
    event = replace(EVENT, mentions=MentionFacts(can_detect=False))
    blind = facts_of(event, matches_pattern=False, has_patterns=False)
    seeing = facts_of(event, matches_pattern=False, has_patterns=True)
    policy = MentionPolicy(is_group=True)
    assert not decide_mention(blind, policy).should_skip
    assert decide_mention(seeing, policy).should_skip


def test_the_most_specific_entry_says_whether_a_mention_is_required() -> None:
    assert GroupMentionRules().requires_mention(EVENT)
    assert not GroupMentionRules({"*": False}).requires_mention(EVENT)
    assert GroupMentionRules({"*": False, "-100": True}).requires_mention(EVENT)
    assert not GroupMentionRules({"-100": True, "-100:topic:5": False}).requires_mention(EVENT)
    assert not GroupMentionRules().requires_mention(EVENT, activation=False)
    assert not GroupMentionRules().requires_mention(replace(EVENT, peer=Peer(PeerKind.DIRECT, "7")))
