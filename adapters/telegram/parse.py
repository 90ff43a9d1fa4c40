"""Telegram's updates, as the Bot API sends them in JSON, turned into events.

Works on the raw objects: building the library's own costs more than everything else that is done with a message.
Field meanings: https://core.telegram.org/bots/api#update.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from tidegate.adapters.telegram.attachments import attachments_of, described
from tidegate.adapters.telegram.buttons import pressed_value
from tidegate.adapters.telegram.mentions import Me, mentions_in, with_links
from tidegate.adapters.telegram.settings import CHANNEL
from tidegate.events import Address, EventKind, MessageEvent, Peer, PeerKind, ReplyTo, Sender, clean_text

Json = Mapping[str, Any]

GENERAL_TOPIC = "1"
CONTINUES_FROM = 4000
"""A text of so many characters was probably cut by the sender's app; its rest follows."""
_MESSAGES = {
    "message": EventKind.MESSAGE,
    "channel_post": EventKind.MESSAGE,
    "edited_message": EventKind.EDIT,
    "edited_channel_post": EventKind.EDIT,
}

log = structlog.get_logger("telegram")


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was said."""

    address: Address
    peer: Peer
    parent: Peer | None
    title: str


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the updates of one bot.

    Attributes:
        max_download: Bytes of the largest file that the Bot API server hands out.
    """

    me: Me
    account: str
    max_download: int

    def read(self, update: Json, now: int) -> MessageEvent | None:
        """Return the event of an update; None for what nobody answers (service messages, polls, joins).

        Args:
            now: Microseconds UTC.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: It is not shaped as the Bot API says.
        """
        event_id = str(int(update["update_id"]))
        for name, kind in _MESSAGES.items():
            if name in update:
                return self._message(update[name], kind, event_id, now)
        if "callback_query" in update:
            return self._button(update["callback_query"], event_id, now)
        if "message_reaction" in update:
            return self._reaction(update["message_reaction"], event_id, now)
        return None

    def _message(self, message: Json, kind: EventKind, event_id: str, now: int) -> MessageEvent | None:
        sender = _sender(message)
        place = self._place(message, sender)
        text = message.get("text") or message.get("caption") or ""
        attachments = attachments_of(message, self.max_download)
        if not text:
            text = described(message)
        if "migrate_to_chat_id" in message:
            log.warning("chat.migrated", chat=place.address.chat, new_chat=str(message["migrate_to_chat_id"]))
        if not text and not attachments:
            return None
        entities = message.get("entities") or message.get("caption_entities") or ()
        return MessageEvent(
            address=place.address,
            peer=place.peer,
            sender=sender,
            message_id=str(int(message["message_id"])),
            text=clean_text(_forwarded(message) + with_links(text, entities)),
            event_id=event_id,
            kind=kind,
            revision=str(message.get("edit_date", "")) if kind is EventKind.EDIT else "",
            received_at=now,
            parent_peer=place.parent,
            attachments=attachments,
            reply_to=self._reply(message),
            mentions=mentions_in(text, entities, self.me),
            chat_title=place.title,
            album=str(message.get("media_group_id", "")),
            continues=kind is EventKind.MESSAGE and "text" in message and len(text) >= CONTINUES_FROM,
            author_is_self=_id(message.get("from")) == self.me.id,
        )

    def _button(self, query: Json, event_id: str, now: int) -> MessageEvent | None:
        message = query.get("message")
        if not message or "data" not in query:
            return None
        sender = _person(query["from"])
        place = self._place(message, sender)
        return MessageEvent(
            address=place.address,
            peer=place.peer,
            sender=sender,
            message_id=str(int(message["message_id"])),
            text=clean_text(pressed_value(str(query["data"]), message.get("reply_markup"))),
            event_id=event_id,
            kind=EventKind.BUTTON,
            revision=str(query["id"]),
            received_at=now,
            parent_peer=place.parent,
            chat_title=place.title,
        )

    def _reaction(self, reaction: Json, event_id: str, now: int) -> MessageEvent:
        actor = reaction.get("user")
        sender = _person(actor) if actor else _chat_as_sender(reaction["actor_chat"])
        place = self._place(reaction, sender)
        return MessageEvent(
            address=place.address,
            peer=place.peer,
            sender=sender,
            message_id=str(int(reaction["message_id"])),
            text=clean_text(" ".join(_emoji(one) for one in reaction.get("new_reaction", ()))),
            event_id=event_id,
            kind=EventKind.REACTION,
            revision=event_id,
            received_at=now,
            parent_peer=place.parent,
            chat_title=place.title,
            author_is_self=sender.id == self.me.id,
        )

    def _place(self, message: Json, sender: Sender) -> Place:
        chat = message["chat"]
        chat_id = str(int(chat["id"]))
        kind = chat.get("type", "private")
        title = clean_text(str(chat.get("title") or ""))
        topic = message.get("message_thread_id") if message.get("is_topic_message") else None
        if kind == "private":
            thread = str(int(topic)) if topic and self.me.has_topics else None
            return Place(self._address(chat_id, thread), Peer(PeerKind.DIRECT, sender.id), None, title)
        if kind == "channel":
            return Place(self._address(chat_id, None), Peer(PeerKind.CHANNEL, chat_id), None, title)
        group = Peer(PeerKind.GROUP, chat_id)
        if not (chat.get("is_forum") or topic):
            return Place(self._address(chat_id, None), group, None, title)
        thread = str(int(topic)) if topic else GENERAL_TOPIC
        return Place(self._address(chat_id, thread), Peer(PeerKind.GROUP, f"{chat_id}:topic:{thread}"), group, title)

    def _address(self, chat: str, thread: str | None) -> Address:
        return Address(CHANNEL, self.account, chat, thread)

    def _reply(self, message: Json) -> ReplyTo | None:
        answered = message.get("reply_to_message")
        if not answered or "forum_topic_created" in answered:
            return None
        sender = _sender(answered)
        quote = (message.get("quote") or {}).get("text")
        text = quote or answered.get("text") or answered.get("caption") or described(answered)
        is_ours = _id(answered.get("from")) == self.me.id
        return ReplyTo(str(int(answered["message_id"])), sender.id, is_ours, clean_text(text))


