"""`bindings` and `accessGroups`: which agent answers whom."""

from typing import Any, Literal

from pydantic import Field

from tidegate.config.sections.base import DmScope, GroupScope, Identifiers, Lazy, Names, Section, absent


class Peer(Section):
    """Somebody or something a message can come from."""

    kind: Literal["direct", "group", "channel"]
    """`group` and `channel` are interchangeable in a binding."""
    id: str
    """The platform's id; `*`: any of this kind."""


class Match(Section):
    """What a binding applies to; all given fields must hold."""

    channel: str
    """Channel id, such as `telegram`."""
    account_id: str = "default"
    """Account of the channel; unset: the one called `default`; `*`: every account."""
    peer: Lazy[Peer] | None = None
    """Conversation; unset: any."""
    guild_id: str = ""
    """Discord server; unset: any."""
    team_id: str = ""
    """Slack workspace; unset: any."""
    roles: Names = ()
    """Any of these roles; empty: any member."""


class BindingSession(Section):
    """Session settings for messages that a binding matches."""

    dm_scope: DmScope | None = None
    """As `session.dmScope`."""
    group_scope: GroupScope | None = None
    """As `session.groupScope`."""


class Binding(Section):
    """One rule that gives messages to an agent."""

    agent_id: str
    """The agent; empty: the default agent."""
    match: Lazy[Match]
    """What the rule applies to."""
    type: Literal["route", "acp"] = "route"
    """`acp` entries are accepted and not used."""
    comment: str | None = None
    """For people."""
    session: Lazy[BindingSession] = absent(BindingSession)
    """Session settings for what this rule matches."""
    acp: dict[str, Any] | None = None
    """Settings of `acp` entries; not used."""


class AccessGroup(Section):
    """People that allow lists name as `accessGroup:<name>`."""

    type: Literal["message.senders", "discord.channelAudience"]
    """`message.senders`: the members below; `discord.channelAudience`: who can see a Discord channel."""
    members: dict[str, Identifiers] = Field(default_factory=dict)
    """Sender ids by channel; `*` for all channels."""
    guild_id: str | None = None
    """Discord server."""
    channel_id: str | None = None
    """Discord channel."""
    membership: Literal["canViewChannel"] = "canViewChannel"
    """What makes somebody a member of the audience."""
