"""The terminal keeps the contract of adapters."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from conformance_suite.adapter_suite import AdapterSuite
from tidegate.adapters.base import Adapter, AdapterHooks, Outbound, TextPart
from tidegate.adapters.terminal.adapter import ADDRESS, TerminalAdapter, TerminalHub
from tidegate.errors import DeliveryError, DeliveryUnavailable


class TerminalWorld:
    """An attached client that hands a message in again until it is stored, as the real one does."""

    def __init__(self, people: asyncio.TaskGroup) -> None:
        self.address = ADDRESS
        self._hub = TerminalHub()
        self._shown: list[str] = []
        self._detach = self._hub.attach(self._show)
        self._people = people
        self._to_say: asyncio.Queue[str] = asyncio.Queue()
        self._numbers = itertools.count(1)
        self.speaking: list[asyncio.Task[None]] = []

    def adapter(self, hooks: AdapterHooks, account: str = "default") -> Adapter:
        return TerminalAdapter(self._hub, hooks)

    def say(self, text: str) -> None:
        self.speaking.append(self._people.create_task(self._submit(str(next(self._numbers)), text)))

    def shown(self) -> list[str]:
        return self._shown

    async def gone(self) -> None:
        self._detach()

    def fail_next(self, error: type[DeliveryError]) -> bool:
        if error is DeliveryUnavailable:
            self._detach()
        return error is DeliveryUnavailable

    def length(self, text: TextPart) -> int:
        return len(text.body)

    def _show(self, part: Outbound) -> None:
        assert part.text is not None
        self._shown.append(part.text.body)

    async def _submit(self, number: str, text: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        while True:
            try:
                await self._hub.submit(number, text, "Ann", 1)
            except asyncio.CancelledError:
                if task.cancelling():
                    raise
                continue
            return


class TestTerminal(AdapterSuite):
    @asynccontextmanager
    async def world(self) -> AsyncIterator[TerminalWorld]:
        async with asyncio.TaskGroup() as people:
            world = TerminalWorld(people)
            yield world
            for task in world.speaking:
                task.cancel()
