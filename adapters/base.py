"""The contract between Tidegate and a platform: what an adapter must do, and what it may do.

An adapter translates: platform payloads into `MessageEvent`s, deliveries into platform calls. It decides
nothing else; access, routing, queues, retries and reconnects live in the core, once. The conformance suite
in `tests/conformance_suite/` is the definition of this protocol.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

from tidegate.events import Address, Attachment, MessageEvent

API_VERSION = 1


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the platform can do, so that the core never asks for more.

    Attributes:
        max_text: Longest text of one message, in the platform's own units.
        edit_interval: Seconds to leave between two edits of one message; None when messages cannot be edited.
        typing_interval: Seconds after which a typing notice must be renewed; None when there is none.
        max_upload: Largest file in bytes.
        threads: Chats can have threads or topics.
        idempotent_send: A resend with the same token is dropped by the platform.
    """

    max_text: int
    edit_interval: float | None = None
    typing_interval: float | None = None
    max_upload: int = 0
    threads: bool = False
    reactions: bool = False
    buttons: bool = False
    polls: bool = False
    idempotent_send: bool = False


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events that the platform handed over together.

    Attributes:
        cursor: Where to go on after a restart once these events are stored; None where the platform has none.
    """

    events: Sequence[MessageEvent]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Button:
    """One choice under a message. Pressing it comes back as a BUTTON event whose text is `value`."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of text that fits one platform message.

    Attributes:
        body: What is sent, in the platform's own markup.
        plain: The same without markup, sent when the platform rejects `body`.
    """

    body: str
    plain: str


@dataclass(frozen=True, slots=True)
class Poll:
    """A question with answers to choose from.

    Attributes:
        seconds: How long it stays open; 0 for until somebody closes it.
    """

    question: str
    options: tuple[str, ...]
    multiple: bool = False
    anonymous: bool = True
    seconds: int = 0


@dataclass(frozen=True, slots=True)
class Outbound:
    """One part of a delivery: what is sent in one platform call.

    Attributes:
        address: Captured with the inbound message; never computed anew.
        token: Unique for this part for ever; platforms that know idempotency keys get it.
        text: Text, or the caption of `file`.
        file: Local path of a file to send along, or None.
        reply_to: Platform id of the message to answer visibly, or None.
        edit_of: Platform id of our own message to replace, or None for a new message.
        poll: Sent in place of text; only to adapters with `capabilities.polls`.
        attempt: Counted from 1.
    """

    address: Address
    token: str
    text: TextPart | None = None
    file: Path | None = None
    file_kind: str = ""
    file_name: str = ""
    reply_to: str | None = None
    edit_of: str | None = None
    buttons: tuple[tuple[Button, ...], ...] = ()
    poll: Poll | None = None
    attempt: int = 1


class Verdict(StrEnum):
    """How a look at the platform settled a part of unknown outcome."""

    DELIVERED = "delivered"
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class AdapterHooks:
    """What the core gives an adapter.

    Attributes:
        alive: Call after each completed poll or received event; this is the only proof of life.
        confirmed: Call once the platform has been told that everything up to a cursor is ours.
    """

    alive: Callable[[], None]
    confirmed: Callable[[str], None]


class Adapter(Protocol):
    """One account on one platform. Entering connects, leaving disconnects; there is no start or stop.

    Attributes:
        username: Our own name on the platform, without a leading `@`; empty until connected or where there is none.
    """

    channel: str
    account: str
    username: str
    capabilities: Capabilities

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            AdapterConfigError: A person must act (revoked token); the account stays down.
            AdapterConflict: Another process holds the connection.
            AdapterUnavailable: Try again later.
        """
        ...

    async def __aexit__(self, *exc: object) -> None:
        """Disconnect. Never raises for a connection that is already gone."""
        ...

    def events(self, cursor: str | None) -> AsyncGenerator[EventBatch, None]:
        """Yield what happens after `cursor`, until disconnected.

        The caller stores each batch before it asks for the next one; only then may the adapter confirm it to
        the platform, so a crash in between repeats events and never loses one. Raises as `__aenter__`.
        """
        ...

    def render(self, markdown: str) -> Sequence[TextPart]:
        """Split a Markdown text into parts that each fit one message, in order. Empty for empty text."""
        ...

    async def send(self, part: Outbound) -> str:
        """Hand one part to the platform and return its message id.

        Raises:
            DeliveryDeferred: The platform asked to wait.
            DeliveryUnavailable: Nothing was written to the platform.
            DeliveryRefused: It will never be accepted.
            DeliveryUnknown: The request was written and no answer came.
        """
        ...


@runtime_checkable
class Typing(Protocol):
    """An adapter that can show that an answer is on its way."""

    async def typing(self, address: Address) -> None:
        """Show it for `capabilities.typing_interval` seconds. Raises DeliveryError."""
        ...


@runtime_checkable
class Reactions(Protocol):
    """An adapter that can react to a message."""

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        """Set our reaction on a message, or remove it with None. Raises DeliveryError."""
        ...


@runtime_checkable
class Deletes(Protocol):
    """An adapter that can take back its own messages."""

    async def delete(self, address: Address, message_id: str) -> None:
        """Delete one of our messages. A message that is already gone is no error. Raises DeliveryError."""
        ...


@runtime_checkable
class Fetches(Protocol):
    """An adapter that can fetch the content of attachments."""

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Return the content.

        Raises:
            DeliveryRefused: Larger than `limit` bytes or than the platform allows, or gone; says which.
            AdapterUnavailable: The platform could not be reached.
        """
        ...


@runtime_checkable
class Menus(Protocol):
    """An adapter that can show the chat commands in the platform's own menu."""

    async def publish_commands(self, commands: Sequence[tuple[str, str]]) -> None:
        """Set the menu to (name, description) pairs. Raises DeliveryError."""
        ...


@runtime_checkable
class Settles(Protocol):
    """An adapter that can look up whether a part of unknown outcome arrived."""

    async def settle(self, part: Outbound) -> tuple[Verdict, str | None]:
        """Return the verdict and, when delivered, the platform's message id."""
        ...
