"""Session workers: one run a session, fair between sessions, and nothing left behind whatever happens."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.store.world import HERE, KEY, RULES, World, draft, end
from tidegate.clock import SystemClock
from tidegate.errors import LeaseLost, StoreUnavailable
from tidegate.sessions import worker
from tidegate.sessions.memory.store import MemoryStore
from tidegate.sessions.model import ClaimedTurn, Finish, Lease, QueueRule, SessionChange, TurnState
from tidegate.sessions.wakeups import SESSIONS, STOPPED, DeafWakeups, LocalWakeups, Wakeups
from tidegate.sessions.worker import SessionWorkers

Run = Callable[[ClaimedTurn], Awaitable[Finish]]
LIMIT = 10.0
"""Seconds after which a test is stuck."""


QUICK = replace(RULES, last_try_after=20_000)


class Office:
    """A store in memory with workers over it, on the real clock."""

    def __init__(self, run: Run, *, wakeups: Wakeups | None = None, max_concurrent: int = 4) -> None:
        self.world = World("memory", Path())
        self.store = FailingStore(SystemClock())
        self.world.store = self.store
        self.wakeups = wakeups or LocalWakeups()
        self.failed: list[BaseException] = []
        self.workers = SessionWorkers(
            self.store,
            self.wakeups,
            SystemClock(),
            owner=self.world.owner,
            rules=lambda _key: QUICK,
            run=run,
            fail=self._fail,
            max_concurrent=max_concurrent,
        )

    def _fail(self, turn: ClaimedTurn, error: BaseException) -> Finish:
        self.failed.append(error)
        return end(turn, "sorry", state=TurnState.FAILED)

    async def say(self, key: str = KEY, *, mode: str = "followup") -> None:
        """Store a message and tell the workers."""
        await self.world.say(key=key, rule=QueueRule(mode=mode, debounce=0, cap=1000))
        self.wakeups.announce(SESSIONS, [key])

    async def stop(self, key: str = KEY) -> None:
        """Stop a session as /stop does."""
        number = await self.world.command(key=key)
        changed = await self.store.apply_command(number, SessionChange(stop=True), lambda _: ())
        if changed is not None and changed.stopped:
            self.wakeups.announce(STOPPED, [changed.stopped])

    async def quiet(self) -> None:
        """Wait until nothing waits and no worker is active."""
        while await self.store.waiting_sessions() or self.workers.stats().active:
            await asyncio.sleep(0)

    async def until_answered(self) -> None:
        """Wait until a message was answered."""
        while not (await self.world.state_counts()).get("answered"):
            await asyncio.sleep(0)

    def assert_nothing_left(self) -> None:
        """No worker, turn, timer or place in the lane is still taken."""
        workers = self.workers
        assert workers.stats() == worker.WorkerStats(0, 0, 0)
        assert (workers._timers, workers._again, workers._stopped) == ({}, set(), set())
        assert not workers._lane.locked()


class FailingStore(MemoryStore):
    """Refuses some calls as a full disk would."""

    def __init__(self, clock: SystemClock) -> None:
        super().__init__(clock)
        self.refuse: Counter[str] = Counter()

    def _refused(self, what: str) -> None:
        if self.refuse[what]:
            self.refuse[what] -= 1
            raise StoreUnavailable("the disk is full")

    async def claim(self, *arguments: Any) -> Any:
        """See `MemoryStore`."""
        self._refused("claim")
        return await super().claim(*arguments)

    async def finish(self, turn: ClaimedTurn, finish: Finish) -> bool:
        """See `MemoryStore`."""
        await asyncio.sleep(0)
        self._refused("finish")
        return await super().finish(turn, finish)

    async def waiting_sessions(self) -> Sequence[str]:
        """See `MemoryStore`."""
        self._refused("waiting_sessions")
        return await super().waiting_sessions()

    async def extend(self, leases: Sequence[Lease], seconds: float) -> Sequence[Lease]:
        """See `MemoryStore`."""
        self._refused("extend")
        return await super().extend(leases, seconds)


@asynccontextmanager
async def working(office: Office) -> Any:
    """Run the workers of an office; afterwards nothing may be left."""
    await office.store.open()
    async with asyncio.timeout(LIMIT):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(office.workers.run())
            await asyncio.sleep(0)
            try:
                yield office
            finally:
                task.cancel()
    office.assert_nothing_left()


def during(test: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine."""
    asyncio.run(test)


