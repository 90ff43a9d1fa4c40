"""`channels.telegram`: bots and who may talk to them.

Keys and defaults follow OpenClaw's layout; limits of the platform come from https://core.telegram.org/bots/api.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from tidegate.config.sections.base import (
    AckScope,
    ContextVisibility,
    Count,
    DmPolicy,
    Flag,
    GroupPolicy,
    Identifier,
    Identifiers,
    Lazy,
    Names,
    Positive,
    PositiveAmount,
    Secret,
    Section,
    absent,
    normalize_id,
)
from tidegate.config.sections.streaming import Streaming
from tidegate.config.sections.telegram_chats import Direct, DmHistory, Group

DEFAULT_ACCOUNT = "default"


def _capabilities(value: object) -> object:
    if isinstance(value, list):
        return {"inlineButtons": "all"} if "inlineButtons" in value else {}
    return value


class Capabilities(Section):
    """What a bot may use."""

    inline_buttons: Literal["off", "dm", "group", "all", "allowlist"] = "allowlist"
    """Where buttons are offered."""


class Markdown(Section):
    """How text is shown."""

    tables: Literal["off", "bullets", "code", "block"] = "block"
    """How tables are shown; Telegram has none of its own."""


class Actions(Section):
    """What the message tool may do here."""

    send_message: Flag = True
    """Send."""
    edit_message: Flag = True
    """Edit the bot's messages."""
    delete_message: Flag = True
    """Delete messages."""
    reactions: Flag = True
    """React."""
    poll: Flag = True
    """Ask polls."""
    sticker: Flag = False
    """Send stickers."""
    create_forum_topic: Flag = True
    """Open topics."""
    edit_forum_topic: Flag = True
    """Rename topics."""


class ChannelCommands(Section):
    """The command menu."""

    native: Literal[True, False, "auto"] | None = None
    """Unset: as `commands.native`."""
    native_skills: Literal[True, False, "auto"] | None = None
    """Unset: as `commands.nativeSkills`."""


class CustomCommand(Section):
    """An entry of the command menu that is passed to the agent."""

    command: str
    """Name: 1–32 of a–z, 0–9 and _."""
    description: str
    """What the menu says."""


class ExecApprovals(Section):
    """Approving commands from a chat."""

    enabled: Literal[True, False, "auto"] = "auto"
    """`auto`: when there are approvers."""
    approvers: Identifiers = ()
    """Who may approve; empty: the owner."""
    agent_filter: Names = ()
    """Only for these agents; empty: all."""
    session_filter: Names = ()
    """Only for sessions whose key contains one of these; empty: all."""
    target: Literal["dm", "channel", "both"] = "dm"
    """Where the question is asked."""


class Network(Section):
    """How the platform is reached."""

    auto_select_family: Flag | None = None
    """Try IPv4 and IPv6 side by side; unset: yes."""
    dns_result_order: Literal["ipv4first", "verbatim"] | None = None
    """Which addresses are tried first."""
    dangerously_allow_private_network: Flag = False
    """Fetch media from private addresses (own Bot API server)."""


class MentionPatterns(Section):
    """Where `mentionPatterns` of an agent count."""

    mode: Literal["allow", "deny"] = "allow"
    """What holds in chats not listed."""
    allow_in: Identifiers = ()
    """Chats where they count."""
    deny_in: Identifiers = ()
    """Chats where they do not; wins."""


class HealthMonitor(Section):
    """Watching the connection."""

    enabled: Flag = True
    """Restart the connection when it hangs."""


class HeartbeatVisibility(Section):
    """What is seen of heartbeats."""

    show_ok: Flag = False
    """Show that nothing was to be done."""
    show_alerts: Flag = True
    """Show what was found."""
    use_indicator: Flag = True
    """Show that one runs."""


