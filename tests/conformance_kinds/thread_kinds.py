"""Vectors about threads and topics, and about what the platforms' own conversations become."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from conformance_kinds.routing_kinds import Row, peer, table, text
from tidegate.events import Address, MessageEvent, Peer, PeerKind, Sender
from tidegate.routing import keys, threads
from tidegate.routing.bindings import RouteQuery
from tidegate.routing.keys import KeyRequest, PeerRef
from tidegate.routing.sessions import ResolvedSession, ResolveOptions, resolve_session
from tidegate.routing.table import select_route


def answer_thread(row: Row) -> Any:
    """Answer a row about threads."""
    return _THREADS[row["fn"]](row["input"])


def _known(**fields: Any) -> Row:
    return {name: value for name, value in fields.items() if value is not None}


def _thread_keys(raw: Row) -> Row:
    base, parent = raw["baseSessionKey"], raw.get("parentSessionKey")
    found = threads.thread_keys(base, raw.get("threadId"), parent)
    key = base if raw.get("useSuffix") is False else found.key
    return _known(sessionKey=key, parentSessionKey=found.parent)


def _split(raw: Row) -> Row:
    if not (raw.get("sessionKey") or "").strip():
        return {}
    base, thread = threads.split_thread(raw["sessionKey"])
    return _known(baseSessionKey=base, threadId=thread)


def _outbound_thread(raw: Row) -> str | None:
    value = raw.get("value")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(math.trunc(value)) if math.isfinite(value) else None
    return (value or "").strip() or None if isinstance(value, str | None) else None


def _forum_topic(raw: Row) -> int | None:
    return threads.telegram_forum_topic(
        is_group=raw.get("isGroup") is True, is_forum=raw.get("isForum") is True, thread=raw.get("messageThreadId")
    )


def _thread_spec(raw: Row) -> Row:
    if not raw.get("isGroup"):
        return _known(id=raw.get("messageThreadId"), scope="dm")
    topic = _forum_topic(raw)
    return {"scope": "none"} if topic is None else {"id": topic, "scope": "forum"}


def _parse_thread_id(raw: Row) -> int | None:
    value = raw.get("value")
    if isinstance(value, float):
        return math.trunc(value) if math.isfinite(value) else None
    return None if value is None else threads.parse_thread_id(str(value))


def _parse_topic(raw: Row) -> Any:
    found = threads.parse_topic(raw["conversationId"])
    if found is None:
        return None
    chat, topic = found
    canonical = threads.telegram_topic_peer(chat, topic)
    return {"chatId": chat, "thread": {"id": topic, "scope": "forum"}, "canonicalConversationId": canonical}


def _parent_peer(raw: Row) -> Any:
    if not raw.get("isGroup") or raw.get("resolvedThreadId") is None:
        return None
    return {"kind": "group", "id": str(raw["chatId"])}


def _telegram_event(raw: Row) -> MessageEvent:
    chat, is_group = str(raw["chatId"]), raw["isGroup"]
    spec = raw.get("threadSpec") or {}
    sender = text(raw.get("senderId")) or chat
    if is_group:
        topic = spec.get("id") if spec.get("scope") == "forum" else None
        to = Peer(PeerKind.GROUP, threads.telegram_topic_peer(chat, topic))
        parent = Peer(PeerKind.GROUP, chat) if topic is not None else None
        thread = None if topic is None else str(topic)
    else:
        to, parent = Peer(PeerKind.DIRECT, sender), None
        thread = text(raw.get("dmThreadId")) if raw.get("botHasTopicsEnabled") else None
    address = Address("telegram", raw["accountId"], chat, thread)
    return MessageEvent(address, to, Sender(sender), "1", "", parent_peer=parent)


def _telegram(raw: Row) -> Row:
    event = _telegram_event(raw)
    channel = (raw["config"].get("channels") or {}).get("telegram") or {}
    topic_agent = raw.get("topicAgentId")
    options = ResolveOptions(
        default_accounts={"telegram": channel["defaultAccount"]} if "defaultAccount" in channel else {},
        topic_agents={(event.address.account, event.peer.id): topic_agent} if topic_agent else {},
    )
    found = resolve_session(event, table(raw["config"]), options, is_owner=True)
    return _conversation(found) | {"accountId": found.route.account, "routeSessionKey": found.route.key}


def _conversation(found: ResolvedSession) -> Row:
    return {"agentId": found.agent, "matchedBy": found.matched_by.value, "sessionKey": found.key}


def _discord(raw: Row) -> Row:
    parent = raw.get("parentConversationId")
    route = select_route(
        RouteQuery(
            channel="discord",
            account=raw.get("accountId"),
            peer=peer(raw.get("peer")),
            parent_peer=PeerRef("channel", parent) if parent else None,
            guild=raw.get("guildId"),
            roles=tuple(raw.get("memberRoleIds") or ()),
        ),
        table(raw["config"]),
    )
    return {"agentId": route.agent, "matchedBy": route.matched_by.value, "sessionKey": route.key}


def _discord_outbound(raw: Row) -> Row:
    kind, _, chat = raw["target"].partition(":")
    if kind == "user":
        to = PeerRef("direct", chat)
    else:
        to = PeerRef("channel", _outbound_thread({"value": raw.get("threadId")}) or chat)
    key = keys.session_key(KeyRequest("main", "discord", to))
    return {
        "sessionKey": key,
        "baseSessionKey": key,
        "peer": {"kind": to.kind, "id": to.id},
        "chatType": to.kind,
        "to": f"{kind}:{to.id}",
    }


_SLACK_KINDS = {"channel": PeerKind.CHANNEL, "mpim": PeerKind.GROUP, "direct": PeerKind.DIRECT}


def _slack_id(written: str) -> str:
    if written.startswith("<@") and written.endswith(">"):
        return written[2:-1]
    return written.split(":", 1)[1] if written.startswith(("channel:", "user:", "group:", "slack:")) else written


def _slack(raw: Row) -> Row:
    config = dict(raw["config"])
    # The platform's own spellings of ids are resolved by its adapter before rules are compiled.
    config["bindings"] = [
        {**b, "match": {**b["match"], "peer": {**b["match"]["peer"], "id": _slack_id(b["match"]["peer"]["id"])}}}
        if b["match"].get("peer")
        else b
        for b in config.get("bindings") or []
    ]
    kind = _SLACK_KINDS[raw["chat"]]
    to = Peer(kind, raw["user"] if kind is PeerKind.DIRECT else raw["channel"])
    address = Address("slack", raw["accountId"], raw["channel"], raw.get("thread_ts"))
    event = MessageEvent(address, to, Sender(raw["user"]), "1", "", team=raw.get("teamId"))
    found = resolve_session(event, table(config), is_owner=True)
    answer = _conversation(found) | {"routeSessionKey": found.route.key}
    is_thread = found.key != found.route.key
    return answer | (_known(parentSessionKey=found.parent_key) if raw.get("inheritParent") and is_thread else {})


_THREADS: dict[str, Callable[[Row], Any]] = {
    "resolveThreadSessionKeys": _thread_keys,
    "parseThreadSessionSuffix": _split,
    "normalizeOutboundThreadId": _outbound_thread,
    "telegram.groupPeerId": lambda raw: threads.telegram_topic_peer(str(raw["chatId"]), raw.get("threadId")),
    "telegram.parentPeer": _parent_peer,
    "telegram.threadSpec": _thread_spec,
    "telegram.forumThreadId": _forum_topic,
    "telegram.parseThreadId": _parse_thread_id,
    "telegram.parseTopicConversation": _parse_topic,
    "telegram.conversation": _telegram,
    "discord.conversation": _discord,
    "discord.outbound": _discord_outbound,
    "slack.conversation": _slack,
}