async def until(condition: Callable[[], bool]) -> None:
    """Let the other tasks go on until something holds."""
    while not condition():
        await asyncio.sleep(0)


async def answer(turn: ClaimedTurn) -> Finish:
    """Answer at once."""
    return end(turn)


@pytest.fixture(autouse=True)
def _quick_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "SWEEP_SECONDS", 0.01)
    monkeypatch.setattr(worker, "EXTEND_SECONDS", 0.01)


def test_a_session_runs_one_turn_at_a_time_and_in_order() -> None:
    running: Counter[str] = Counter()
    order: list[str] = []

    async def run(turn: ClaimedTurn) -> Finish:
        running[turn.lease.key] += 1
        assert running[turn.lease.key] == 1
        order.append(turn.events[0].message_id)
        await asyncio.sleep(0.001)
        running[turn.lease.key] -= 1
        return end(turn)

    async def test() -> None:
        office = Office(run)
        async with working(office):
            for _ in range(10):
                await office.say("a")
                await office.say("b")
            await office.quiet()
        for first in (0, 1):
            mine = [int(number) for number in order if int(number) % 2 == first]
            assert mine == sorted(mine)
        assert len(order) == 20

    during(test())


def test_no_more_turns_run_at_once_than_allowed() -> None:
    now = most = 0

    async def run(turn: ClaimedTurn) -> Finish:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1
        return end(turn)

    async def test() -> None:
        office = Office(run, max_concurrent=2)
        async with working(office):
            for number in range(20):
                await office.say(f"s{number}")
            await office.quiet()
        assert most == 2

    during(test())


def test_sessions_with_messages_without_end_starve_nobody() -> None:
    others = {f"s{number}" for number in range(8)}
    done: list[str] = []

    async def test() -> None:
        async def run(turn: ClaimedTurn) -> Finish:
            done.append(turn.lease.key)
            if turn.lease.key.startswith("busy"):
                await office.say(turn.lease.key)
            await asyncio.sleep(0)
            return end(turn)

        office = Office(run, max_concurrent=1)
        async with working(office):
            for key in ("busy 1", "busy 2", "busy 3"):
                await office.say(key)
                await office.say(key)
            for key in others:
                await office.say(key)
            await until(lambda: others <= set(done))
        # Each of the others waits for a bounded number of turns of the busy ones.
        assert len(done) < 8 * len(others)

    during(test())


def test_everything_is_done_when_all_hints_are_lost() -> None:
    async def test() -> None:
        office = Office(answer, wakeups=DeafWakeups())
        async with working(office):
            for number in range(30):
                await office.say(f"s{number % 5}")
            await office.quiet()
        assert await office.world.state_counts() == {"answered": 30}

    during(test())


def test_a_hint_stops_the_running_turn_at_once_and_the_next_message_is_answered() -> None:
    started = asyncio.Event()
    ended: list[str] = []

    async def run(turn: ClaimedTurn) -> Finish:
        if turn.events[0].text == "text 1":
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cancelled")
        return end(turn)

    async def test() -> None:
        office = Office(run)
        async with working(office):
            await office.say()
            await started.wait()
            assert office.workers.is_running(KEY)
            await office.stop()
            await office.say()
            await office.quiet()
        assert ended == ["cancelled"]
        counts = await office.world.state_counts()
        assert (counts["set_aside"], counts["answered"]) == (1, 1)

    during(test())


def test_a_turn_that_was_stopped_unheard_is_cancelled_when_its_lease_cannot_be_prolonged() -> None:
    started = asyncio.Event()

    async def run(turn: ClaimedTurn) -> Finish:
        started.set()
        await asyncio.Event().wait()
        return end(turn)

    async def test() -> None:
        office = Office(run, wakeups=DeafWakeups())
        async with working(office):
            await office.say()
            await started.wait()
            office.store.refuse["extend"] = 2
            await office.stop()
            await office.quiet()

    during(test())


