"""How events are written to the store and read back: compact JSON without the fields that have their defaults."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tidegate.events import (
    Address,
    Attachment,
    EventKind,
    MediaKind,
    MentionFacts,
    MessageEvent,
    Peer,
    PeerKind,
    ReplyTo,
    Sender,
    clean_text,
)

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def dump_json(value: Any) -> str:
    """Return compact JSON text."""
    return _encode(value)


def load_numbers(text: str) -> list[int] | None:
    """Return a list of whole numbers that was written as JSON; None when the text is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    is_list = isinstance(found, list) and all(isinstance(item, int) for item in found)
    return found if is_list else None


def event_identity(event: MessageEvent) -> bytes:
    """Return the 16 bytes by which an event is recognised for ever when a platform delivers it again.

    An edit or a second press of a button has another kind or revision, so it is another event.
    """
    address = event.address
    parts = (
        address.channel,
        address.account,
        event.event_id,
        address.chat,
        event.message_id,
        event.kind.value,
        event.revision,
    )
    return hashlib.blake2b("\x1f".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def encode_event(event: MessageEvent, *, keep_text: bool = True) -> str:
    """Return an event as JSON; without `keep_text` only who and where, not what was said."""
    address = event.address
    data: dict[str, Any] = {
        "a": [address.channel, address.account, address.chat, address.thread],
        "p": [event.peer.kind.value, event.peer.id],
        "s": [event.sender.id, event.sender.name, event.sender.username, int(event.sender.is_bot)],
        "m": event.message_id,
        "t": event.text if keep_text else "",
        "r": event.received_at,
    }
    if event.event_id:
        data["e"] = event.event_id
    if event.kind is not EventKind.MESSAGE:
        data["k"] = event.kind.value
    if event.revision:
        data["v"] = event.revision
    if event.parent_peer:
        data["pp"] = [event.parent_peer.kind.value, event.parent_peer.id]
    if event.guild:
        data["g"] = event.guild
    if event.team:
        data["tm"] = event.team
    if event.roles:
        data["ro"] = list(event.roles)
    if event.attachments and keep_text:
        data["f"] = [[f.kind.value, f.remote, f.name, f.mime, f.size, f.blob, f.problem] for f in event.attachments]
    if event.reply_to and keep_text:
        reply = event.reply_to
        data["re"] = [reply.message_id, reply.sender_id, int(reply.is_ours), reply.text]
    mentions = event.mentions
    if not mentions.can_detect or mentions.explicit or mentions.any:
        data["me"] = [int(mentions.can_detect), int(mentions.explicit), int(mentions.any)]
    if event.chat_title:
        data["ct"] = event.chat_title
    if event.album:
        data["al"] = event.album
    if event.continues:
        data["co"] = 1
    if event.author_is_self:
        data["us"] = 1
    # Names and ids come from the platform as they are; a lone surrogate in one must not keep an event out.
    return clean_text(_encode(data))


def decode_event(text: str) -> MessageEvent:
    """Return the event that `encode_event` wrote."""
    data = json.loads(text)
    channel, account, chat, thread = data["a"]
    sender = data["s"]
    parent = data.get("pp")
    reply = data.get("re")
    mentions = data.get("me")
    return MessageEvent(
        address=Address(channel, account, chat, thread),
        peer=Peer(PeerKind(data["p"][0]), data["p"][1]),
        sender=Sender(sender[0], sender[1], sender[2], bool(sender[3])),
        message_id=data["m"],
        text=data["t"],
        event_id=data.get("e", ""),
        kind=EventKind(data.get("k", "message")),
        revision=data.get("v", ""),
        received_at=data["r"],
        parent_peer=Peer(PeerKind(parent[0]), parent[1]) if parent else None,
        guild=data.get("g"),
        team=data.get("tm"),
        roles=tuple(data.get("ro", ())),
        attachments=tuple(Attachment(MediaKind(f[0]), *f[1:]) for f in data.get("f", ())),
        reply_to=ReplyTo(reply[0], reply[1], bool(reply[2]), reply[3]) if reply else None,
        mentions=MentionFacts(*(bool(m) for m in mentions)) if mentions else MentionFacts(),
        chat_title=data.get("ct", ""),
        album=data.get("al", ""),
        continues=bool(data.get("co")),
        author_is_self=bool(data.get("us")),
    )
