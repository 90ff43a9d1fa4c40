"""Vectors about queues, commands, access, mentions and debouncing."""

from __future__ import annotations

from typing import Any

from conformance_kinds.routing_kinds import Row
from tidegate.routing import access, commands, debounce, mention_patterns, mentions, queue_policy, queue_settings
from tidegate.routing.access import AccessPolicy, Approach, DmPolicy, GroupPolicy, Identity
from tidegate.routing.mentions import ImplicitMention, MentionInput, MentionPolicy
from tidegate.routing.queue_settings import QueueConfig, QueueOverride


def answer_queue(row: Row) -> Any:
    """Answer a row about queues."""
    raw = row["input"]
    match row["fn"]:
        case "normalizeQueueMode":
            mode = queue_settings.parse_mode(raw.get("raw"))
            return mode.value if mode else None
        case "normalizeQueueDropPolicy":
            drop = queue_settings.parse_drop(raw.get("raw"))
            return drop.value if drop else None
        case "resolveQueueSettings":
            return _queue_settings(raw)
    return queue_policy.run_action(
        is_active=raw["isActive"],
        is_heartbeat=raw["isHeartbeat"],
        is_reset=raw["resetTriggered"],
        waits_for_run=raw["shouldFollowup"],
        admission=queue_policy.Admission(raw["queueAdmissionState"]),
    ).value


def _queue_settings(raw: Row) -> Row:
    queue = (raw["cfg"].get("messages") or {}).get("queue") or {}
    modes = {
        name.lower(): mode
        for name, text in (queue.get("byChannel") or {}).items()
        if (mode := queue_settings.parse_mode(text))
    }
    config = QueueConfig(
        _override(queue, "mode", "debounceMs", "cap", "drop"),
        modes,
        {name.lower(): value for name, value in (queue.get("debounceMsByChannel") or {}).items()},
    )
    session = _override(raw.get("sessionEntry") or {}, "queueMode", "queueDebounceMs", "queueCap", "queueDrop")
    inline = _override(
        {"mode": raw.get("inlineMode"), **(raw.get("inlineOptions") or {})}, "mode", "debounceMs", "cap", "dropPolicy"
    )
    found = queue_settings.resolve_settings(config, raw["channel"], session, inline, raw.get("pluginDebounceMs"))
    return {
        "mode": found.mode.value,
        "debounceMs": found.debounce_ms,
        "cap": found.cap,
        "dropPolicy": found.drop.value,
    }


def _override(raw: Row, mode: str, debounce_ms: str, cap: str, drop: str) -> QueueOverride:
    return QueueOverride(
        queue_settings.parse_mode(raw.get(mode)),
        raw.get(debounce_ms),
        raw.get(cap),
        queue_settings.parse_drop(raw.get(drop)),
    )


def answer_commands(row: Row) -> Any:
    """Answer a row about commands."""
    raw = row["input"]
    text, bot = raw.get("text") or "", raw.get("botUsername")
    match row["fn"]:
        case "hasControlCommand":
            return commands.has_control_command(text, bot)
        case "isControlCommandMessage":
            return commands.is_control_command_message(text, bot)
        case "hasInlineCommandTokens":
            return commands.has_inline_command_tokens(text)
        case "normalizeCommandBody":
            return commands.normalize_command_body(text, bot)
        case "isAbortRequestText":
            return commands.is_abort_request(text, bot)
    found = commands.parse_activation(text, bot)
    mode = {"mode": found.mode.value} if found and found.mode else {}
    return {"hasCommand": found is not None, **mode}


def answer_access(row: Row) -> Any:
    """Answer a row about access."""
    raw = row["input"]
    policy = AccessPolicy(
        dm_policy=DmPolicy(raw.get("dmPolicy") or "pairing"),
        group_policy=GroupPolicy(raw.get("groupPolicy") or "allowlist"),
        allow_from=tuple(raw.get("allowFrom") or ()),
        group_allow_from=tuple(raw.get("groupAllowFrom") or ()),
    )
    paired = tuple(raw.get("storeAllowFrom") or ())
    approach = Approach(Identity("telegram", raw["sender"]), raw["isGroup"], ("g1",))
    match access.decide_access(approach, policy, paired):
        case access.Allow(reason):
            decision = "allow"
        case access.Deny(reason):
            decision = "block"
        case access.Pair(reason):
            decision = "pairing"
    return {
        "decision": decision,
        "reasonCode": reason.value,
        "effectiveAllowFrom": list(policy.direct_entries(paired)),
        "effectiveGroupAllowFrom": list(policy.group_entries()),
    }