def test_a_stale_stop_does_not_end_a_newer_turn() -> None:
    gate = asyncio.Event()

    async def run(turn: ClaimedTurn) -> Finish:
        await gate.wait()
        return end(turn)

    async def test() -> None:
        office = Office(run)
        async with working(office):
            await office.say()
            await until(lambda: office.workers.is_running(KEY))
            office.wakeups.announce(STOPPED, [(KEY, 0), ("unknown", 9)])
            await asyncio.sleep(0.005)
            gate.set()
            await office.quiet()
        assert await office.world.state_counts() == {"answered": 1}

    during(test())


def test_a_turn_is_stopped_while_it_waits_for_the_lane() -> None:
    gate = asyncio.Event()
    ran: list[str] = []

    async def run(turn: ClaimedTurn) -> Finish:
        ran.append(turn.lease.key)
        await gate.wait()
        return end(turn)

    async def test() -> None:
        office = Office(run, max_concurrent=1)
        async with working(office):
            await office.say("first")
            await until(lambda: bool(ran))
            await office.say("second")
            await until(lambda: office.workers.is_running("second"))
            await office.stop("second")
            await until(lambda: not office.workers.is_running("second"))
            gate.set()
            await office.quiet()
        assert ran == ["first"]

    during(test())


def test_a_run_that_breaks_is_answered_with_an_apology() -> None:
    async def run(_turn: ClaimedTurn) -> Finish:
        raise ZeroDivisionError

    async def test() -> None:
        office = Office(run)
        async with working(office):
            await office.say()
            await office.quiet()
        assert [type(error) for error in office.failed] == [ZeroDivisionError]
        assert await office.world.state_counts() == {"failed": 1}
        assert await office.world.notices() == ["sorry"]

    during(test())


def test_an_apology_that_breaks_still_ends_the_turn() -> None:
    async def run(_turn: ClaimedTurn) -> Finish:
        raise ZeroDivisionError

    def fail(_turn: ClaimedTurn, _error: BaseException) -> Finish:
        raise ZeroDivisionError

    async def test() -> None:
        office = Office(run)
        office.workers._fail_turn = fail
        async with working(office):
            await office.say()
            await office.quiet()
        assert await office.world.state_counts() == {"failed": 1}

    during(test())


def test_a_run_that_lost_its_lease_is_dropped() -> None:
    lost: list[int] = []

    async def run(turn: ClaimedTurn) -> Finish:
        if not lost:
            lost.append(turn.turn)
            raise LeaseLost("taken over")
        return end(turn)

    async def test() -> None:
        office = Office(run)
        async with working(office):
            await office.say()
            await office.quiet()
        assert office.failed == []
        assert await office.world.notices() == ["answer"]

    during(test())


def test_a_turn_whose_end_cannot_be_stored_is_tried_again_and_not_without_end() -> None:
    attempts: list[tuple[int, bool]] = []

    async def run(turn: ClaimedTurn) -> Finish:
        attempts.append((turn.attempt, turn.exhausted))
        return end(turn)

    async def test() -> None:
        office = Office(run)
        async with working(office):
            office.store.refuse["finish"] = 4
            await office.say()
            await office.quiet()
        assert attempts == [(1, False), (2, False), (3, False), (4, True), (5, True)]
        assert await office.world.notices() == ["answer"]

    during(test())


def test_a_store_that_fails_for_a_while_is_asked_again() -> None:
    async def test() -> None:
        office = Office(answer)
        async with working(office):
            office.store.refuse.update({"claim": 3, "waiting_sessions": 3})
            await office.world.say()
            await office.until_answered()

    during(test())


def test_a_session_that_cannot_be_claimed_does_not_stop_the_others() -> None:
    async def test() -> None:
        office = Office(answer)

        def rules(key: str) -> Any:
            if key == "broken":
                raise ZeroDivisionError
            return RULES

        office.workers._rules = rules
        async with working(office):
            await office.say("broken")
            await office.say("fine")
            await office.until_answered()
            assert office.workers._timers.keys() == {"broken"}

    during(test())


