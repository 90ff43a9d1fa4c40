"""The configuration as pure rules: what admission and sessions ask, compiled once and swapped whole on a reload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.config.load import Loaded
from tidegate.config.model import Config
from tidegate.config.sections.agents import AgentOptions
from tidegate.config.sections.session import ResetOverride
from tidegate.config.sections.session import ResetPolicy as ResetSection
from tidegate.config.sections.telegram import TelegramAccount
from tidegate.config.sections.telegram_chats import Group
from tidegate.events import Address, EventKind, MessageEvent, PeerKind
from tidegate.routing.access import AccessPolicy, AllowList, CommandPolicy, DmPolicy, GroupPolicy, GroupRule
from tidegate.routing.bindings import Binding, Match
from tidegate.routing.debounce import DebounceSettings
from tidegate.routing.keys import DmScope, GroupScope, PeerRef
from tidegate.routing.links import IdentityLinks
from tidegate.routing.mention_patterns import MentionPatterns, patterns_of
from tidegate.routing.mentions import ALL_IMPLICIT, GroupMentionRules, ImplicitMention
from tidegate.routing.queue_settings import DropPolicy, QueueConfig, QueueMode, QueueOverride
from tidegate.routing.reset import ResetMode, ResetRule, ResetSettings, ResetType
from tidegate.routing.roster import Roster
from tidegate.routing.sessions import ResolveOptions
from tidegate.routing.table import RouteTable, SessionScopes

TERMINAL = "terminal"
"""The channel of the chat on this machine; whoever can open the state directory's socket is the owner."""
WEBCHAT = "webchat"
"""The channel of the control plane's clients; what an operator says there, the owner says."""
OWN_CHANNELS = frozenset({TERMINAL, WEBCHAT})
DEFAULT_HISTORY = 50
"""Messages of group talk that the agent is shown with a mention."""


@dataclass(frozen=True, slots=True)
class ChannelRules:
    """What holds for one account of one channel.

    Attributes:
        reply_to_mode: off, first, all or batched.
        streaming: off, partial, block or progress.
        ack_reaction: Emoji; None for the agent's own, empty for none.
        history_limit: Messages of group talk kept for the agent.
        group_notes: From a group's id to what its agent is told there.
        error_policy: always, once or silent.
    """

    access: AccessPolicy
    mentions: GroupMentionRules = field(default_factory=GroupMentionRules)
    reply_to_mode: str = "off"
    streaming: str = "partial"
    response_prefix: str | None = None
    ack_reaction: str | None = None
    ack_scope: str | None = None
    history_limit: int = DEFAULT_HISTORY
    media_max: int = 100 << 20
    group_notes: Mapping[str, str] = field(default_factory=dict)
    error_policy: str = "always"


@dataclass(frozen=True, slots=True)
class Ruleset:
    """Everything that admission, sessions and replies ask of the configuration."""

    config: Config
    table: RouteTable
    resolve: ResolveOptions
    channels: Mapping[tuple[str, str], ChannelRules]
    fallback: ChannelRules
    owners: tuple[str, ...]
    command_lists: Mapping[str, tuple[str, ...]] | None
    access_groups: Mapping[str, Mapping[str, tuple[str, ...]]]
    queue: QueueConfig
    debounce: DebounceSettings
    reset: ResetSettings
    reset_triggers: tuple[str, ...]
    implicit_mentions: frozenset[ImplicitMention]
    patterns: Mapping[str, MentionPatterns]

    def channel(self, address: Address) -> ChannelRules:
        """Return the rules of the account that an address belongs to."""
        return self.channels.get((address.channel, address.account), self.fallback)

    def command_policy(self, more_owners: frozenset[str]) -> CommandPolicy:
        """Return who may use commands, with the owners that the store knows."""
        owners = AllowList((*self.owners, *sorted(more_owners)), self.access_groups)
        return CommandPolicy(owners, self.command_lists)

    def ack_emoji(self, event: MessageEvent, agent: AgentOptions) -> str:
        """Return the reaction that says a message is being worked on, or an empty text for none."""
        channel = self.channel(event.address)
        emoji = channel.ack_reaction if channel.ack_reaction is not None else (agent.identity.emoji or "👀")
        is_direct = event.peer.kind is PeerKind.DIRECT
        is_mention = not is_direct and channel.mentions.requires_mention(event)
        shown = {
            "all": True,
            "direct": is_direct,
            "group-all": not is_direct,
            "group-mentions": is_mention,
        }.get(channel.ack_scope or "group-mentions", False)
        return emoji if shown and event.kind is EventKind.MESSAGE else ""

    def is_private(self, key: str) -> bool:
        """Return whether a direct session of the owner is theirs alone: not when a scope shares it with others."""
        scopes = self.table.scopes
        shared = {scopes.dm_scope, *(binding.dm_scope for binding in self.table.bindings)}
        rooms = {scopes.group_scope, *(binding.group_scope for binding in self.table.bindings)}
        if not key.endswith(":main") or not (DmScope.MAIN in shared or GroupScope.MAIN in rooms):
            return True
        if GroupScope.MAIN in rooms:
            return False
        return all(
            self._only_owner(rules.access)
            for (channel, _), rules in self.channels.items()
            if channel not in OWN_CHANNELS
        )

    def _only_owner(self, access: AccessPolicy) -> bool:
        """Return whether nobody but the owner may write directly on an account."""
        if access.dm_policy is DmPolicy.DISABLED:
            return True
        owners = {owner.partition(":")[2] or owner for owner in self.owners}
        entries = {entry.rpartition(":")[2] for entry in access.allow_from}
        return access.dm_policy is DmPolicy.ALLOWLIST and bool(entries) and entries <= owners


