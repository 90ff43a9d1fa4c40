"""Shows the answer while it is being written, by editing one message within the platform's rate."""

from __future__ import annotations

import asyncio

import structlog

from tidegate.adapters.base import Adapter, Deletes, Outbound, TextPart
from tidegate.errors import DeliveryDeferred, DeliveryError, DeliveryRefused, DeliveryUnavailable, StoreError
from tidegate.gateway.connections import Connections
from tidegate.gateway.delivery import SEND_SECONDS, Outbox
from tidegate.gateway.egress import visible_so_far
from tidegate.ids import new_id
from tidegate.sessions.model import ClaimedTurn, DeliveryKind, DeliveryState, Draft, Settlement
from tidegate.sessions.store import DeliveryStore

FIRST_AFTER = 1.0
"""Seconds before a preview appears: a quick answer stays one call."""
CURSOR = " ▍"
STOPPED = "(stopped)"

log = structlog.get_logger("preview")


class Preview:
    """The preview of one turn's answer. `run` is its only task; `stop` returns when nothing is under way."""

    def __init__(
        self,
        turn: ClaimedTurn,
        connections: Connections,
        outbox: Outbox,
        store: DeliveryStore,
    ) -> None:
        self._turn = turn
        self._address = turn.reply_event.address
        self._connections = connections
        self._outbox = outbox
        self._store = store
        self._text: list[str] = []
        self._shown = ""
        self._message: str | None = turn.preview
        self._failed = False
        self._more = asyncio.Event()
        self._stopping = asyncio.Event()

    def add(self, text: str) -> None:
        """Take more of the answer."""
        self._text.append(text)
        self._more.set()

    def restart(self) -> None:
        """Begin anew: the model starts another message of this run."""
        self._text.clear()

    def stop(self) -> None:
        """Let `run` end after the call that is under way, if any."""
        self._stopping.set()
        self._more.set()

    async def close(self) -> None:
        """Leave what was shown as it stands, without its cursor, marked as stopped."""
        adapter = self._connections.adapter_for(self._address)
        if self._message is None or adapter is None:
            return
        text = f"{visible_so_far(''.join(self._text)).strip()}\n\n{STOPPED}".strip()
        parts = adapter.render(text)
        first = {"body": parts[0].body, "plain": parts[0].plain, "edit_of": self._message}
        drafts = [Draft(self._address, first, DeliveryKind.NOTICE)]
        drafts += [Draft(self._address, {"body": p.body, "plain": p.plain}, DeliveryKind.NOTICE) for p in parts[1:]]
        await self._store.add_deliveries(drafts)

    async def discard(self) -> None:
        """Take the preview back: nothing will be said after all. Call it once `run` has ended."""
        adapter = self._connections.adapter_for(self._address)
        if self._message is None or not isinstance(adapter, Deletes):
            return
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await adapter.delete(self._address, self._message)
        except (DeliveryError, TimeoutError) as error:
            log.warning("preview.not_discarded", lane=str(self._address), error=str(error))

    async def run(self) -> None:
        """Show what there is, at most once an edit interval, until stopped. Never raises for the platform's sake."""
        adapter = self._connections.adapter_for(self._address)
        if adapter is None or adapter.capabilities.edit_interval is None:
            return
        interval = adapter.capabilities.edit_interval
        if await self._stopped_within(FIRST_AFTER):
            return
        while not self._failed:
            await self._more.wait()
            self._more.clear()
            if self._stopping.is_set():
                return
            await self._show(adapter)
            if await self._stopped_within(interval):
                return

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True

    async def _show(self, adapter: Adapter) -> None:
        text = visible_so_far("".join(self._text))
        if not text.strip() or text == self._shown:
            return
        loop = asyncio.get_running_loop()
        if self._outbox.gated_until(self._address) > loop.time():
            return
        parts = adapter.render(text + CURSOR)
        if not parts:
            return
        try:
            async with asyncio.timeout(SEND_SECONDS):
                if self._message is None:
                    await self._send_first(adapter, parts[0])
                elif len(parts) == 1:
                    await adapter.send(Outbound(self._address, new_id(), parts[0], edit_of=self._message))
        except DeliveryDeferred as error:
            self._outbox.gate(self._address, error.retry_after)
        except (DeliveryError, StoreError, TimeoutError) as error:
            log.debug("preview.failed", lane=str(self._address), error=str(error))
            self._failed = True
        self._shown = text

    async def _send_first(self, adapter: Adapter, text: TextPart) -> None:
        """Send the preview between two records, so that a crash never leaves an unknown message unreported."""
        row = await self._store.open_preview(self._turn, Draft(self._address, {"body": text.body}))
        outcome = Settlement(row, DeliveryState.UNKNOWN, reason="preview without receipt")
        try:
            self._message = await adapter.send(Outbound(self._address, new_id(), text))
            outcome = Settlement(row, DeliveryState.SENT, self._message)
        except (DeliveryDeferred, DeliveryUnavailable, DeliveryRefused):
            outcome = Settlement(row, DeliveryState.DEAD, reason="preview not sent")
            raise
        finally:
            await self._store.settle([outcome])