def test_draining_waits_for_what_runs_and_takes_nothing_new() -> None:
    gate = asyncio.Event()

    async def run(turn: ClaimedTurn) -> Finish:
        await gate.wait()
        return end(turn)

    async def test() -> None:
        office = Office(run)
        async with working(office):
            await office.say()
            await until(lambda: office.workers.is_running(KEY))
            assert not await office.workers.drain(0.01)
            await office.say()
            await office.say("other")
            gate.set()
            assert await office.workers.drain(5)
            assert await office.world.state_counts() == {"answered": 1, "waiting": 2}

    during(test())


def test_a_cancelled_process_gives_every_lease_back_without_counting_an_attempt() -> None:
    async def run(turn: ClaimedTurn) -> Finish:
        await asyncio.Event().wait()
        return end(turn)

    async def test() -> None:
        office = Office(run, max_concurrent=1)
        async with working(office):
            # A message that comes while its session runs must not bring the worker back after the end.
            for key in ("a", "b", "c", "a"):
                await office.say(key)
            await until(lambda: office.workers.stats().running == 2)
        for key in ("a", "b", "c"):
            row = await office.store.session(key)
            assert row is not None
            assert not row.running
            assert (await office.world.claim(key)).attempt == 1

    during(test())


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), concurrency=st.integers(1, 3), deaf=st.booleans())
def test_whatever_happens_every_event_ends_and_nothing_is_left(seed: int, concurrency: int, deaf: bool) -> None:
    dice = random.Random(seed)

    async def test() -> None:
        async def run(turn: ClaimedTurn) -> Finish:
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
            match dice.randrange(8):
                case 0:
                    raise ZeroDivisionError
                case 1:
                    raise StoreUnavailable("journal")
                case 2:
                    await office.say(turn.lease.key)
                case 3:
                    await office.stop(turn.lease.key)
                case _:
                    pass
            return end(turn)

        office = Office(run, wakeups=DeafWakeups() if deaf else None, max_concurrent=concurrency)
        said = 0
        async with working(office):
            for _ in range(30):
                key = f"s{dice.randrange(5)}"
                match dice.randrange(6):
                    case 0:
                        await office.stop(key)
                    case 1:
                        office.store.refuse[dice.choice(["claim", "finish", "extend"])] += 1
                    case _:
                        await office.say(key, mode=dice.choice(["collect", "followup", "interrupt"]))
                        said += 1
                for _ in range(dice.randrange(6)):
                    await asyncio.sleep(0)
            if dice.randrange(3):
                office.store.refuse.clear()
                await office.quiet()
                counts = await office.world.state_counts()
                assert "waiting" not in counts
                ended = sum(counts.get(state, 0) for state in ("answered", "failed", "set_aside"))
                assert ended >= said

    during(test())


def test_a_failure_of_the_workers_themselves_is_told_as_it_is() -> None:
    async def run(turn: ClaimedTurn) -> Finish:
        await asyncio.Event().wait()
        return end(turn)

    class Broken(FailingStore):
        async def waiting_sessions(self) -> Sequence[str]:
            if self.refuse["broken"]:
                raise ZeroDivisionError
            return await super().waiting_sessions()

    async def test() -> None:
        office = Office(run)
        office.store = office.world.store = office.workers._store = Broken(SystemClock())
        async with working(office):
            await office.say()
            await until(lambda: office.workers.is_running(KEY))
            # A message behind the run would bring the worker back, if the group went on.
            await office.say()
            await asyncio.sleep(0)
            office.store.refuse["broken"] = 1
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as failure:
        during(test())
    assert failure.group_contains(ZeroDivisionError)
    assert not failure.group_contains(RuntimeError)


def test_lanes_of_a_reply_are_announced() -> None:
    heard: list[object] = []

    class Heard(LocalWakeups):
        def announce(self, topic: str, keys: Any) -> None:
            if topic == "lanes":
                heard.extend(keys)
            super().announce(topic, keys)

    async def run(turn: ClaimedTurn) -> Finish:
        return Finish((), (draft("a"), draft("b")))

    async def test() -> None:
        office = Office(run, wakeups=Heard())
        async with working(office):
            await office.say()
            await office.quiet()
        assert heard == [HERE]

    during(test())