def build_ruleset(loaded: Loaded) -> Ruleset:
    """Compile the configuration."""
    config = loaded.config
    groups = {name: dict(group.members) for name, group in config.access_groups.items()}
    return Ruleset(
        config=config,
        table=_route_table(config),
        resolve=_resolve_options(config),
        channels=_channels(config, groups),
        # An account that is not configured any more, or a channel nobody configured: nobody may speak.
        fallback=ChannelRules(AccessPolicy(DmPolicy.DISABLED, GroupPolicy.DISABLED)),
        owners=tuple(config.commands.owner_allow_from),
        command_lists=dict(config.commands.allow_from) or None,
        access_groups=groups,
        queue=_queue(config),
        debounce=DebounceSettings(config.messages.inbound.debounce_ms, config.messages.inbound.by_channel),
        reset=_reset(config),
        reset_triggers=tuple(config.session.reset_triggers) or ("/new", "/reset"),
        implicit_mentions=_implicit(config),
        patterns={
            agent.id: patterns_of(
                agent.group_chat.mention_patterns
                if agent.group_chat.mention_patterns is not None
                else config.messages.group_chat.mention_patterns,
                agent.identity.name or "",
                agent.identity.emoji or "",
            )
            for agent in config.agents.roster()
        },
    )


def _route_table(config: Config) -> RouteTable:
    bindings = [
        Binding(
            agent=binding.agent_id,
            match=Match(
                channel=binding.match.channel,
                account=binding.match.account_id,
                peer=PeerRef(binding.match.peer.kind, binding.match.peer.id) if binding.match.peer else None,
                guild=binding.match.guild_id,
                team=binding.match.team_id,
                roles=tuple(binding.match.roles),
            ),
            index=index,
            dm_scope=DmScope(binding.session.dm_scope) if binding.session.dm_scope else None,
            group_scope=GroupScope(binding.session.group_scope) if binding.session.group_scope else None,
            is_route=binding.type == "route",
        )
        for index, binding in enumerate(config.bindings)
    ]
    members = config.agents.members()
    roster = Roster(
        agents=tuple(members),
        marked=tuple(name for name, entry in members.items() if entry.default),
        is_explicit=config.agents.ownership == "explicit",
        system_agent=config.agents.defaults.system_agent.agent_id,
    )
    session = config.session
    scopes = SessionScopes(
        dm_scope=DmScope(session.dm_scope) if session.dm_scope else None,
        group_scope=GroupScope(session.group_scope),
        links=IdentityLinks.build(session.identity_links),
    )
    return RouteTable.compile(bindings, roster, scopes)


def _resolve_options(config: Config) -> ResolveOptions:
    telegram = config.channels.telegram
    if telegram is None:
        return ResolveOptions()
    topics = {
        (account, f"{chat}:topic:{topic}"): rules.agent_id
        for account, options in telegram.account_options().items()
        for chat, group in options.groups.items()
        for topic, rules in group.topics.items()
        if rules.agent_id
    }
    defaults = {"telegram": telegram.default_account} if telegram.default_account else {}
    return ResolveOptions(defaults, topics)


def _channels(
    config: Config, access_groups: Mapping[str, Mapping[str, tuple[str, ...]]]
) -> dict[tuple[str, str], ChannelRules]:
    owner_only = AccessPolicy(DmPolicy.OPEN, GroupPolicy.DISABLED, allow_from=("*",))
    found = {
        (TERMINAL, "default"): ChannelRules(owner_only, reply_to_mode="off", ack_reaction=""),
        # The reply names the message that it answers: that is the id of the run.
        (WEBCHAT, "default"): ChannelRules(owner_only, reply_to_mode="all", streaming="off", ack_reaction=""),
    }
    telegram = config.channels.telegram
    if telegram is not None:
        for account, options in telegram.account_options().items():
            found["telegram", account] = _telegram(config, options, access_groups)
    return found


