"""`channels`: the platforms, and what they have in common."""

from pydantic import Field

from tidegate.config.sections.base import ContextVisibility, Flag, GroupPolicy, Lazy, Positive, Section, absent
from tidegate.config.sections.telegram import HeartbeatVisibility, TelegramChannel

AVAILABLE_CHANNELS = frozenset({"telegram"})
"""Channels this version can connect."""

KNOWN_CHANNELS = AVAILABLE_CHANNELS | frozenset(
    {
        "bluebubbles",
        "discord",
        "email",
        "feishu",
        "googlechat",
        "imessage",
        "irc",
        "line",
        "matrix",
        "mattermost",
        "msteams",
        "nextcloud-talk",
        "nostr",
        "qqbot",
        "signal",
        "slack",
        "sms",
        "synology-chat",
        "tlon",
        "twitch",
        "webchat",
        "wechat",
        "wecom",
        "whatsapp",
        "zalo",
        "zalouser",
    }
)
"""Channels whose sections are accepted; those not available get a warning."""

CHANNEL_SETTINGS = frozenset({"defaults", "modelByChannel"})


class BotLoopProtection(Section):
    """Stopping two bots that answer each other."""

    enabled: Flag = True
    """Count messages between bots."""
    max_events_per_window: Positive = 20
    """Messages between one pair in a window."""
    window_seconds: Positive = 60
    """Length of the window, seconds."""
    cooldown_seconds: Positive = 60
    """Silence after too many, seconds."""


class ImplicitMentions(Section):
    """What counts as a mention without the name."""

    reply_to_bot: Flag = True
    """A reply to the bot's message."""
    quoted_bot: Flag = True
    """A quotation of the bot's message."""
    thread_participation: Flag = True
    """A message in a thread the bot takes part in."""


class ChannelDefaults(Section):
    """Settings for channels that do not say otherwise."""

    group_policy: GroupPolicy = "allowlist"
    """Which groups are answered."""
    context_visibility: ContextVisibility = "all"
    """Whose quoted words the model sees."""
    heartbeat_visibility: Lazy[HeartbeatVisibility] = absent(HeartbeatVisibility)
    """What is seen of heartbeats."""
    bot_loop_protection: Lazy[BotLoopProtection] = absent(BotLoopProtection)
    """Stopping two bots that answer each other."""
    implicit_mentions: Lazy[ImplicitMentions] = absent(ImplicitMentions)
    """What counts as a mention without the name."""


class ChannelsSection(Section):
    """The platforms."""

    defaults: Lazy[ChannelDefaults] = absent(ChannelDefaults)
    """Settings for all channels."""
    model_by_channel: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Model by channel and peer."""
    telegram: Lazy[TelegramChannel] | None = None
    """Telegram bots; unset: none."""
