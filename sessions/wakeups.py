"""Hints that something waits. They may be lost, repeated or reordered: the sweeps find what they miss."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Iterable
from typing import Protocol

SESSIONS = "sessions"
"""Keys are session keys in which a message waits."""
STOPPED = "stopped"
"""Keys are (session key, fence) of a turn that was ended from outside."""
LANES = "lanes"
"""Keys are addresses with parts to send."""
COMMANDS = "commands"
"""One key, empty: a chat command waits."""
TROUBLE = "trouble"
"""One key, empty: a part ended unknown, dead or expired."""

MAX_PENDING = 10_000
"""Most keys that wait for one listener; more are dropped, which is allowed."""


class Wakeups(Protocol):
    """Carries hints from whoever committed something to whoever works on it."""

    def announce(self, topic: str, keys: Iterable[Hashable]) -> None:
        """Tell the listeners of a topic, after the commit. Never blocks."""
        ...

    def listen(self, topic: str) -> AsyncIterator[list[Hashable]]:
        """Yield the keys announced since the last time, each once, for ever."""
        ...


class LocalWakeups:
    """Hints inside one process."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[_Listener]] = {}

    def announce(self, topic: str, keys: Iterable[Hashable]) -> None:
        """Tell the listeners of a topic."""
        for listener in self._listeners.get(topic, ()):
            listener.add(keys)

    async def listen(self, topic: str) -> AsyncIterator[list[Hashable]]:
        """Yield the keys announced since the last time."""
        listener = _Listener()
        listeners = self._listeners.setdefault(topic, [])
        listeners.append(listener)
        try:
            while True:
                yield await listener.take()
        finally:
            listeners.remove(listener)


class DeafWakeups:
    """Loses every hint; for tests that prove that nothing depends on them."""

    def announce(self, topic: str, keys: Iterable[Hashable]) -> None:
        """Do nothing."""

    async def listen(self, topic: str) -> AsyncIterator[list[Hashable]]:
        """Wait for ever."""
        await asyncio.Event().wait()
        yield []


class _Listener:
    def __init__(self) -> None:
        self._keys: dict[Hashable, None] = {}
        self._arrival = asyncio.Event()

    def add(self, keys: Iterable[Hashable]) -> None:
        for key in keys:
            if len(self._keys) < MAX_PENDING:
                self._keys[key] = None
        self._arrival.set()

    async def take(self) -> list[Hashable]:
        await self._arrival.wait()
        self._arrival.clear()
        keys, self._keys = list(self._keys), {}
        return keys
