"""Was the agent addressed? Only asked in groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tidegate.events import MessageEvent, PeerKind
from tidegate.routing.normalize import trim


class ImplicitMention(StrEnum):
    """Ways to address the agent without its name."""

    REPLY_TO_BOT = "reply_to_bot"
    QUOTED_BOT = "quoted_bot"
    BOT_THREAD_PARTICIPANT = "bot_thread_participant"
    NATIVE = "native"


ALL_IMPLICIT: Final = frozenset(ImplicitMention)


@dataclass(frozen=True, slots=True)
class MentionInput:
    """What is known about a message.

    Attributes:
        can_detect: The platform tells us about mentions, or we have patterns to find them.
        was_mentioned: Our account, or one of the agent's patterns.
        has_any_mention: Somebody was mentioned, perhaps another.
    """

    can_detect: bool
    was_mentioned: bool
    has_any_mention: bool = False
    implicit: tuple[ImplicitMention, ...] = ()


@dataclass(frozen=True, slots=True)
class MentionPolicy:
    """What a conversation asks for.

    Attributes:
        allowed_implicit: Which implicit ways count here.
        allows_text_commands: Commands typed as text are understood.
        has_control_command: The message is a command.
        is_command_authorized: Its sender may use commands.
    """

    is_group: bool
    requires_mention: bool = True
    allowed_implicit: frozenset[ImplicitMention] = ALL_IMPLICIT
    allows_text_commands: bool = True
    has_control_command: bool = False
    is_command_authorized: bool = False


@dataclass(frozen=True, slots=True)
class MentionDecision:
    """Whether the message is for the agent.

    Attributes:
        matched_implicit: The implicit ways that counted.
        was_mentioned: Addressed in one way or another.
        is_bypassed: Let through because it is a command.
        should_skip: Not answered; it may be kept as group history.
    """

    matched_implicit: tuple[ImplicitMention, ...]
    was_mentioned: bool
    is_bypassed: bool
    should_skip: bool


def decide_mention(facts: MentionInput, policy: MentionPolicy) -> MentionDecision:
    """Return whether the agent was addressed.

    A command by somebody who may use commands needs no mention, unless it mentions somebody else.
    """
    matched = tuple(kind for kind in dict.fromkeys(facts.implicit) if kind in policy.allowed_implicit)
    is_bypassed = (
        policy.is_group
        and policy.requires_mention
        and not facts.was_mentioned
        and not facts.has_any_mention
        and policy.allows_text_commands
        and policy.is_command_authorized
        and policy.has_control_command
    )
    was_mentioned = facts.was_mentioned or bool(matched) or is_bypassed
    should_skip = policy.is_group and policy.requires_mention and facts.can_detect and not was_mentioned
    return MentionDecision(matched, was_mentioned, is_bypassed, should_skip)


def facts_of(event: MessageEvent, *, matches_pattern: bool, has_patterns: bool) -> MentionInput:
    """Return what an event tells about mentions, together with what the agent's patterns found."""
    is_reply = event.reply_to is not None and event.reply_to.is_ours
    return MentionInput(
        can_detect=event.mentions.can_detect or has_patterns,
        was_mentioned=event.mentions.explicit or matches_pattern,
        has_any_mention=event.mentions.any or event.mentions.explicit or matches_pattern,
        implicit=(ImplicitMention.REPLY_TO_BOT,) if is_reply else (),
    )


@dataclass(frozen=True, slots=True)
class GroupMentionRules:
    """Where a mention is required: the group's own entry, the `*` entry, the channel's default, else everywhere."""

    by_group: Mapping[str, bool] = field(default_factory=dict)
    default: bool = True

    def requires_mention(self, event: MessageEvent, activation: bool | None = None) -> bool:
        """Return whether a message here must address the agent.

        Args:
            activation: What `/activation` set for the session, or None.
        """
        if event.peer.kind is PeerKind.DIRECT:
            return False
        if activation is not None:
            return activation
        parent = (event.parent_peer.id,) if event.parent_peer is not None else ()
        for place in (event.peer.id, *parent, event.address.chat, "*"):
            if place in self.by_group:
                return self.by_group[place]
        return self.default


@dataclass(frozen=True, slots=True)
class PatternPolicyDecision:
    """Whether an agent's patterns count in a conversation."""

    mode_is_deny: bool
    is_allowed_here: bool
    is_denied_here: bool

    @property
    def is_enabled(self) -> bool:
        """Whether patterns count; denial wins."""
        return not self.is_denied_here and (self.is_allowed_here or not self.mode_is_deny)


def pattern_policy(
    conversation: str | None, *, mode_is_deny: bool = False, allow_in: Iterable[str] = (), deny_in: Collection[str] = ()
) -> PatternPolicyDecision:
    """Return whether patterns count in `conversation` under `channels.<channel>.mentionPatterns`."""
    place = trim(conversation or "")
    return PatternPolicyDecision(
        mode_is_deny,
        bool(place) and place in {trim(entry) for entry in allow_in},
        bool(place) and place in {trim(entry) for entry in deny_in},
    )
