"""`messages` and `commands`: what happens between a message and its answer."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from tidegate.config.sections.base import (
    AckScope,
    Count,
    Flag,
    Identifiers,
    Lazy,
    Names,
    Positive,
    QueueMode,
    Seconds,
    Section,
    VisibleReplies,
    absent,
)

_MODE_NAMES = {"steer+backlog": "steer-backlog", "queue": "steer"}


def _queue_mode(value: object) -> object:
    return _MODE_NAMES.get(value, value) if isinstance(value, str) else value


def _visible(value: object) -> object:
    if isinstance(value, bool):
        return "automatic" if value else "message_tool"
    return value


Mode = Annotated[QueueMode, BeforeValidator(_queue_mode)]
Visible = Annotated[VisibleReplies, BeforeValidator(_visible)]


class Queue(Section):
    """What happens to messages that arrive while a turn runs."""

    mode: Mode = "collect"
    """`collect`: one turn for all that waits; `steer`: into the running turn; `followup`: one turn each;
    `interrupt`: stop the running turn; `steer-backlog`: steer, and a turn of its own as well."""
    debounce_ms: Count = 500
    """Quiet time after a turn before waiting messages run, milliseconds; 0: at once."""
    cap: Positive = 20
    """Messages that may wait for one session."""
    drop: Literal["summarize", "old", "new"] = "summarize"
    """Which message gives way when `cap` is reached; the sender is always told."""
    by_channel: dict[str, Mode] = Field(default_factory=dict)
    """Mode for channels."""
    debounce_ms_by_channel: dict[str, Count] = Field(default_factory=dict)
    """Quiet time for channels, milliseconds."""


class Inbound(Section):
    """Joining messages that one person sends in quick succession."""

    debounce_ms: Count = 0
    """How long to wait for more, milliseconds; 0: not at all."""
    by_channel: dict[str, Count] = Field(default_factory=dict)
    """The same for channels, milliseconds."""


class GroupChat(Section):
    """How groups are read."""

    mention_patterns: Names | None = None
    """Regular expressions that count as a mention; empty: none; unset: made from the agent's name."""
    history_limit: Count | None = None
    """Earlier messages shown with a mention; 0: none; unset: 50."""
    visible_replies: Visible | None = None
    """As `messages.visibleReplies`, for groups."""
    unmentioned_inbound: Literal["user_request", "room_event"] = "user_request"
    """What a message without a mention is, where mentions are not required."""


class StatusReactions(Section):
    """Reactions that show how far a turn is."""

    enabled: Flag | None = None
    """Unset: the channel's own default."""


class Outbox(Section):
    """Replies on their way to a platform."""

    max_age: Seconds = timedelta(hours=1)
    """Replies older than this are reported instead of being sent late; a bare number counts seconds."""


class MessagesSection(Section):
    """What happens between a message and its answer."""

    queue: Lazy[Queue] = absent(Queue)
    """Messages that arrive while a turn runs."""
    inbound: Lazy[Inbound] = absent(Inbound)
    """Joining quick successions."""
    response_prefix: str | None = None
    """Put before each reply; `auto`: the agent's name in brackets; empty: nothing."""
    ack_reaction: str | None = None
    """Emoji set on a message being worked on; empty: none; unset: the agent's emoji."""
    ack_reaction_scope: AckScope = "group-mentions"
    """Where that reaction is set."""
    group_chat: Lazy[GroupChat] = absent(GroupChat)
    """How groups are read."""
    visible_replies: Visible = "automatic"
    """`automatic`: the final text is sent; `message_tool`: only what the message tool sends."""
    status_reactions: Lazy[StatusReactions] = absent(StatusReactions)
    """Reactions that show how far a turn is."""
    outbox: Lazy[Outbox] = absent(Outbox)
    """Replies on their way."""


class CommandsSection(Section):
    """Chat commands and who may use them."""

    native: Literal[True, False, "auto"] = "auto"
    """Register commands with the platform's menu; `auto`: where the platform has one."""
    native_skills: Literal[True, False, "auto"] = "auto"
    """Register skills as commands as well."""
    text: Flag = True
    """Recognise commands in plain messages."""
    bash: Flag = False
    """Allow `/bash` to the owner."""
    bash_foreground_ms: Annotated[Count, Field(le=30_000)] = 2000
    """How long `/bash` waits before it goes on in the background, milliseconds; 0: at once."""
    config: Flag = False
    """Allow `/config`."""
    mcp: Flag = False
    """Allow `/mcp`."""
    plugins: Flag = False
    """Allow `/plugins`."""
    debug: Flag = False
    """Allow `/debug`."""
    restart: Flag = True
    """Allow `/restart`."""
    owner_allow_from: Identifiers = ()
    """The owner's identities, such as `telegram:424242`."""
    allow_from: dict[str, Identifiers] = Field(default_factory=dict)
    """Who may use commands, by channel; `*` for all channels. Empty: whoever may talk to the agent."""
