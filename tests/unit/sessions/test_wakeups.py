"""Hints: each key once, to every listener of its topic, bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Hashable
from typing import cast

import pytest

from tidegate.sessions import wakeups
from tidegate.sessions.wakeups import DeafWakeups, LocalWakeups


class Listener:
    """Listens in a task of its own."""

    def __init__(self, hints: LocalWakeups, topic: str, group: asyncio.TaskGroup) -> None:
        self.heard = cast("AsyncGenerator[list[Hashable], None]", hints.listen(topic))
        self.first = group.create_task(self.next())

    async def next(self) -> list[Hashable]:
        """Return what is heard next."""
        return await anext(self.heard)


def test_keys_are_told_once_however_often_they_are_announced() -> None:
    async def run() -> None:
        hints = LocalWakeups()
        async with asyncio.TaskGroup() as group:
            listener = Listener(hints, "a", group)
            await asyncio.sleep(0)
            hints.announce("a", ["x", "y"])
            hints.announce("a", ["x"])
            hints.announce("b", ["z"])
        assert listener.first.result() == ["x", "y"]
        hints.announce("a", ["x"])
        assert await listener.next() == ["x"]

    asyncio.run(run())


def test_every_listener_hears_and_one_that_left_is_forgotten() -> None:
    async def run() -> None:
        hints = LocalWakeups()
        async with asyncio.TaskGroup() as group:
            listeners = [Listener(hints, "a", group) for _ in range(2)]
            await asyncio.sleep(0)
            hints.announce("a", ["x"])
        assert [listener.first.result() for listener in listeners] == [["x"], ["x"]]
        await listeners[0].heard.aclose()
        assert len(hints._listeners["a"]) == 1

    asyncio.run(run())


def test_announcing_without_listeners_does_nothing() -> None:
    LocalWakeups().announce("a", ["x"])
    DeafWakeups().announce("a", ["x"])


def test_a_listener_that_does_not_come_holds_a_bounded_number_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups, "MAX_PENDING", 3)

    async def run() -> None:
        hints = LocalWakeups()
        async with asyncio.TaskGroup() as group:
            listener = Listener(hints, "a", group)
            await asyncio.sleep(0)
            hints.announce("a", range(10))
        assert listener.first.result() == [0, 1, 2]

    asyncio.run(run())
