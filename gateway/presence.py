"""Shows people that an answer is on its way: typing, tied to the life of a turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from tidegate.adapters.base import Reactions, Typing
from tidegate.errors import DeliveryDeferred, DeliveryError
from tidegate.events import Address, MessageEvent
from tidegate.gateway.connections import Connections
from tidegate.gateway.delivery import Outbox

FIRST_AFTER = 0.2
"""Seconds before the first notice: a quick answer stays one call."""
CALL_SECONDS = 10.0
MAX_FAILURES = 2
"""Failed notices in a row after which a turn shows none any more."""
MAX_SECONDS = 3600.0
"""A turn that runs longer than this shows typing no more."""

log = structlog.get_logger("presence")


class Presence:
    """Keeps typing notices alive while a turn runs, and never longer."""

    def __init__(self, connections: Connections, outbox: Outbox) -> None:
        self._connections = connections
        self._outbox = outbox

    @asynccontextmanager
    async def shown(self, event: MessageEvent, *, typing: bool, emoji: str) -> AsyncIterator[asyncio.TaskGroup]:
        """Show typing in the chat of `event` for as long as the block runs, however it ends.

        Args:
            emoji: Set on the message as a sign that it is being worked on; empty for none.

        Yields:
            The task group that owns what is shown, for more of the same kind.
        """
        async with asyncio.TaskGroup() as group:
            if emoji:
                group.create_task(self._react(event, emoji), name=f"ack:{event.address}")
            task = (
                group.create_task(self._keep_typing(event.address), name=f"typing:{event.address}") if typing else None
            )
            try:
                yield group
            finally:
                if task is not None:
                    task.cancel()

    async def _react(self, event: MessageEvent, emoji: str) -> None:
        adapter = self._connections.adapter_for(event.address)
        if not isinstance(adapter, Reactions):
            return
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await adapter.react(event.address, event.message_id, emoji)
        except (DeliveryError, TimeoutError) as error:
            log.debug("reaction.failed", lane=str(event.address), error=str(error))

    async def _keep_typing(self, address: Address) -> None:
        await asyncio.sleep(FIRST_AFTER)
        failures = 0
        loop = asyncio.get_running_loop()
        ends = loop.time() + MAX_SECONDS
        while failures < MAX_FAILURES and loop.time() < ends:
            adapter = self._connections.adapter_for(address)
            interval = 4.0
            if isinstance(adapter, Typing) and self._outbox.gated_until(address) <= loop.time():
                interval = adapter.capabilities.typing_interval or interval
                try:
                    async with asyncio.timeout(CALL_SECONDS):
                        await adapter.typing(address)
                    failures = 0
                except DeliveryDeferred as error:
                    self._outbox.gate(address, error.retry_after)
                except (DeliveryError, TimeoutError) as error:
                    failures += 1
                    log.debug("typing.failed", lane=str(address), error=str(error))
            await asyncio.sleep(interval)