def _sender(message: Json) -> Sender:
    """Return who wrote a message. Anonymous administrators and channels write as their chat."""
    if message.get("sender_chat"):
        return _chat_as_sender(message["sender_chat"])
    if message.get("from"):
        return _person(message["from"])
    return _chat_as_sender(message["chat"])


def _forwarded(message: Json) -> str:
    """Return a line that says whose words a forwarded message holds; they are not the sender's own."""
    origin = message.get("forward_origin")
    if not origin:
        return ""
    if origin.get("sender_user"):
        name = _person(origin["sender_user"]).name
    elif origin.get("sender_chat") or origin.get("chat"):
        name = _chat_as_sender(origin.get("sender_chat") or origin["chat"]).name
    else:
        name = str(origin.get("sender_user_name") or "")
    return f"[forwarded from {name or 'somebody'}]\n"


def _person(user: Json) -> Sender:
    name = " ".join(part for part in (user.get("first_name"), user.get("last_name")) if part)
    return Sender(str(int(user["id"])), clean_text(name), str(user.get("username") or ""), bool(user.get("is_bot")))


def _chat_as_sender(chat: Json) -> Sender:
    name = chat.get("title") or chat.get("first_name") or ""
    return Sender(str(int(chat["id"])), clean_text(str(name)), str(chat.get("username") or ""))


def _id(user: Json | None) -> str:
    return str(user["id"]) if user else ""


def _emoji(reaction: Json) -> str:
    return str(reaction.get("emoji") or reaction.get("custom_emoji_id") or reaction.get("type", ""))
