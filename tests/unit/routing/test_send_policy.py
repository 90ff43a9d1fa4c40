"""Whether a session may send."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.routing.send_policy import SendRule, SendSubject, may_send

SUBJECTS = st.builds(
    SendSubject,
    st.sampled_from(
        ["agent:main:main", "agent:main:telegram:direct:5", "agent:main:discord:group:1", "agent:main:cron:j"]
    ),
    st.sampled_from([None, "telegram"]),
    st.sampled_from([None, "direct", "dm", "group"]),
)
RULES = st.builds(
    SendRule,
    st.booleans(),
    st.sampled_from([None, "telegram", "Discord"]),
    st.sampled_from([None, "dm", "group"]),
    st.sampled_from([None, "cron:", "telegram:"]),
    st.sampled_from([None, "agent:main:discord:"]),
)


@given(SUBJECTS, st.lists(RULES, max_size=4), RULES, st.booleans())
def test_one_more_denying_rule_never_lets_anything_through(
    subject: SendSubject, rules: list[SendRule], rule: SendRule, default: bool
) -> None:
    denying = SendRule(False, rule.channel, rule.chat_type, rule.key_prefix, rule.raw_key_prefix)
    assert may_send(subject, rules, default=default) >= may_send(subject, [*rules, denying], default=default)


@given(SUBJECTS, st.lists(RULES, max_size=4), st.booleans())
def test_the_sessions_own_choice_beats_every_rule(subject: SendSubject, rules: list[SendRule], choice: bool) -> None:
    assert may_send(subject, rules, override=choice) is choice


def test_channel_and_kind_are_read_off_the_key() -> None:
    rule = SendRule(False, "discord", "group")
    assert not may_send(SendSubject("agent:main:discord:group:1"), [rule])
    assert may_send(SendSubject("agent:main:discord:direct:1"), [rule])
    assert may_send(SendSubject("agent:main:cron:j"), [rule])
