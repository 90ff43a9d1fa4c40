"""Clients that send the same message until they hear an answer, over a gateway that dies all the time.

A message counts once, however often it was sent: the idempotency key outlives the process.
"""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path

import aiohttp
import pytest

from crash.world import MARK, World
from plane.client import RawClient, connect_params

CLIENTS = range(1, 9)
EACH = 3
SECONDS = 60.0


class Person:
    """Somebody who talks to one session and does not give up."""

    def __init__(self, world: World, number: int, http: aiohttp.ClientSession) -> None:
        self._world = world
        self._http = http
        self.number = number
        self.key = f"agent:main:person{number}"
        self.sent = 0

    async def talk(self) -> None:
        """Say everything, each message once the one before was answered."""
        for message in range(EACH):
            while not await self._say(message):
                await asyncio.sleep(0.05)

    async def _say(self, message: int) -> bool:
        """Send a message, again if need be, and wait for its answer; False when the gateway went away meanwhile."""
        try:
            client = await connect(self._world, self._http)
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False
        mark = f"m{self.number}x{message}"
        try:
            said = {"sessionKey": self.key, "message": f"please do {mark}", "idempotencyKey": f"key-{mark}"}
            self.sent += 1
            answer = await client.call("chat.send", said)
            assert answer["ok"], answer
            while True:
                texts = await history(client, self.key)
                if any(role == "assistant" and mark in text for role, text in texts):
                    return True
                await asyncio.sleep(0.02)
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False
        finally:
            await client.socket.close()


async def connect(world: World, http: aiohttp.ClientSession) -> RawClient:
    """Return an operator's connection to the gateway that runs now."""
    ports = re.findall(r"gateway\.ready.*port=(\d+)", (world.state_dir / "gateway.log").read_text())
    if not ports:
        raise ConnectionError("no gateway was ready yet")
    async with asyncio.timeout(5):
        client = RawClient(await http.ws_connect(f"ws://127.0.0.1:{ports[-1]}", max_msg_size=0))
        client.challenge = (await client.frame())["payload"]
        token = (world.state_dir / "state" / "gateway.token").read_text().strip()
        answer = await client.say_connect(connect_params(auth={"token": token}, scopes=["operator.admin"]))
    assert answer["ok"], answer
    return client


async def history(client: RawClient, key: str) -> list[tuple[str, str]]:
    """Return role and text of what was said in a session."""
    answer = await client.call("chat.history", {"sessionKey": key, "limit": 200})
    assert answer["ok"], answer
    found = []
    for message in answer["payload"]["messages"]:
        content = message["content"]
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        found.append((message["role"], text))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_every_message_of_a_client_counts_once_when_the_process_is_killed_at_random_times(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)

    async def killing(world: World) -> None:
        for _ in range(4):
            await asyncio.sleep(chance.uniform(0.05, 0.8))
            await world.kill()
            await world.start()

    async def run() -> None:
        async with World(tmp_path, model_delay=0.05) as world, aiohttp.ClientSession() as http:
            await world.start()
            people = [Person(world, number, http) for number in CLIENTS]
            async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
                group.create_task(killing(world))
                for person in people:
                    group.create_task(person.talk())
            client = await connect(world, http)
            for person in people:
                said = await history(client, person.key)
                asked = [MARK.findall(text) for role, text in said if role == "user"]
                answered = [MARK.findall(text) for role, text in said if role == "assistant" and "done" in text]
                expected = [[(str(person.number), str(message))] for message in range(EACH)]
                assert (asked, answered) == (expected, expected), person.key
            await client.socket.close()
            assert sum(person.sent for person in people) > len(people) * EACH
            assert await world.stop() == 0

    asyncio.run(run())
