"""`channels.telegram.groups`, `.direct` and `.dms`: what holds in single chats."""

from typing import Literal

from pydantic import Field

from tidegate.config.sections.base import (
    Count,
    DmPolicy,
    Flag,
    GroupPolicy,
    Identifiers,
    Lazy,
    Names,
    Section,
    ToolNames,
)


class DmHistory(Section):
    """History for one person."""

    history_limit: Count | None = None
    """Their earlier turns shown to the model; 0: none; unset: all."""


class Place(Section):
    """What a group, a topic or a direct chat has in common."""

    enabled: Flag = True
    """Answer here."""
    allow_from: Identifiers | None = None
    """Senders; unset: as for the channel."""
    system_prompt: str | None = None
    """Added to the agent's instructions here."""
    skills: Names | None = None
    """Skills here; empty: none; unset: as for the agent."""
    error_policy: Literal["always", "once", "silent"] | None = None
    """Whether failures are told here."""


class Topic(Place):
    """One topic of a forum group."""

    require_mention: Flag | None = None
    """Answer only when mentioned; unset: as for the group."""
    group_policy: GroupPolicy | None = None
    """Who may talk; unset: as for the group."""
    agent_id: str | None = None
    """Agent that answers here, whatever the bindings say."""
    disable_audio_preflight: Flag | None = None
    """Do not listen to voice notes to find a mention."""


class Group(Place):
    """One group, or `*` for all others."""

    require_mention: Flag | None = None
    """Answer only when mentioned; unset: as `*`, else yes."""
    group_policy: GroupPolicy | None = None
    """Who may talk; unset: as for the channel."""
    tools: Lazy[ToolNames] | None = None
    """Tools here."""
    tools_by_sender: dict[str, Lazy[ToolNames]] = Field(default_factory=dict)
    """Tools by sender; the first specific match counts, `*` for all others."""
    topics: dict[str, Lazy[Topic]] = Field(default_factory=dict)
    """Topics by thread id, or `*`."""
    ingest: Flag = False
    """Keep messages without a mention for memory."""
    disable_audio_preflight: Flag | None = None
    """Do not listen to voice notes to find a mention."""


class Direct(Place):
    """One person's chat."""

    dm_policy: DmPolicy | None = None
    """Who may talk; unset: as for the channel."""
    tools: Lazy[ToolNames] | None = None
    """Tools here."""
    tools_by_sender: dict[str, Lazy[ToolNames]] = Field(default_factory=dict)
    """Tools by sender."""
    topics: dict[str, Lazy[Topic]] = Field(default_factory=dict)
    """Topics by thread id, or `*`."""
    require_topic: Flag = False
    """Answer only inside topics."""
