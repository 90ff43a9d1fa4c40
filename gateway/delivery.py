"""The outbox worker: the only path by which anything reaches a platform. Sends, retries, settles, reports.

One lane a chat (account, chat, thread) keeps the order; lanes run side by side, bounded per account. Each part
is marked as being sent before it is sent, so that a crash in between leaves a part of unknown outcome, which is
settled or reported and never sent twice.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from dataclasses import replace
from typing import cast

import structlog

from tidegate.adapters.base import Adapter, Outbound, Settles, Verdict
from tidegate.clock import SECOND, Clock
from tidegate.errors import (
    DeliveryDeferred,
    DeliveryError,
    DeliveryRefused,
    DeliveryUnavailable,
    DeliveryUnknown,
    StoreError,
)
from tidegate.events import Address
from tidegate.faults import CrashPoint, Faults
from tidegate.gateway.bus import EventBus, Fact
from tidegate.gateway.connections import Connections
from tidegate.gateway.parts import outbound
from tidegate.sessions.blobs import BlobStore
from tidegate.sessions.model import Delivery, DeliveryState, Settlement
from tidegate.sessions.store import DeliveryStore
from tidegate.sessions.wakeups import LANES, TROUBLE, Wakeups

PER_ACCOUNT = 32
"""Most parts of one account on their way at once."""
SEND_SECONDS = 60.0
"""Deadline of one send, uploads of large files aside."""
UPLOAD_SECONDS = 600.0
RETRY_FIRST = 0.4
RETRY_LAST = 30.0
SWEEP_SECONDS = 1.0
EXPIRY_SWEEPS = 15
"""Of so many sweeps one looks at the lanes of accounts that are down, for parts that became too old."""
MAX_LANES = 5_000
"""Most lanes worked on at once; the sweep finds the rest."""

log = structlog.get_logger("delivery")


class Outbox:
    """Owns one task a busy lane and the rate gates of chats."""

    def __init__(
        self,
        store: DeliveryStore,
        connections: Connections,
        wakeups: Wakeups,
        blobs: BlobStore,
        bus: EventBus,
        clock: Clock,
        faults: Faults,
        *,
        owner: str,
        max_age: float,
    ) -> None:
        self._store = store
        self._connections = connections
        self._wakeups = wakeups
        self._blobs = blobs
        self._bus = bus
        self._clock = clock
        self._faults = faults
        self._owner = owner
        self.max_age = max_age
        self._lanes: dict[Address, asyncio.Task[None]] = {}
        self._again: set[Address] = set()
        self._timers: dict[Address, asyncio.TimerHandle] = {}
        self._slots: dict[tuple[str, str], asyncio.Semaphore] = {}
        self._gates: dict[tuple[str, str, str], float] = {}
        self._group: asyncio.TaskGroup | None = None
        self._quiet = asyncio.Event()
        self._quiet.set()

    def gated_until(self, address: Address) -> float:
        """Return the monotonic second up to which the platform asked us to leave a chat alone; 0 for not at all."""
        return self._gates.get((address.channel, address.account, address.chat), 0.0)

    def gate(self, address: Address, seconds: float) -> None:
        """Leave a chat alone for some seconds: the platform asked for it."""
        now = self._clock.monotonic()
        if len(self._gates) > MAX_LANES:
            self._gates = {key: until for key, until in self._gates.items() if until > now}
        key = (address.channel, address.account, address.chat)
        self._gates[key] = max(self._gates.get(key, 0.0), now + seconds)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._listen(), name="outbox.listen")
            group.create_task(self._sweep(), name="outbox.sweep")
            try:
                await asyncio.Event().wait()
            finally:
                # From here on the group ends: nothing new may start in it.
                self._group = None
                for timer in self._timers.values():
                    timer.cancel()

    async def drain(self, seconds: float) -> bool:
        """Wait until no lane is busy; True when that came in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._quiet.wait()
        except TimeoutError:
            return False
        return True

    async def _listen(self) -> None:
        async for lanes in self._wakeups.listen(LANES):
            for lane in lanes:
                self.wake(cast("Address", lane))

    async def _sweep(self) -> None:
        for tick in itertools.count():
            for row in self._connections.all():
                if row.adapter is None and tick % EXPIRY_SWEEPS:
                    continue
                try:
                    lanes = await self._store.open_lanes(row.channel, row.account)
                except StoreError as error:
                    log.error("outbox.sweep_failed", error=str(error))
                    continue
                for lane in lanes:
                    if lane not in self._lanes and lane not in self._timers:
                        self.wake(lane)
            await asyncio.sleep(SWEEP_SECONDS)

    def wake(self, lane: Address) -> None:
        """See that a lane is looked at; a hint, so it may do nothing."""
        if self._group is None or len(self._lanes) >= MAX_LANES:
            return
        if lane in self._lanes:
            self._again.add(lane)
            return
        self._quiet.clear()
        self._lanes[lane] = self._group.create_task(self._work(lane), name=f"lane:{lane}")

    async def _work(self, lane: Address) -> None:
        slot = self._slots.setdefault((lane.channel, lane.account), asyncio.Semaphore(PER_ACCOUNT))
        try:
            while True:
                self._again.discard(lane)
                async with slot:
                    more = await self._step(lane)
                if not more and lane not in self._again:
                    return
        except StoreError as error:
            log.error("lane.failed", lane=str(lane), error=str(error))
        finally:
            self._lanes.pop(lane, None)
            self._again.discard(lane)
            if not self._lanes:
                self._quiet.set()

    async def _step(self, lane: Address) -> bool:
        """Handle the oldest open part of a lane; False when nothing is to be done now."""
        adapter = self._connections.adapter_for(lane)
        delivery = await self._store.begin_sending(lane, self._owner, may_send=adapter is not None)
        if delivery is None:
            return False
        if not delivery.stale and self._clock.now() - delivery.created_at > self.max_age * SECOND:
            outcome = Settlement(delivery.id, DeliveryState.EXPIRED, reason="the platform was not reachable in time")
        elif delivery.state is DeliveryState.DUE:
            if adapter is not None:
                self._wake_at(lane, delivery.due_at)
            return False
        elif adapter is None:
            return False
        elif delivery.stale:
            outcome = await self._settle_stale(adapter, delivery)
        else:
            outcome = await self._attempt(adapter, delivery)
        await self._store.settle([outcome])
        self._tell(delivery, outcome)
        if outcome.state is DeliveryState.DUE:
            self._wake_at(lane, outcome.due_at)
            return False
        return True

    async def _attempt(self, adapter: Adapter, delivery: Delivery) -> Settlement:
        """Send one part and say what became of it. This is the named boundary of delivery."""
        try:
            part = outbound(delivery, self._blobs)
            gated = self.gated_until(delivery.address) - self._clock.monotonic()
            if gated > 0:
                return self._again_in(delivery, gated, "rate limited")
            async with asyncio.timeout(UPLOAD_SECONDS if part.file else SEND_SECONDS):
                platform_id = await adapter.send(part)
        except DeliveryDeferred as error:
            self.gate(delivery.address, error.retry_after)
            return self._again_in(delivery, error.retry_after, str(error))
        except DeliveryUnavailable as error:
            return self._again_in(delivery, self._backoff(delivery.attempt), str(error))
        except DeliveryRefused as error:
            if part.edit_of is not None and not delivery.payload.get("only_edit"):
                # A refused edit surely showed nothing: the message is gone, the answer is not.
                return replace(self._again_in(delivery, 0.0, str(error)), sends_anew=True)
            return Settlement(delivery.id, DeliveryState.DEAD, reason=str(error))
        except (DeliveryUnknown, TimeoutError) as error:
            return self._unknown(adapter, delivery, str(error) or "no answer in time")
        except Exception as error:
            log.exception("delivery.crashed", delivery=delivery.id, lane=str(delivery.address))
            return Settlement(delivery.id, DeliveryState.UNKNOWN, reason=f"unexpected {type(error).__name__}")
        self._faults.reached(CrashPoint.SENT)
        return Settlement(delivery.id, DeliveryState.SENT, platform_id)

    def _unknown(self, adapter: Adapter, delivery: Delivery, reason: str) -> Settlement:
        """Decide about a part whose outcome is not known: repeat it only where repeating changes nothing."""
        if adapter.capabilities.idempotent_send or delivery.payload.get("edit_of"):
            return self._again_in(delivery, self._backoff(delivery.attempt), reason)
        return Settlement(delivery.id, DeliveryState.UNKNOWN, reason=reason)

    async def _settle_stale(self, adapter: Adapter, delivery: Delivery) -> Settlement:
        """Settle a part that an earlier process began to send: by repeating, by looking, or by reporting."""
        outcome = self._unknown(adapter, delivery, "the gateway stopped while it was being sent")
        if outcome.state is DeliveryState.DUE or not isinstance(adapter, Settles):
            return outcome
        part: Outbound = outbound(delivery, self._blobs)
        try:
            async with asyncio.timeout(SEND_SECONDS):
                verdict, platform_id = await adapter.settle(part)
        except (DeliveryError, TimeoutError):
            return outcome
        if verdict is Verdict.DELIVERED:
            return Settlement(delivery.id, DeliveryState.SENT, platform_id)
        if verdict is Verdict.ABSENT:
            return self._again_in(delivery, 0.0, "looked: not there")
        return outcome

    def _again_in(self, delivery: Delivery, seconds: float, reason: str) -> Settlement:
        # Never later than the part is given up, so that the owner hears of that in time.
        given_up = delivery.created_at + int(self.max_age * SECOND) + SECOND
        due_at = self._clock.now() + int(seconds * SECOND)
        due_at = min(due_at, max(given_up, self._clock.now()))
        return Settlement(delivery.id, DeliveryState.DUE, due_at=due_at, reason=reason)

    @staticmethod
    def _backoff(attempt: int) -> float:
        ceiling = min(RETRY_LAST, RETRY_FIRST * 2.0 ** min(attempt - 1, 10))
        return ceiling * (0.9 + random.random() / 5)

    def _wake_at(self, lane: Address, instant: int) -> None:
        previous = self._timers.pop(lane, None)
        if previous is not None:
            previous.cancel()

        def wake() -> None:
            self._timers.pop(lane, None)
            self.wake(lane)

        delay = max(0.0, (instant - self._clock.now()) / SECOND)
        self._timers[lane] = asyncio.get_running_loop().call_later(delay, wake)

    def _tell(self, delivery: Delivery, outcome: Settlement) -> None:
        if outcome.state is DeliveryState.SENT:
            log.debug("delivery.sent", delivery=delivery.id, attempt=delivery.attempt)
        else:
            log.warning(
                f"delivery.{outcome.state.value}",
                delivery=delivery.id,
                lane=str(delivery.address),
                attempt=delivery.attempt,
                reason=outcome.reason,
            )
        if outcome.state in (DeliveryState.UNKNOWN, DeliveryState.DEAD, DeliveryState.EXPIRED):
            self._wakeups.announce(TROUBLE, [""])
        if self._bus.is_watched:
            self._bus.publish(Fact(f"delivery.{outcome.state.value}", data={"delivery": delivery.id}))