_TOGGLES = {
    "replyToBot": ImplicitMention.REPLY_TO_BOT,
    "quotedBot": ImplicitMention.QUOTED_BOT,
    "threadParticipation": ImplicitMention.BOT_THREAD_PARTICIPANT,
}


def answer_mention_gating(row: Row) -> Any:
    """Answer a row about mentions."""
    facts, policy = row["input"]["facts"], row["input"]["policy"]
    toggles = policy.get("implicitMentions") or {}
    switched_off = {kind for name, kind in _TOGGLES.items() if toggles.get(name) is False}
    found = mentions.decide_mention(
        MentionInput(
            can_detect=facts["canDetectMention"],
            was_mentioned=facts["wasMentioned"],
            has_any_mention=facts.get("hasAnyMention") is True,
            implicit=tuple(map(ImplicitMention, facts.get("implicitMentionKinds") or ())),
        ),
        MentionPolicy(
            is_group=policy["isGroup"],
            requires_mention=policy["requireMention"],
            allowed_implicit=mentions.ALL_IMPLICIT - switched_off,
            allows_text_commands=policy["allowTextCommands"],
            has_control_command=policy["hasControlCommand"],
            is_command_authorized=policy["commandAuthorized"],
        ),
    )
    return {
        "implicitMention": bool(found.matched_implicit),
        "matchedImplicitMentionKinds": [kind.value for kind in found.matched_implicit],
        "effectiveWasMentioned": found.was_mentioned,
        "shouldBypassMention": found.is_bypassed,
        "shouldSkip": found.should_skip,
    }


def answer_mention_patterns(row: Row) -> Any:
    """Answer a row about mention patterns."""
    raw = row["input"]
    if row["fn"] == "matchesMentionPatterns":
        return _patterns(raw["cfg"], raw["agentId"]).match(raw["text"])
    policy = raw.get("providerPolicy") or {}
    found = mentions.pattern_policy(
        raw.get("conversationId"),
        mode_is_deny=policy.get("mode") == "deny",
        allow_in=policy.get("allowIn") or (),
        deny_in=policy.get("denyIn") or (),
    )
    return {
        "effectiveMode": "deny" if found.mode_is_deny else "allow",
        "allowMatched": found.is_allowed_here,
        "denyMatched": found.is_denied_here,
        "enabled": found.is_enabled,
    }


def _patterns(config: Row, agent: str) -> mention_patterns.MentionPatterns:
    entry = ((config.get("agents") or {}).get("entries") or {}).get(agent) or {}
    of_all = ((config.get("messages") or {}).get("groupChat") or {}).get("mentionPatterns")
    own = (entry.get("groupChat") or {}).get("mentionPatterns")
    identity = entry.get("identity") or {}
    configured = of_all if own is None else own
    return mention_patterns.patterns_of(configured, identity.get("name") or "", identity.get("emoji") or "")


def answer_inbound_debounce(row: Row) -> Any:
    """Answer a row about inbound debouncing."""
    raw = row["input"]
    if row["fn"] == "shouldDebounceTextInbound":
        return debounce.should_debounce(
            raw.get("text") or "",
            has_media=raw.get("hasMedia") is True,
            is_allowed=raw.get("allowDebounce") is not False,
        )
    inbound = (raw["cfg"].get("messages") or {}).get("inbound") or {}
    settings = debounce.DebounceSettings(inbound.get("debounceMs"), inbound.get("byChannel") or {})
    wait = debounce.debounce_time(settings, raw["channel"], raw.get("overrideMs"))
    return round(wait.total_seconds() * 1000)
