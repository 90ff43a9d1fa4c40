"""A platform made of objects: it keeps updates until they are confirmed and can be made to fail in every known way."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from tidegate.adapters.base import AdapterHooks, Capabilities, EventBatch, Outbound, TextPart
from tidegate.adapters.registry import AccountSpec
from tidegate.errors import AdapterUnavailable, DeliveryError
from tidegate.events import Address, Attachment, EventKind, MentionFacts, MessageEvent, Peer, PeerKind, Sender

CHANNEL = "telegram"


@dataclass
class Bubble:
    """A message that stands in a chat."""

    id: str
    address: Address
    text: str
    part: Outbound
    edits: int = 0


@dataclass
class Platform:
    """All chats of one account.

    Attributes:
        faults: For each coming send, an error to raise, or None to accept it. `after` errors accept the message first.
        redelivers: Hand over everything again after a reconnect, whatever was confirmed.
    """

    account: str = "default"
    faults: deque[DeliveryError | None] = field(default_factory=deque)
    lost_receipts: int = 0
    send_delay: float = 0.0
    connect_error: Exception | None = None
    redelivers: bool = False
    typing_error: DeliveryError | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    edit_interval: float | None = None
    polls: bool = False

    def __post_init__(self) -> None:
        self.updates: list[MessageEvent] = []
        self.bubbles: list[Bubble] = []
        self.attempts: list[Outbound] = []
        self.typed: list[tuple[float, Address]] = []
        self.reactions: list[tuple[Address, str, str | None]] = []
        self.connects = 0
        self.confirmed = 0
        self._numbers: dict[str, int] = defaultdict(int)
        self._news = asyncio.Event()
        self._changed = asyncio.Event()

    def say(
        self,
        chat: str,
        text: str,
        *,
        sender: str = "",
        kind: PeerKind = PeerKind.DIRECT,
        thread: str | None = None,
        mention: bool = False,
        name: str = "",
        files: Sequence[Attachment] = (),
        event_kind: EventKind = EventKind.MESSAGE,
        message_id: str = "",
        album: str = "",
        **more: Any,
    ) -> MessageEvent:
        """Let somebody say something."""
        self._numbers["update"] += 1
        number = self._numbers["update"]
        peer_id = f"{chat}:topic:{thread}" if thread and kind is not PeerKind.DIRECT else chat
        event = MessageEvent(
            address=Address(CHANNEL, self.account, chat, thread),
            peer=Peer(kind, peer_id),
            parent_peer=Peer(kind, chat) if peer_id != chat else None,
            sender=Sender(sender or chat, name or f"Person {sender or chat}"),
            message_id=message_id or f"in{number}",
            event_id=str(number),
            text=text,
            kind=event_kind,
            received_at=number,
            mentions=MentionFacts(can_detect=True, explicit=mention, any=mention),
            attachments=tuple(files),
            album=album,
            **more,
        )
        self.updates.append(event)
        self._news.set()
        return event

    def repeat(self, event: MessageEvent) -> None:
        """Hand an event over a second time, as platforms do."""
        self.updates.append(event)
        self._news.set()

    def texts(self, chat: str, thread: str | None = None) -> list[str]:
        """Return what stands in a chat, oldest first."""
        return [b.text for b in self.bubbles if b.address.chat == chat and b.address.thread == thread]

    async def until(self, condition: Callable[[], Any], seconds: float = 10.0) -> None:
        """Wait until a condition holds. Raises TimeoutError with what stands in the chats."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._changed.clear()
                    try:
                        async with asyncio.timeout(0.05):
                            await self._changed.wait()
                    except TimeoutError:
                        pass
        except TimeoutError:
            shown = [(str(bubble.address), bubble.text[:80]) for bubble in self.bubbles[-10:]]
            raise TimeoutError(f"the condition never held; the last messages are {shown}") from None

    def changed(self) -> None:
        """Tell those who wait to look again."""
        self._changed.set()

    def spec(self) -> AccountSpec:
        """Return the account as the gateway finds it."""
        return AccountSpec(CHANNEL, self.account, lambda hooks: PlatformAdapter(self, hooks), render, "1")


class PlatformAdapter:
    """The adapter of such a platform."""

    channel = CHANNEL
    username = "tide_bot"

    def __init__(self, platform: Platform, hooks: AdapterHooks) -> None:
        self.account = platform.account
        self.capabilities = Capabilities(
            max_text=4000,
            edit_interval=platform.edit_interval,
            typing_interval=0.2,
            max_upload=1 << 20,
            threads=True,
            reactions=True,
            polls=platform.polls,
        )
        self._platform = platform
        self._hooks = hooks

    async def __aenter__(self) -> Self:
        self._platform.connects += 1
        if self._platform.connect_error is not None:
            raise self._platform.connect_error
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass

    async def events(self, cursor: str | None) -> AsyncGenerator[EventBatch, None]:
        platform = self._platform
        at = 0 if platform.redelivers else int(cursor or 0)
        while True:
            platform.confirmed = max(platform.confirmed, at)
            self._hooks.alive()
            while len(platform.updates) <= at:
                platform._news.clear()
                await platform._news.wait()
            batch = platform.updates[at:]
            at += len(batch)
            yield EventBatch(batch, str(at))

    def render(self, markdown: str) -> Sequence[TextPart]:
        return render(markdown)

    async def send(self, part: Outbound) -> str:
        platform = self._platform
        platform.attempts.append(part)
        if platform.send_delay:
            await asyncio.sleep(platform.send_delay)
        fault = platform.faults.popleft() if platform.faults else None
        if fault is not None:
            platform.changed()
            raise fault
        text = part.text.body if part.text is not None else f"[file {part.file_name}]"
        if part.poll is not None:
            text = f"[poll {part.poll.question}: {', '.join(part.poll.options)}]"
        found = next((b for b in platform.bubbles if b.id == part.edit_of), None)
        if found is not None:
            found.text, found.part, found.edits = text, part, found.edits + 1
            platform.changed()
            return found.id
        number = f"out{len(platform.bubbles)}"
        platform.bubbles.append(Bubble(number, part.address, text, part))
        platform.changed()
        return number

    async def typing(self, address: Address) -> None:
        if self._platform.typing_error is not None:
            self._platform.typed.append((asyncio.get_running_loop().time(), address))
            raise self._platform.typing_error
        self._platform.typed.append((asyncio.get_running_loop().time(), address))

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        self._platform.reactions.append((address, message_id, emoji))

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        content = self._platform.files.get(attachment.remote)
        if content is None or len(content) > limit:
            raise AdapterUnavailable(f"{attachment.remote} is not there")
        return content


def render(markdown: str) -> tuple[TextPart, ...]:
    """Split every 1,000 characters; no markup."""
    return tuple(TextPart(markdown[at : at + 1000], markdown[at : at + 1000]) for at in range(0, len(markdown), 1000))
