"""The values that travel through the whole product: where a message is, who sent it, what it says.

All are frozen. An `Address` is captured once, with the inbound message, and is the only way to say
where a reply goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class PeerKind(StrEnum):
    """What sort of conversation a peer is."""

    DIRECT = "direct"
    GROUP = "group"
    CHANNEL = "channel"


@dataclass(frozen=True, slots=True)
class Peer:
    """The other side of a conversation as routing rules name it: one person, a group or a channel."""

    kind: PeerKind
    id: str


@dataclass(frozen=True, slots=True)
class Address:
    """Where a message was said and where its answer goes: the one address type.

    Attributes:
        channel: Platform name in lower case, for example `telegram`.
        account: Which of our accounts on that platform.
        chat: The platform's chat id, as text.
        thread: Thread or topic id inside the chat, or None.
    """

    channel: str
    account: str
    chat: str
    thread: str | None = None

    def __str__(self) -> str:
        thread = f"#{self.thread}" if self.thread is not None else ""
        return f"{self.channel}/{self.account}/{self.chat}{thread}"


@dataclass(frozen=True, slots=True)
class Sender:
    """Who wrote a message. Only `id` identifies; the names are for people to read."""

    id: str
    name: str = ""
    username: str = ""
    is_bot: bool = False


class MediaKind(StrEnum):
    """What an attachment is to a reader."""

    IMAGE = "image"
    AUDIO = "audio"
    VOICE = "voice"
    VIDEO = "video"
    DOCUMENT = "document"
    STICKER = "sticker"
    LOCATION = "location"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file or place that came with a message.

    Attributes:
        remote: What the adapter needs to fetch the content (Telegram: the file id); empty for a location.
        size: Bytes, as the platform stated; None when unknown.
        blob: Content address in the blob store once fetched (`sha256:<hex>`), else None.
        problem: Why there is no content, in words for the sender and the agent; empty when all is well.
    """

    kind: MediaKind
    remote: str = ""
    name: str = ""
    mime: str = ""
    size: int | None = None
    blob: str | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ReplyTo:
    """The message that this one answers."""

    message_id: str
    sender_id: str = ""
    is_ours: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class MentionFacts:
    """What the platform says about who was addressed; routing decides what follows from it.

    Attributes:
        can_detect: The platform tells us about mentions at all.
        explicit: Our account was mentioned by name.
        any: Somebody was mentioned, perhaps not us.
    """

    can_detect: bool = True
    explicit: bool = False
    any: bool = False


class EventKind(StrEnum):
    """What happened on the platform."""

    MESSAGE = "message"
    EDIT = "edit"
    BUTTON = "button"
    REACTION = "reaction"


@dataclass(frozen=True, slots=True)
class MessageEvent:
    """One thing that one person did on one platform.

    Attributes:
        event_id: The platform's own event id (Telegram: update id); empty when it has none.
        revision: Tells apart two events about one message (edit date, button press id); else empty.
        peer: The conversation for routing; for a direct chat the person.
        parent_peer: The conversation that a thread or topic hangs under.
        text: Clean text: no NUL, no lone surrogate.
        received_at: Microseconds UTC.
        album: Joins events that the platform split (one album in several messages); empty otherwise.
        continues: The platform cut a long text here; its rest follows in the next message.
        author_is_self: The platform says that we wrote it; such an event is recorded, never answered.
    """

    address: Address
    peer: Peer
    sender: Sender
    message_id: str
    text: str
    event_id: str = ""
    kind: EventKind = EventKind.MESSAGE
    revision: str = ""
    received_at: int = 0
    parent_peer: Peer | None = None
    guild: str | None = None
    team: str | None = None
    roles: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    reply_to: ReplyTo | None = None
    mentions: MentionFacts = field(default_factory=MentionFacts)
    chat_title: str = ""
    album: str = ""
    continues: bool = False
    author_is_self: bool = False


def clean_text(text: str) -> str:
    """Return `text` with NUL and lone surrogates replaced by U+FFFD, for every store and wire."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
