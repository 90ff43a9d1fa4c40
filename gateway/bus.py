"""Facts about what goes on, for those who watch. Never for work that must happen: that goes through the store."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import structlog

log = structlog.get_logger("bus")


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that happened.

    Attributes:
        name: `noun.verb`, for example `turn.started`.
        session: Key of the session it belongs to, or empty.
        data: Plain JSON-able values, never a secret. What was said is only in facts named `run.*` and `turn.done`.
    """

    name: str
    session: str = ""
    data: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """A slow subscriber missed this many facts."""

    count: int


class Subscription:
    """The facts for one subscriber, oldest dropped when it is slow."""

    def __init__(self, capacity: int, session: str | None) -> None:
        self._facts: deque[Fact] = deque()
        self._capacity = capacity
        self._session = session
        self._missed = 0
        self._arrival = asyncio.Event()

    def offer(self, fact: Fact) -> None:
        """Take a fact if it is for this subscriber; drops the oldest when full."""
        if self._session is not None and fact.session != self._session:
            return
        if len(self._facts) >= self._capacity:
            self._facts.popleft()
            self._missed += 1
        self._facts.append(fact)
        self._arrival.set()

    async def next(self) -> Fact | Gap:
        """Return the next fact, or how many were missed."""
        while not self._facts:
            self._arrival.clear()
            await self._arrival.wait()
        if self._missed:
            gap, self._missed = Gap(self._missed), 0
            return gap
        return self._facts.popleft()


class EventBus:
    """Hands facts to subscribers. Publishing never waits."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []
        self._listeners: list[Callable[[Fact], None]] = []

    def publish(self, fact: Fact) -> None:
        """Offer a fact to every subscriber and hand it to every listener."""
        for subscription in self._subscriptions:
            subscription.offer(fact)
        for listener in self._listeners:
            try:
                listener(fact)
            except Exception:
                # Named boundary: who watches must never break what is watched.
                log.exception("fact.not_taken", fact=fact.name)

    def listen(self, listener: Callable[[Fact], None]) -> None:
        """Hand every fact to a callable from now on, in order and at once; it must return at once."""
        self._listeners.append(listener)

    @property
    def is_watched(self) -> bool:
        """Whether anybody subscribes; spares building facts that nobody sees."""
        return bool(self._subscriptions or self._listeners)

    async def subscribe(self, capacity: int = 256, session: str | None = None) -> AsyncIterator[Fact | Gap]:
        """Yield facts from now on, those of one session when named."""
        subscription = Subscription(capacity, session)
        self._subscriptions.append(subscription)
        try:
            while True:
                yield await subscription.next()
        finally:
            self._subscriptions.remove(subscription)
