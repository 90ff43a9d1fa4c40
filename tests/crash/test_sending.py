"""Programs that send messages until they have a receipt, over a gateway that dies all the time.

A key is one message for ever: a repeat finds what the first request queued, or queues it.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import aiohttp
import pytest

from crash.test_control_plane import connect
from crash.world import MARK, World

PROGRAMS = range(1, 5)
EACH = 25
SECONDS = 60.0


class Program:
    """Sends its messages, each to a chat of its own, all at once, again and again until each has ended."""

    def __init__(self, world: World, number: int, http: aiohttp.ClientSession, asked: asyncio.Event) -> None:
        self._world = world
        self._http = http
        self._asked = asked
        self.number = number
        self.ended: dict[int, bool] = {}

    async def work(self) -> None:
        """Go on until the gateway told of every message what became of it."""
        while not self.is_done:
            try:
                await self._attempt()
            except (aiohttp.ClientError, OSError, TimeoutError):
                await asyncio.sleep(0.02)
        self._asked.set()

    @property
    def is_done(self) -> bool:
        """Whether it knows of every message what became of it."""
        return len(self.ended) == EACH

    async def _attempt(self) -> None:
        client = await connect(self._world, self._http)
        try:
            for message in [number for number in range(EACH) if number not in self.ended]:
                params = {
                    "to": str(self.number * 1000 + message),
                    "channel": "telegram",
                    "message": f"m{self.number}x{message}",
                    "idempotencyKey": f"key-{self.number}-{message}",
                }
                await client.socket.send_json({"type": "req", "id": f"{message}", "method": "send", "params": params})
            self._asked.set()
            while not self.is_done:
                frame = await client.frame()
                if frame["type"] == "res":
                    self._take(int(frame["id"]), frame)
        finally:
            await client.socket.close()

    def _take(self, message: int, frame: dict[str, object]) -> None:
        error = frame.get("error")
        if not isinstance(error, dict):
            self.ended[message] = True
            return
        code = error.get("details", {}).get("code")
        if code == "OUTBOUND_DELIVERY_UNKNOWN":
            # The gateway died while the platform was asked; it does not guess.
            self.ended[message] = False
            return
        assert code == "OUTBOUND_DELIVERY_QUEUED", error
        raise ConnectionError("not sent yet: ask again")


@pytest.mark.parametrize("seed", range(4))
def test_every_key_is_one_message_when_the_process_is_killed_at_random_times(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)

    async def killing(world: World, programs: list[Program], asked: asyncio.Event) -> None:
        for _ in range(5):
            await asked.wait()
            await asyncio.sleep(chance.uniform(0.0, 0.04))
            await world.kill()
            asked.clear()
            await world.start()
            if all(program.is_done for program in programs):
                return

    async def run() -> None:
        async with World(tmp_path) as world, aiohttp.ClientSession() as http:
            await world.start()
            asked = asyncio.Event()
            programs = [Program(world, number, http, asked) for number in PROGRAMS]
            async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
                group.create_task(killing(world, programs, asked))
                for program in programs:
                    group.create_task(program.work())
            rows = [MARK.findall(payload) for (payload,) in world.rows("SELECT payload FROM deliveries")]
            texts = [text for chat in world.chats.values() for text in chat.values()]
            for program in programs:
                name = str(program.number)
                queued = sorted(int(n) for found in rows for owner, n in found if owner == name)
                assert queued == list(range(EACH)), "every key is queued once"
                posted = [int(n) for text in texts for owner, n in MARK.findall(text) if owner == name]
                assert len(posted) == len(set(posted)), "nothing is posted twice"
                assert {n for n, arrived in program.ended.items() if arrived} <= set(posted)
                lost = set(range(EACH)) - set(posted)
                assert lost <= {n for n, arrived in program.ended.items() if not arrived}, "nothing is lost in silence"
            assert await world.stop() == 0

    asyncio.run(run())
