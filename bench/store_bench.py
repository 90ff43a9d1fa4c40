"""Measures the store: CPU and wall time of a turn's five commits, one after another and many at once.

    python bench/store_bench.py [--turns 500] [--lanes 16] [--dir DIR]

Each turn is append, claim, finish, begin_sending, settle. CPU counts this process with all its threads.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from tidegate.clock import SystemClock
from tidegate.events import Address, MessageEvent, Peer, PeerKind, Sender
from tidegate.faults import Faults
from tidegate.sessions.codec import dump_json
from tidegate.sessions.model import (
    ClaimedTurn,
    ClaimRules,
    DeliveryState,
    Draft,
    Enqueue,
    Finish,
    NewEvent,
    QueuedEvent,
    QueueRule,
    Settlement,
    TurnPlan,
    UserText,
)
from tidegate.sessions.sqlite.store import SqliteStore

Result = TypeVar("Result")

STEPS = ("append", "claim", "finish", "begin", "settle")


def plan(waiting: Sequence[QueuedEvent], *_: object) -> TurnPlan:
    """Take what waits."""
    return TurnPlan(len(waiting), 0, tuple(UserText(item.event.text) for item in waiting))


RULES = ClaimRules(plan, lambda *_: None, lambda text: dump_json({"r": "user", "t": text.text}), history_limit=40)


def tell(line: str) -> None:
    """Write one line."""
    sys.stdout.write(line + "\n")


class Bench:
    """One store and the times of its steps."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.wall = dict.fromkeys(STEPS, 0.0)
        self.sent = 0

    async def timed(self, step: str, call: Awaitable[Result]) -> Result:
        """Add the wall time of a call to its step."""
        started = time.perf_counter()
        result = await call
        self.wall[step] += time.perf_counter() - started
        return result

    async def turn(self, lane: int) -> None:
        """Do one whole turn in the session of a lane."""
        self.sent += 1
        number, key, address = str(self.sent), f"agent:main:{lane}", Address("telegram", "default", str(lane))
        event = MessageEvent(
            address,
            Peer(PeerKind.DIRECT, str(lane)),
            Sender(str(lane), "Ann"),
            number,
            "What is the weather like today in the north?",
            number,
            received_at=time.time_ns() // 1000,
        )
        verdict = Enqueue(key, "main", QueueRule(debounce=0), is_owner=True)
        await self.timed("append", self.store.append_events([NewEvent(event, verdict)]))
        turn = await self.timed("claim", self.store.claim(key, "boot", RULES))
        assert isinstance(turn, ClaimedTurn)
        reply = "It is mild and a little windy, with some rain towards the evening. " * 3
        end = Finish((dump_json({"r": "assistant", "t": reply}),), (Draft(address, {"body": reply}),), model="m")
        await self.timed("finish", self.store.finish(turn, end))
        part = await self.timed("begin", self.store.begin_sending(address, "boot", may_send=True))
        assert part is not None
        await self.timed("settle", self.store.settle([Settlement(part.id, DeliveryState.SENT, number)]))


async def measure(name: str, bench: Bench, turns: int, work: Callable[[], Awaitable[None]]) -> None:
    """Print what some work cost a turn."""
    bench.wall = dict.fromkeys(STEPS, 0.0)
    before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    await work()
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    steps = "  ".join(f"{step} {1000 * spent / turns:.2f}" for step, spent in bench.wall.items())
    tell(
        f"{name:11} {turns / wall:7.0f} turns/s  CPU {1000 * (user + system) / turns:.2f} ms"
        f" (user {1000 * user / turns:.2f}, system {1000 * system / turns:.2f})  wall ms: {steps}"
    )


async def run(directory: Path, turns: int, lanes: int) -> None:
    """Measure one turn at a time, then many."""
    store = SqliteStore(directory / "bench.db", SystemClock(), Faults())
    await store.open()
    bench = Bench(store)
    try:

        async def one_by_one(count: int) -> None:
            for number in range(count):
                await bench.turn(number % lanes)

        async def lane(number: int) -> None:
            for _ in range(turns // lanes):
                await bench.turn(number)

        async def at_once() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(lanes):
                    group.create_task(lane(number))

        await one_by_one(lanes * 20)
        await measure("one by one", bench, turns, lambda: one_by_one(turns))
        await measure(f"{lanes} lanes", bench, turns // lanes * lanes, at_once)
        started = time.perf_counter()
        await store.totals()
        tell(f"totals      {1000 * (time.perf_counter() - started):.2f} ms")
        tell(f"database    {store.statistics()['bytes'] / bench.sent:.0f} bytes a turn")
    finally:
        await store.close()


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--dir", type=Path, help="where the database goes (default: a temporary directory)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        asyncio.run(run(Path(directory), options.turns, options.lanes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
