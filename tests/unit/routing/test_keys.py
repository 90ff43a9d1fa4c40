"""Session keys: what is written can be read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.routing import automation_keys, keys
from tidegate.routing.keys import DmScope, KeyRequest, KeyShape, PeerRef
from tidegate.routing.links import IdentityLinks

AGENTS = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,10}", fullmatch=True)
IDS = st.from_regex(r"[a-z0-9@+.=-]{1,12}", fullmatch=True)


@given(AGENTS, st.sampled_from(["telegram", "matrix", "slack"]), st.sampled_from(["group", "channel"]), IDS)
def test_a_groups_key_names_its_agent_and_conversation(agent: str, channel: str, kind: str, peer: str) -> None:
    key = keys.session_key(KeyRequest(agent, channel, PeerRef(kind, peer)))
    assert keys.agent_of(key) == agent
    route = keys.delivery_route(key)
    assert route is not None
    assert (route.channel, route.peer) == (channel, PeerRef(kind, peer))


@given(AGENTS, st.sampled_from([scope for scope in DmScope if scope is not DmScope.MAIN]), IDS)
def test_two_people_never_share_a_key_unless_they_are_linked_or_the_scope_says_so(
    agent: str, scope: DmScope, peer: str
) -> None:
    def key(person: str) -> str:
        return keys.session_key(KeyRequest(agent, "telegram", PeerRef("direct", person), "a", scope))

    assert key(peer) != key(peer + "x")


@given(st.text(max_size=40))
def test_any_text_can_be_classified(text: str) -> None:
    found = keys.classify(text)
    assert (keys.parse(text) is not None) == (found.shape is KeyShape.AGENT)


@given(st.text(max_size=40))
def test_reading_a_key_twice_changes_nothing(text: str) -> None:
    parsed = keys.parse(text)
    assert parsed is None or keys.parse(str(parsed)) == parsed


def test_linked_identities_meet_under_per_peer_and_stay_apart_per_channel() -> None:
    links = IdentityLinks.build({"Ann": ["telegram:1", "discord:2"]})

    def key(channel: str, person: str, scope: DmScope) -> str:
        return keys.session_key(KeyRequest("a", channel, PeerRef("direct", person), None, scope, links=links))

    assert key("telegram", "1", DmScope.PER_PEER) == key("discord", "2", DmScope.PER_PEER) == "agent:a:direct:ann"
    assert key("telegram", "1", DmScope.PER_CHANNEL_PEER) != key("discord", "2", DmScope.PER_CHANNEL_PEER)


def test_a_hook_may_only_ask_for_keys_it_is_allowed_to_have() -> None:
    policy = automation_keys.HookKeyPolicy(allow_requested=True, allowed_prefixes=("hook:",))
    assert policy.problem() is None
    assert policy.choose("Hook:gh", "u") == "Hook:gh"
    assert policy.choose("agent:main:main", "u") is None
    assert policy.choose(None, "u") == "hook:u"


def test_automatic_sessions_are_recognised_by_their_keys() -> None:
    assert keys.classify(automation_keys.cron_run_key("a", "j", "r")).is_cron_run
    assert keys.classify(automation_keys.subagent_key("a", "u")).subagent_depth == 1
    assert automation_keys.cron_key("a", "main") == "agent:a:main"
    with pytest.raises(ValueError, match="needs an id"):
        automation_keys.session_target("session: ")


def test_a_key_without_an_agent_belongs_to_the_default_only_when_there_is_one() -> None:
    assert keys.agent_of("main", "Home") == "home"
    with pytest.raises(keys.SessionKeyError):
        keys.agent_of("main")
