"""The product's promise: whatever moment the process dies at, each message is answered once, in order, in its own chat.

An answer whose sending was cut off between the two records may or may not have arrived. It is then reported, and
never sent a second time.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from crash.world import KILLED, OWNER, World
from tidegate.faults import CrashPoint

CHATS = range(1, 21)
EACH = 2
SECONDS = 60.0


def answered_or_unknown(world: World) -> bool:
    """Whether every message has its answer in its chat, or a recorded unknown outcome."""
    unknown = set(world.unknown())
    return all(
        set(world.answers(chat)) | {number for c, number in unknown if c == chat} >= set(range(EACH)) for chat in CHATS
    )


def check(world: World) -> None:
    """Assert the promise over all chats."""
    unknown = world.unknown()
    for chat in CHATS:
        numbers = world.answers(chat)
        assert len(numbers) == len(set(numbers)), f"chat {chat} was answered twice: {numbers}"
        assert numbers == sorted(numbers), f"chat {chat} was answered out of order: {numbers}"
        missing = set(range(EACH)) - set(numbers)
        assert missing <= {number for c, number in unknown if c == chat}, f"chat {chat} lost {missing}"
    assert not world.strangers()
    waiting = world.rows("SELECT key FROM sessions WHERE head_seq > done_seq OR owner IS NOT NULL")
    assert not waiting, f"sessions left open: {waiting}"
    doubled = world.rows("SELECT turn, call_id FROM tool_calls GROUP BY turn, call_id HAVING COUNT(*) > 1")
    assert not doubled


def say_everything(world: World) -> None:
    """Let all people speak at once, the owner first so that there is somebody to report to."""
    world.say(OWNER, 0)
    for number in range(EACH):
        for chat in CHATS:
            world.say(chat, number)


async def crash_once(world: World, point: str) -> bool:
    """Start with a point armed and wait until everything is answered or the process died; True when it died."""
    await world.start(point)
    await world.until(lambda: world.is_dead or answered_or_unknown(world), SECONDS)
    return world.is_dead


@pytest.mark.parametrize("redelivers", [False, True], ids=["", "platform-repeats-everything"])
@pytest.mark.parametrize("nth", [1, 7])
@pytest.mark.parametrize("point", list(CrashPoint))
def test_every_message_is_answered_once_when_the_process_dies_at(
    point: CrashPoint, nth: int, redelivers: bool, tmp_path: Path
) -> None:
    async def run() -> None:
        async with World(tmp_path, redelivers=redelivers) as world:
            say_everything(world)
            died = await crash_once(world, f"{point}:{nth}")
            # Few polls are needed for so few messages, so the cursor is confirmed once or twice only.
            assert died or (point is CrashPoint.CURSOR_CONFIRMED and nth > 1)
            if died:
                assert world.process is not None
                assert world.process.returncode in KILLED
                await world.start()
            assert await world.until(lambda: answered_or_unknown(world), SECONDS), world.unknown()
            await world.stop()
            check(world)

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(10))
def test_every_message_is_answered_once_when_the_process_is_killed_at_random_times(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)

    async def run() -> None:
        async with World(tmp_path, redelivers=bool(seed % 2), model_delay=0.05) as world:
            say_everything(world)
            for _ in range(4):
                await world.start()
                await world.until(lambda: answered_or_unknown(world), chance.uniform(0.02, 0.6))
                await world.kill()
            await world.start()
            assert await world.until(lambda: answered_or_unknown(world), SECONDS)
            await world.stop()
            check(world)

    asyncio.run(run())


def test_a_message_that_kills_the_process_takes_no_other_with_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with World(tmp_path, uses_tools=False, model_delay=0.5, deadly=7) as world:
            world.say(OWNER, 0)
            for chat in CHATS:
                world.say(chat, 0)
            others = [chat for chat in CHATS if chat != world.deadly]
            is_over = lambda: (  # noqa: E731
                all(world.answers(chat) == [0] for chat in others)
                and any("giving up" in text for text in world.chats[world.deadly].values())
            )
            starts = 0
            while starts < 8 and not is_over():
                await world.start()
                starts += 1
                await world.until(lambda: world.is_dead or is_over(), SECONDS)
            assert is_over()
            assert starts == 4
            assert world.answers(world.deadly) == []
            assert await world.stop() == 0
            assert not world.strangers()

    asyncio.run(run())


def test_the_owner_is_told_about_an_answer_that_may_not_have_arrived(tmp_path: Path) -> None:
    async def run() -> None:
        async with World(tmp_path) as world:
            world.say(OWNER, 0)
            await world.start()
            assert await world.until(lambda: world.answers(OWNER) == [0], SECONDS)
            assert await world.stop() == 0
            world.say(5, 0)
            await world.start(f"{CrashPoint.SENT}:1")
            assert await world.died(SECONDS)
            await world.start()
            reports = lambda: [t for t in world.chats[OWNER].values() if "Delivery report" in t]  # noqa: E731
            assert await world.until(lambda: bool(reports()), SECONDS)
            assert "m5x0" not in reports()[0]
            assert "telegram/default/5" in reports()[0]
            assert world.answers(5) == [0]
            await world.stop()

    asyncio.run(run())


def test_an_orderly_stop_finishes_what_runs_and_exits_cleanly(tmp_path: Path) -> None:
    async def run() -> None:
        async with World(tmp_path, model_delay=0.5, uses_tools=False) as world:
            world.say(1, 0)
            await world.start()
            assert await world.until(lambda: world.asked == 1, SECONDS)
            assert await world.stop() == 0
            assert world.answers(1) == [0]

    asyncio.run(run())
