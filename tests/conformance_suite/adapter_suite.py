"""What every adapter must do. Written once; each adapter runs it against a faithful stand-in of its platform.

A test module subclasses `AdapterSuite` and says how to make a world: an adapter, its platform, and what people do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, Protocol, cast

import pytest

from fakes.event_loop import on_loop
from tidegate.adapters.base import Adapter, AdapterHooks, EventBatch, Outbound, TextPart
from tidegate.errors import (
    DeliveryDeferred,
    DeliveryError,
    DeliveryRefused,
    DeliveryUnavailable,
    DeliveryUnknown,
)
from tidegate.events import Address, MessageEvent

ALL_SORTS = (
    "# Heading\n\nSome **bold**, *italic* and `code`, <tags> & signs, a [link](https://example.org/a?b=1&c=2).\n\n"
    "- first\n- second\n  1. inner\n\n> quoted\n\n```python\nif a < b and b > c:\n    print('&amp;')\n```\n\n"
    "| Name | Age |\n|---|---:|\n| Ann | 41 |\n\nUnclosed **marks and ``ticks and [brackets"
)
WORDS = ("Heading", "bold", "italic", "code", "<tags>", "first", "inner", "quoted", "print", "Ann", "41", "brackets")


class World(Protocol):
    """An account, its platform, and the people there."""

    address: Address
    """A chat in which people write and the account may answer."""

    def adapter(self, hooks: AdapterHooks, account: str = "default") -> Adapter:
        """Return an adapter that is not connected."""
        ...

    def say(self, text: str) -> None:
        """Let a person write something, some time soon, in order."""
        ...

    def shown(self) -> list[str]:
        """Return the texts that people see from us, oldest first."""
        ...

    def gone(self) -> Awaitable[None]:
        """Let the platform vanish."""
        ...

    def fail_next(self, error: type[DeliveryError]) -> bool:
        """Arrange that the next send ends with an error; False where the platform has no such case."""
        ...

    def length(self, text: TextPart) -> int:
        """Return how much of `capabilities.max_text` a part takes."""
        ...


class Hooks:
    """Counts what an adapter tells the core."""

    def __init__(self) -> None:
        self.alive = 0
        self.confirmed: list[str] = []

    def given(self) -> AdapterHooks:
        """Return what is handed to the adapter."""
        return AdapterHooks(self._alive, self.confirmed.append)

    def _alive(self) -> None:
        self.alive += 1


@asynccontextmanager
async def reading(adapter: Adapter, cursor: str | None = None) -> AsyncIterator[AsyncIterator[EventBatch]]:
    """Read events and end the reading for certain."""
    async with aclosing(cast("Any", adapter.events(cursor))) as batches:
        yield batches


async def take(batches: AsyncIterator[EventBatch], count: int) -> tuple[list[MessageEvent], str | None]:
    """Store batches until there are so many events; the last one is taken but not yet reported as stored."""
    events: list[MessageEvent] = []
    cursor = None
    while len(events) < count:
        batch = await anext(batches)
        events.extend(batch.events)
        cursor = batch.cursor
    return events, cursor


class AdapterSuite:
    """The tests. Subclasses say how to make a world."""

    accounts: Sequence[str] = ("default",)

    def world(self) -> AbstractAsyncContextManager[World]:
        """Return a fresh world."""
        raise NotImplementedError

    @on_loop
    async def test_a_message_becomes_an_event_of_its_account_and_chat(self) -> None:
        hooks = Hooks()
        async with self.world() as world, world.adapter(hooks.given()) as adapter, reading(adapter) as batches:
            world.say("hello")
            (event,), _ = await take(batches, 1)
            assert event.text == "hello"
            assert event.address == world.address
            assert event.message_id
            assert event.sender.id
            assert not event.author_is_self
            assert hooks.alive

    @on_loop
    async def test_events_keep_their_order(self) -> None:
        async with self.world() as world, world.adapter(Hooks().given()) as adapter, reading(adapter) as batches:
            for number in range(20):
                world.say(str(number))
            events, _ = await take(batches, 20)
            assert [event.text for event in events] == [str(number) for number in range(20)]

    @on_loop
    async def test_an_event_comes_again_until_it_was_stored(self) -> None:
        async with self.world() as world:
            world.say("once")
            for _ in range(2):
                async with world.adapter(Hooks().given()) as adapter, reading(adapter) as batches:
                    events, _ = await take(batches, 1)
                    assert [event.text for event in events] == ["once"]

    @on_loop
    async def test_a_stored_event_does_not_come_again(self) -> None:
        async with self.world() as world:
            world.say("first")
            async with world.adapter(Hooks().given()) as adapter, reading(adapter) as batches:
                _, cursor = await take(batches, 1)
                world.say("second")
                events, cursor = await take(batches, 1)
                assert [event.text for event in events] == ["second"]
            async with world.adapter(Hooks().given()) as adapter, reading(adapter, cursor) as batches:
                world.say("third")
                seen: list[str] = []
                while "third" not in seen:
                    events, _ = await take(batches, 1)
                    seen += [event.text for event in events]
                assert "first" not in seen

    @on_loop
    async def test_reading_can_be_given_up_and_begun_again(self) -> None:
        async with self.world() as world, world.adapter(Hooks().given()) as adapter:
            async with reading(adapter) as batches:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(batches), 0.05)
            world.say("still there")
            async with reading(adapter) as batches:
                events, _ = await take(batches, 1)
                assert [event.text for event in events] == ["still there"]

    @on_loop
    async def test_parts_are_shown_in_order_each_with_an_id_of_its_own(self) -> None:
        async with self.world() as world, world.adapter(Hooks().given()) as adapter:
            ids = [await self.send(adapter, world, f"part {number}") for number in range(5)]
            assert len(set(ids)) == 5
            assert all(ids)
            assert world.shown() == [f"part {number}" for number in range(5)]

    @on_loop
    async def test_every_rendered_part_is_taken_and_no_word_is_lost(self) -> None:
        async with self.world() as world, world.adapter(Hooks().given()) as adapter:
            for number, part in enumerate(adapter.render(ALL_SORTS)):
                await adapter.send(Outbound(world.address, f"t{number}", part))
            shown = "\n".join(world.shown())
            assert [word for word in WORDS if word not in shown] == []

    @on_loop
    async def test_long_texts_are_cut_into_parts_that_fit(self) -> None:
        async with self.world() as world, world.adapter(Hooks().given()) as adapter:
            words = [f"word{number}" for number in range(3000)]
            parts = adapter.render(" ".join(words))
            assert all(0 < world.length(part) <= adapter.capabilities.max_text for part in parts)
            assert " ".join(part.plain for part in parts).split() == words
            for number, part in enumerate(parts):
                await adapter.send(Outbound(world.address, f"t{number}", part))

    @on_loop
    async def test_an_empty_text_has_no_parts(self) -> None:
        async with self.world() as world:
            adapter = world.adapter(Hooks().given())
            assert list(adapter.render("")) == []
            assert list(adapter.render(" \n ")) == []

    @pytest.mark.parametrize("error", [DeliveryDeferred, DeliveryUnavailable, DeliveryRefused, DeliveryUnknown])
    @on_loop
    async def test_a_failed_send_says_what_became_of_it(self, error: type[DeliveryError]) -> None:
        async with self.world() as world, world.adapter(Hooks().given()) as adapter:
            if not world.fail_next(error):
                pytest.skip("this platform has no such case")
            with pytest.raises(error) as raised:
                await self.send(adapter, world, "lost?")
            assert type(raised.value) is error
            if isinstance(raised.value, DeliveryDeferred):
                assert raised.value.retry_after > 0

    @on_loop
    async def test_leaving_is_quiet_though_the_platform_is_gone(self) -> None:
        async with self.world() as world:
            adapter = await world.adapter(Hooks().given()).__aenter__()
            await world.gone()
            await adapter.__aexit__(None, None, None)

    @on_loop
    async def test_an_adapter_that_was_left_can_be_made_anew(self) -> None:
        async with self.world() as world:
            for number in range(3):
                async with world.adapter(Hooks().given()) as adapter:
                    await self.send(adapter, world, str(number))
            assert world.shown() == ["0", "1", "2"]

    @on_loop
    async def test_accounts_do_not_disturb_each_other(self) -> None:
        if len(self.accounts) < 2:
            pytest.skip("this platform has one account")
        async with self.world() as world:
            one = world.adapter(Hooks().given(), self.accounts[0])
            two = world.adapter(Hooks().given(), self.accounts[1])
            async with one:
                async with two:
                    pass
                assert await self.send(one, world, "still here")
                with pytest.raises(DeliveryError):
                    await self.send(two, world, "not here")
            assert world.shown() == ["still here"]

    @staticmethod
    async def send(adapter: Adapter, world: World, text: str) -> str:
        """Send a short text."""
        return await adapter.send(Outbound(world.address, f"token:{text}", TextPart(text, text)))
