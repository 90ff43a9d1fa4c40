"""Keeps one account connected: entering, reading, reconnecting. A sick account never harms another."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing

import structlog

from tidegate.adapters.base import Adapter, AdapterHooks, Menus
from tidegate.clock import Clock
from tidegate.errors import (
    AdapterConfigError,
    AdapterConflict,
    AdapterError,
    AdapterUnavailable,
    DeliveryError,
    StoreError,
)
from tidegate.events import MessageEvent
from tidegate.faults import CrashPoint, Faults
from tidegate.gateway.bus import EventBus, Fact
from tidegate.gateway.connections import Connection, Connections, ConnectionState
from tidegate.sessions.model import CursorUpdate
from tidegate.sessions.store import EventStore

FIRST_DELAY = 0.5
"""Seconds before the first new attempt; doubles up to the last one, with jitter."""
LAST_DELAY = 60.0
LONGEST_DELAY = 900.0
"""Longest wait before a new attempt, whatever the platform asked for: sending waits for it as well."""
CONFLICT_DELAY = 30.0
"""Seconds between attempts while somebody else holds the connection: longer than a long poll lasts."""
SILENCE_LIMIT = 120.0
"""Seconds without a completed poll or event after which the connection counts as dead and is made anew."""
STABLE_SECONDS = 20.0
"""How long a connection must have stood for the delays to begin anew."""
CONNECT_LIMIT = 45.0

log = structlog.get_logger("supervisor")

Receive = Callable[[Sequence[MessageEvent], CursorUpdate | None], Awaitable[None]]
"""Makes events durable; returns only then."""


class Backoff:
    """Delays that double with each failure, capped, with full jitter in their upper half."""

    def __init__(self, first: float = FIRST_DELAY, last: float = LAST_DELAY) -> None:
        self._first, self._last = first, last
        self._failures = 0

    def reset(self) -> None:
        """Start from the shortest delay again."""
        self._failures = 0

    def next(self) -> float:
        """Return the seconds to wait after one more failure."""
        ceiling = min(self._last, self._first * 2.0 ** min(self._failures, 16))
        self._failures += 1
        return ceiling * (0.5 + random.random() / 2)


class Supervisor:
    """Owns the connection of one account."""

    def __init__(
        self,
        channel: str,
        account: str,
        build: Callable[[AdapterHooks], Adapter],
        *,
        receive: Receive,
        store: EventStore,
        connections: Connections,
        bus: EventBus,
        clock: Clock,
        faults: Faults,
        commands: Sequence[tuple[str, str]] = (),
        silence_limit: float = SILENCE_LIMIT,
    ) -> None:
        self._build = build
        self._receive = receive
        self._store = store
        self._connections = connections
        self._row: Connection = connections.add(channel, account)
        self._bus = bus
        self._clock = clock
        self._faults = faults
        self._backoff = Backoff()
        self._silence_limit = silence_limit
        self._commands = commands
        self._reading: asyncio.Timeout | None = None
        self._is_draining = False
        self._connected_at = 0.0

    async def run(self) -> None:
        """Stay connected until cancelled, or until only a person can help. Never raises for the platform's sake."""
        async with asyncio.TaskGroup() as group:
            menu = group.create_task(self._publish_menu(), name=f"menu:{self._row.channel}/{self._row.account}")
            try:
                await self._stay_connected()
            finally:
                menu.cancel()

    async def _stay_connected(self) -> None:
        row = self._row
        while not self._is_draining:
            try:
                delay = await self._attempt()
            finally:
                row.adapter = None
                self._reading = None
            if delay is None:
                return
            row.failures += 1
            await asyncio.sleep(delay)

    async def _attempt(self) -> float | None:
        """Connect and read until it ends; returns seconds to wait before the next attempt, None to give up.

        This is the named boundary at which a broken adapter stops.
        """
        try:
            await self._connected()
        except AdapterConfigError as error:
            self._tell(ConnectionState.STOPPED, str(error))
            return None
        except AdapterConflict as error:
            self._tell(ConnectionState.CONFLICT, str(error))
            return CONFLICT_DELAY * (1 + random.random() / 4)
        except AdapterUnavailable as error:
            self._tell(ConnectionState.RETRYING, str(error))
            return max(self._backoff.next(), min(error.retry_after or 0.0, LONGEST_DELAY))
        except TimeoutError:
            self._tell(ConnectionState.RETRYING, f"no sign of life for {self._silence_limit:.0f} s")
            return self._backoff.next()
        except AdapterError as error:
            self._tell(ConnectionState.RETRYING, str(error))
            return self._backoff.next()
        except StoreError as error:
            # What cannot be stored is not acknowledged; the platform hands it over again.
            self._tell(ConnectionState.RETRYING, f"messages cannot be stored: {error}")
            return self._backoff.next()
        except Exception as error:
            log.exception("adapter.crashed", channel=self._row.channel, account=self._row.account)
            self._tell(ConnectionState.RETRYING, f"unexpected {type(error).__name__}")
            return self._backoff.next()
        self._tell(ConnectionState.RETRYING, "the platform ended the connection")
        return self._backoff.next()

    async def _connected(self) -> None:
        row = self._row
        adapter = self._build(AdapterHooks(self._alive, self._confirmed))
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(CONNECT_LIMIT):
                await stack.enter_async_context(adapter)
            row.adapter = adapter
            self._connected_at = self._clock.monotonic()
            self._connections.changed()
            try:
                async with asyncio.timeout(self._silence_limit) as self._reading:
                    await self._read(adapter)
            except TimeoutError:
                if not self._is_draining:
                    raise
                # The connection stays for what is still to be sent; whoever drains ends this task.
                await asyncio.Event().wait()

    async def _read(self, adapter: Adapter) -> None:
        row = self._row
        cursor = await self._store.load_cursor(row.channel, row.account)
        # Closed at once when reading ends, not whenever the generator is collected.
        async with aclosing(adapter.events(cursor)) as batches:
            async for batch in batches:
                update = CursorUpdate(row.channel, row.account, batch.cursor) if batch.cursor else None
                await self._receive(batch.events, update)
                row.received += len(batch.events)
                self._alive()

    def stop_reading(self) -> None:
        """Take no more events; what is connected stays connected for sending until the task is cancelled."""
        self._is_draining = True
        if self._reading is not None and not self._reading.expired():
            self._reading.reschedule(asyncio.get_running_loop().time())

    async def _publish_menu(self) -> None:
        """Show the chat commands in the platform's own menu, once, where there is one."""
        adapter = await self._connections.wait_for(self._row.channel, self._row.account, None)
        if not isinstance(adapter, Menus):
            return
        try:
            async with asyncio.timeout(CONNECT_LIMIT):
                await adapter.publish_commands(self._commands)
        except (DeliveryError, TimeoutError) as error:
            log.warning("menu.not_published", channel=self._row.channel, account=self._row.account, error=str(error))

    def _alive(self) -> None:
        """Note a proof of life: a completed poll or an event, never a mere request."""
        row = self._row
        row.alive_at = self._clock.now()
        row.failures = 0
        # A connection that comes up and breaks at once must not be tried at the shortest delay for ever.
        if self._clock.monotonic() - self._connected_at >= STABLE_SECONDS:
            self._backoff.reset()
        if self._reading is not None and not self._reading.expired() and not self._is_draining:
            self._reading.reschedule(asyncio.get_running_loop().time() + self._silence_limit)
        if row.state is not ConnectionState.UP:
            self._tell(ConnectionState.UP, "")

    def _confirmed(self, _cursor: str) -> None:
        self._faults.reached(CrashPoint.CURSOR_CONFIRMED)

    def _tell(self, state: ConnectionState, reason: str) -> None:
        row = self._row
        if row.state is state and row.reason == reason:
            return
        row.state, row.reason = state, reason
        say = log.info if state is ConnectionState.UP else log.warning
        say(f"connection.{state.value}", channel=row.channel, account=row.account, reason=reason or None)
        self._bus.publish(
            Fact(f"connection.{state.value}", data={"channel": row.channel, "account": row.account, "reason": reason})
        )