def _telegram(
    config: Config, options: TelegramAccount, access_groups: Mapping[str, Mapping[str, tuple[str, ...]]]
) -> ChannelRules:
    messages, defaults = config.messages, config.channels.defaults
    group_policy = GroupPolicy(options.group_policy or defaults.group_policy)
    access = AccessPolicy(
        dm_policy=DmPolicy(options.dm_policy),
        group_policy=group_policy,
        allow_from=tuple(options.allow_from),
        group_allow_from=tuple(options.group_allow_from),
        groups=_group_rules(options.groups) if options.groups else None,
        access_groups=access_groups,
    )
    limits = (options.history_limit, messages.group_chat.history_limit, DEFAULT_HISTORY)
    return ChannelRules(
        access=access,
        mentions=GroupMentionRules(_mention_rules(options.groups)),
        reply_to_mode=options.reply_to_mode,
        streaming=options.streaming.mode,
        response_prefix=options.response_prefix,
        ack_reaction=options.ack_reaction if options.ack_reaction is not None else messages.ack_reaction,
        ack_scope=options.ack_reaction_scope or messages.ack_reaction_scope,
        history_limit=next(limit for limit in limits if limit is not None),
        media_max=int(options.media_max_mb * (1 << 20)),
        group_notes=_notes(options.groups),
        error_policy=options.error_policy,
    )


def _places(groups: Mapping[str, Group]) -> dict[str, tuple[Group, object]]:
    """Return every group and topic under the id that routing knows it by."""
    found: dict[str, tuple[Group, object]] = {}
    for chat, group in groups.items():
        found[chat] = (group, group)
        for topic, rules in group.topics.items():
            found[f"{chat}:topic:{topic}"] = (group, rules)
    return found


def _group_rules(groups: Mapping[str, Group]) -> dict[str, GroupRule]:
    rules = {}
    for place, (group, own) in _places(groups).items():
        policy = getattr(own, "group_policy", None) or group.group_policy
        allow = getattr(own, "allow_from", None)
        allow = allow if allow is not None else group.allow_from
        rules[place] = GroupRule(
            is_enabled=group.enabled and bool(getattr(own, "enabled", True)),
            policy=GroupPolicy(policy) if policy else None,
            allow_from=tuple(allow) if allow is not None else None,
        )
    return rules


def _mention_rules(groups: Mapping[str, Group]) -> dict[str, bool]:
    rules = {}
    for place, (group, own) in _places(groups).items():
        required = getattr(own, "require_mention", None)
        required = required if required is not None else group.require_mention
        if required is not None:
            rules[place] = required
    return rules


def _notes(groups: Mapping[str, Group]) -> dict[str, str]:
    notes = {}
    for place, (group, own) in _places(groups).items():
        note = getattr(own, "system_prompt", None) or group.system_prompt
        if note:
            notes[place] = note
    return notes


def _queue(config: Config) -> QueueConfig:
    queue = config.messages.queue
    return QueueConfig(
        base=QueueOverride(QueueMode(queue.mode), queue.debounce_ms, queue.cap, DropPolicy(queue.drop)),
        mode_by_channel={name.lower(): QueueMode(mode) for name, mode in queue.by_channel.items()},
        debounce_ms_by_channel={name.lower(): value for name, value in queue.debounce_ms_by_channel.items()},
    )


def _reset(config: Config) -> ResetSettings:
    session = config.session
    by_type = {
        ResetType.DIRECT: session.reset_by_type.direct,
        ResetType.GROUP: session.reset_by_type.group,
        ResetType.THREAD: session.reset_by_type.thread,
    }
    return ResetSettings(
        base=_rule(session.reset),
        by_type={kind: _rule(section) for kind, section in by_type.items() if section is not None},
        by_channel={name: _rule(section) for name, section in session.reset_by_channel.items()},
    )


def _rule(section: ResetSection | ResetOverride) -> ResetRule:
    mode = ResetMode(section.mode) if section.mode else None
    return ResetRule(mode, section.at_hour, section.idle_minutes)


def _implicit(config: Config) -> frozenset[ImplicitMention]:
    chosen = config.channels.defaults.implicit_mentions
    off = set()
    if not chosen.reply_to_bot:
        off.add(ImplicitMention.REPLY_TO_BOT)
    if not chosen.quoted_bot:
        off.add(ImplicitMention.QUOTED_BOT)
    if not chosen.thread_participation:
        off.add(ImplicitMention.BOT_THREAD_PARTICIPANT)
    return ALL_IMPLICIT - off