class TelegramAccount(Section):
    """One bot with everything it needs; what `channels.telegram` says holds for all bots."""

    name: str | None = None
    """Name in lists."""
    enabled: Flag = True
    """Connect this bot."""
    bot_token: Secret | None = Field(default=None, repr=False)
    """Token from BotFather."""
    token_file: str | None = None
    """File that holds the token; not a symbolic link."""
    dm_policy: DmPolicy = "pairing"
    """Who may talk to the bot: after pairing, those in `allowFrom`, everybody, or nobody."""
    allow_from: Identifiers = ()
    """Numeric user ids, or `accessGroup:<name>`; `*`: everybody."""
    group_policy: GroupPolicy | None = None
    """Which groups are answered; unset: `channels.defaults.groupPolicy`, else `allowlist`."""
    group_allow_from: Identifiers = ()
    """Senders in groups; empty: `allowFrom`."""
    groups: dict[str, Lazy[Group]] = Field(default_factory=dict)
    """Groups by chat id, or `*`."""
    direct: dict[str, Lazy[Direct]] = Field(default_factory=dict)
    """Direct chats by user id, or `*`."""
    dms: dict[str, Lazy[DmHistory]] = Field(default_factory=dict)
    """History by user id; an account's map replaces the channel's."""
    default_to: Identifier | None = None
    """Where messages go that name no chat."""
    history_limit: Count | None = None
    """Earlier group messages shown with a mention; 0: none; unset: `messages.groupChat.historyLimit`, else 50."""
    dm_history_limit: Count | None = None
    """Earlier turns shown in direct chats; 0: none; unset: all."""
    text_chunk_limit: Annotated[Positive, Field(le=4096)] = 4000
    """Characters of one message, in UTF-16 units; Telegram takes 4096."""
    streaming: Lazy[Streaming] = absent(Streaming)
    """How an answer appears while it is written."""
    reply_to_mode: Literal["off", "first", "all", "batched"] = "first"
    """Which messages of an answer quote the question."""
    link_preview: Flag = True
    """Show previews of links."""
    rich_messages: Flag = False
    """Use rich messages where the server has them."""
    markdown: Lazy[Markdown] = absent(Markdown)
    """How text is shown."""
    response_prefix: str | None = None
    """Put before each reply; empty: nothing; unset: `messages.responsePrefix`."""
    ack_reaction: str | None = None
    """Emoji on a message being worked on; empty: none; unset: `messages.ackReaction`."""
    ack_reaction_scope: AckScope | None = None
    """Unset: `messages.ackReactionScope`."""
    media_max_mb: PositiveAmount = 100
    """Largest file taken or sent, megabytes; Telegram's own limits are 20 down and 50 up."""
    proxy: str | None = Field(default=None, repr=False)
    """Address of a proxy."""
    api_root: str = "https://api.telegram.org"
    """Address of the Bot API server, without `/bot<token>`."""
    trusted_local_file_roots: Names = ()
    """Folders an own Bot API server may hand out files from."""
    webhook_url: str | None = None
    """Public address; set: updates are pushed instead of polled."""
    webhook_secret: Secret | None = Field(default=None, repr=False)
    """Secret that pushed updates must carry."""
    webhook_path: str = "/telegram-webhook"
    """Path that updates are pushed to."""
    webhook_host: str = "127.0.0.1"
    """Address to listen on for them."""
    webhook_port: Annotated[Count, Field(le=65535)] = 8787
    """Port to listen on; 0: any free one."""
    webhook_cert_path: str | None = None
    """Certificate given to Telegram, for self-signed ones."""
    capabilities: Annotated[Lazy[Capabilities], BeforeValidator(_capabilities)] = absent(Capabilities)
    """What the bot may use."""
    actions: Lazy[Actions] = absent(Actions)
    """What the message tool may do."""
    commands: Lazy[ChannelCommands] = absent(ChannelCommands)
    """The command menu."""
    custom_commands: tuple[Lazy[CustomCommand], ...] = ()
    """More entries of the menu."""
    reaction_notifications: Literal["off", "own", "all"] = "own"
    """Reactions the agent hears of: none, those on its messages, all."""
    reaction_level: Literal["off", "ack", "minimal", "extensive"] = "minimal"
    """How freely the agent reacts."""
    error_policy: Literal["always", "once", "silent"] = "always"
    """Whether failures are told in the chat."""
    silent_error_replies: Flag = False
    """Send failure notes without a sound."""
    exec_approvals: Lazy[ExecApprovals] = absent(ExecApprovals)
    """Approving commands from the chat."""
    config_writes: Flag = True
    """Let the owner change the configuration from here."""
    join_intro: Flag = False
    """Say hello when added to a group."""
    context_visibility: ContextVisibility | None = None
    """Whose quoted words the model sees; unset: `channels.defaults.contextVisibility`."""
    mention_patterns: Lazy[MentionPatterns] | None = None
    """Where mention patterns count; unset: everywhere."""
    heartbeat_visibility: Lazy[HeartbeatVisibility] | None = None
    """What is seen of heartbeats; unset: `channels.defaults`."""
    health_monitor: Lazy[HealthMonitor] = absent(HealthMonitor)
    """Watching the connection."""
    network: Lazy[Network] = absent(Network)
    """How the platform is reached."""

    @field_validator("api_root")
    @classmethod
    def _without_token(cls, value: str) -> str:
        if "/bot" in value:
            raise ValueError("write the address without /bot<token>; the token is added by itself")
        return value.rstrip("/")


class TelegramChannel(TelegramAccount):
    """All Telegram bots: settings of each, and the bots themselves under `accounts`."""

    accounts: dict[str, Lazy[TelegramAccount]] = Field(default_factory=dict)
    """Bots by name; each key overrides the one above. A token above is the bot `default`."""
    default_account: str | None = None
    """The bot that sends when none is named; unset: `default`, else the first."""

    def account_options(self) -> dict[str, TelegramAccount]:
        """Every bot with the channel's settings filled in, by normalised account id."""
        shared = _given(self)
        token: dict[str, Any] = {name: shared.pop(name) for name in ("bot_token", "token_file") if name in shared}
        merged = {
            normalize_id(name, DEFAULT_ACCOUNT): {**shared, **_given(account)}
            for name, account in self.accounts.items()
        }
        if not merged or (token and DEFAULT_ACCOUNT not in merged):
            merged = {DEFAULT_ACCOUNT: dict(shared), **merged}
        root = merged.get(DEFAULT_ACCOUNT)
        if root is not None and "bot_token" not in root and "token_file" not in root:
            root.update(token)
        if not self.enabled:
            merged = {name: {**options, "enabled": False} for name, options in merged.items()}
        blank = TelegramAccount.model_construct()
        return {name: blank.model_copy(update=options) for name, options in merged.items()}


def _given(account: TelegramAccount) -> dict[str, Any]:
    """The settings an account states itself, by attribute name."""
    return {name: getattr(account, name) for name in TelegramAccount.model_fields if name in account.model_fields_set}
