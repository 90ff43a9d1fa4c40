"""Hints: each key once, to every listener of its topic, bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable

import pytest

from tidegate.sessions import wakeups
from tidegate.sessions.wakeups import DeafWakeups, LocalWakeups


async def _listening(
    hints: LocalWakeups, topic: str
) -> tuple[AsyncIterator[list[Hashable]], asyncio.Task[list[Hashable]]]:
    heard = hints.listen(topic)
    task = asyncio.ensure_future(anext(heard))  # noqa: TID251 - one step of a generator under test
    await asyncio.sleep(0)
    return heard, task


def test_keys_are_told_once_however_often_they_are_announced() -> None:
    async def run() -> None:
        hints = LocalWakeups()
        heard, first = await _listening(hints, "a")
        hints.announce("a", ["x", "y"])
        hints.announce("a", ["x"])
        hints.announce("b", ["z"])
        assert await first == ["x", "y"]
        hints.announce("a", ["x"])
        assert await anext(heard) == ["x"]

    asyncio.run(run())


def test_every_listener_hears_and_one_that_left_is_forgotten() -> None:
    async def run() -> None:
        hints = LocalWakeups()
        one, first = await _listening(hints, "a")
        _, second = await _listening(hints, "a")
        hints.announce("a", ["x"])
        assert [await first, await second] == [["x"], ["x"]]
        assert isinstance(one, object)
        await one.aclose()  # type: ignore[attr-defined]
        assert len(hints._listeners["a"]) == 1

    asyncio.run(run())


def test_announcing_without_listeners_does_nothing() -> None:
    LocalWakeups().announce("a", ["x"])
    DeafWakeups().announce("a", ["x"])


def test_a_listener_that_does_not_come_holds_a_bounded_number_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups, "MAX_PENDING", 3)

    async def run() -> None:
        hints = LocalWakeups()
        _, first = await _listening(hints, "a")
        hints.announce("a", range(10))
        assert await first == [0, 1, 2]

    asyncio.run(run())
