"""`session`: which messages share a conversation, and when a conversation starts afresh."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, Strict

from tidegate.config.sections.base import (
    Amount,
    ByteSize,
    Days,
    DmScope,
    Flag,
    GroupScope,
    Lazy,
    Names,
    OffAsNone,
    Positive,
    Section,
    absent,
)

ResetMode = Literal["none", "daily", "idle"]
Hour = Annotated[int, Strict(), Field(ge=0, le=23)]


class ResetPolicy(Section):
    """When a conversation starts afresh by itself."""

    mode: ResetMode = "daily"
    """`daily`: at `atHour`; `idle`: after `idleMinutes` without a message; `none`: never."""
    at_hour: Hour = 4
    """Hour of the day, 0 is midnight, in `agents.defaults.userTimezone`."""
    idle_minutes: Positive | None = None
    """Minutes without a message; counts in mode `daily` too. Unset: no idle reset."""


class ResetOverride(Section):
    """A reset policy laid over `session.reset` field by field; what is unset shows through."""

    mode: ResetMode | None = None
    """As in `session.reset`."""
    at_hour: Hour | None = None
    """As in `session.reset`."""
    idle_minutes: Positive | None = None
    """As in `session.reset`."""


class ResetByType(Section):
    """Reset policies for kinds of conversation."""

    direct: Lazy[ResetOverride] | None = None
    """Conversations with one person."""
    group: Lazy[ResetOverride] | None = None
    """Groups and channels."""
    thread: Lazy[ResetOverride] | None = None
    """Threads and topics."""


class SendMatch(Section):
    """What a send rule applies to; all given fields must hold."""

    channel: str | None = None
    """Channel id, such as `telegram`."""
    chat_type: Literal["direct", "group", "channel"] | None = None
    """Kind of conversation."""
    key_prefix: str | None = None
    """Beginning of the session key without `agent:<id>:`."""
    raw_key_prefix: str | None = None
    """Beginning of the whole session key."""


class SendRule(Section):
    """One rule about sending; any matching `deny` wins."""

    action: Literal["allow", "deny"]
    """What to do with replies that match."""
    match: Lazy[SendMatch] = absent(SendMatch)
    """What the rule applies to; empty: everything."""


class SendPolicy(Section):
    """Which sessions may send replies."""

    default: Literal["allow", "deny"] = "allow"
    """What holds when no rule matches."""
    rules: tuple[Lazy[SendRule], ...] = ()
    """Rules in order."""


class ThreadBindings(Section):
    """Threads that stay tied to a session of their own."""

    enabled: Flag = True
    """Tie threads to sessions."""
    idle_hours: Amount = 24
    """Hours without a message until the tie ends; 0: never."""
    max_age_hours: Amount = 0
    """Hours after which the tie ends in any case; 0: never."""


class Maintenance(Section):
    """What happens to old conversations."""

    mode: Literal["enforce", "warn"] = "enforce"
    """`warn`: only say what would be done."""
    prune_after: Days = timedelta(days=30)
    """Age at which an idle conversation is archived; a bare number counts days."""
    archive_dashboard_after: Annotated[Days | None, OffAsNone] = timedelta(days=7)
    """The same for conversations begun in the web interface; `false` or 0: never."""
    max_entries: Positive = 5000
    """Conversations kept unarchived."""
    preserve_recent: Annotated[Days | None, OffAsNone] = None
    """Conversations younger than this are left alone; unset or `false`: no such rule."""
    reset_archive_retention: Annotated[Days | None, OffAsNone] = None
    """How long conversations ended by a reset are kept; unset or `false`: for ever."""
    max_disk_bytes: Annotated[ByteSize | None, OffAsNone] = 10 << 30
    """Disk the conversations may use, in bytes or as `10gb`; `false`: no limit."""
    high_water_bytes: ByteSize | None = None
    """Where cleaning up stops once begun, in bytes; unset: 80 % of `maxDiskBytes`."""


class SessionSection(Section):
    """Which messages share a conversation, and when it starts afresh."""

    scope: Literal["per-sender", "global"] = "per-sender"
    """`global`: one conversation for everything."""
    dm_scope: DmScope | None = None
    """How direct messages are shared. Unset: the owner's share the main conversation, guests get their own;
    `main`: everybody admitted shares it."""
    group_scope: GroupScope = "per-group"
    """`main`: groups share the main conversation as well."""
    main_key: str = "main"
    """Accepted for compatibility; the main conversation is always called `main`."""
    identity_links: dict[str, Names] = Field(default_factory=dict)
    """One person's ids on several platforms: name → `["telegram:1", "discord:2"]`."""
    reset_triggers: Names = ()
    """Messages that start afresh; empty: `/new` and `/reset`."""
    reset: Lazy[ResetPolicy] = absent(ResetPolicy)
    """When a conversation starts afresh by itself; the default is daily at 04:00."""
    reset_by_type: Lazy[ResetByType] = absent(ResetByType)
    """Differences for kinds of conversation, laid over `reset`."""
    reset_by_channel: dict[str, Lazy[ResetPolicy]] = Field(default_factory=dict)
    """Policies for channels; each replaces all the others."""
    send_policy: Lazy[SendPolicy] = absent(SendPolicy)
    """Which sessions may send replies."""
    thread_bindings: Lazy[ThreadBindings] = absent(ThreadBindings)
    """Threads that stay tied to a session."""
    maintenance: Lazy[Maintenance] = absent(Maintenance)
    """What happens to old conversations."""
