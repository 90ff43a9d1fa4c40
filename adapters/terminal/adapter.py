"""The terminal as a channel: clients attach to it through the gateway's socket, and may come and go."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Self

from tidegate.adapters.base import AdapterHooks, Capabilities, EventBatch, Outbound, TextPart
from tidegate.errors import DeliveryUnavailable, QueueFull
from tidegate.events import Address, MessageEvent, Peer, PeerKind, Sender, clean_text

CHANNEL = "terminal"
ACCOUNT = "default"
ADDRESS = Address(CHANNEL, ACCOUNT, "local")
PERSON = "local"
MAX_TEXT = 1_000_000
MAX_PENDING = 256
"""Most messages that wait to be stored."""
SEEN_TOKENS = 1_000
"""Parts that attached clients have shown, remembered so that a repeat is not shown again."""

Show = Callable[[Outbound], None]
"""Shows one part to an attached client; returns at once."""


class TerminalHub:
    """Where clients attach; it outlives the adapter's connections. One for the gateway."""

    def __init__(self) -> None:
        self._clients: list[Show] = []
        self._incoming: deque[tuple[MessageEvent, asyncio.Future[None]]] = deque()
        self._arrival = asyncio.Event()
        self._seen: deque[str] = deque(maxlen=SEEN_TOKENS)
        self._attached = asyncio.Event()

    @property
    def clients(self) -> int:
        """How many clients are attached."""
        return len(self._clients)

    def attach(self, show: Show) -> Callable[[], None]:
        """Attach a client; returns what detaches it."""
        self._clients.append(show)
        self._attached.set()

        def detach() -> None:
            self._clients.remove(show)
            if not self._clients:
                self._attached.clear()

        return detach

    async def submit(self, message_id: str, text: str, name: str, received_at: int) -> None:
        """Hand in what somebody typed; returns once it is durable.

        Raises:
            QueueFull: Too many messages wait to be stored.
        """
        if len(self._incoming) >= MAX_PENDING:
            raise QueueFull(f"{MAX_PENDING} messages wait to be stored")
        event = MessageEvent(
            address=ADDRESS,
            peer=Peer(PeerKind.DIRECT, PERSON),
            sender=Sender(PERSON, name),
            message_id=message_id,
            text=clean_text(text[:MAX_TEXT]),
            received_at=received_at,
        )
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._incoming.append((event, stored))
        self._arrival.set()
        await stored

    async def next_batch(self) -> list[tuple[MessageEvent, asyncio.Future[None]]]:
        """Return what was handed in, waiting for something."""
        while not self._incoming:
            self._arrival.clear()
            await self._arrival.wait()
        batch = list(self._incoming)
        self._incoming.clear()
        return batch

    def show(self, part: Outbound) -> None:
        """Show a part to every attached client, once.

        Raises:
            DeliveryUnavailable: Nobody is attached.
        """
        if part.token in self._seen:
            return
        if not self._clients:
            raise DeliveryUnavailable("no terminal is attached")
        for client in list(self._clients):
            client(part)
        self._seen.append(part.token)


class TerminalAdapter:
    """The adapter of the terminal."""

    channel = CHANNEL
    account = ACCOUNT
    username = ""
    capabilities = Capabilities(max_text=MAX_TEXT, idempotent_send=True)

    def __init__(self, hub: TerminalHub, hooks: AdapterHooks) -> None:
        self._hub = hub
        self._hooks = hooks

    async def __aenter__(self) -> Self:
        """Nothing to connect."""
        self._hooks.alive()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing to disconnect."""

    async def events(self, cursor: str | None) -> AsyncGenerator[EventBatch, None]:
        """Yield what people type."""
        del cursor
        while True:
            try:
                async with asyncio.timeout(30):
                    batch = await self._hub.next_batch()
            except TimeoutError:
                self._hooks.alive()
                continue
            try:
                yield EventBatch([event for event, _ in batch])
            except BaseException:
                for _, stored in batch:
                    stored.cancel()
                raise
            for _, stored in batch:
                if not stored.done():
                    stored.set_result(None)

    def render(self, markdown: str) -> Sequence[TextPart]:
        """Return the text as it is; the client renders Markdown itself."""
        return render(markdown)

    async def send(self, part: Outbound) -> str:
        """Show a part to the attached clients."""
        self._hub.show(part)
        return part.token


def render(markdown: str) -> tuple[TextPart, ...]:
    """Return a text as one part; nothing for an empty one."""
    return (TextPart(markdown, markdown),) if markdown.strip() else ()
