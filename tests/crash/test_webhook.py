"""A webhook is acknowledged only once its update is durable: what was acknowledged is answered after any crash."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import aiohttp
import pytest

from crash.world import World

SECRET = "a-secret-of-the-webhook"
SECONDS = 30.0


def free_port() -> int:
    """Return a port that nobody uses now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def push(port: int, world: World) -> int:
    """Push the newest update as Telegram does; returns the status, 0 when the line broke."""
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as http:
            headers = {"X-Telegram-Bot-Api-Secret-Token": SECRET}
            address = f"http://127.0.0.1:{port}/telegram-webhook"
            async with http.post(address, json=world.updates[-1], headers=headers) as answer:
                return answer.status
    except aiohttp.ClientError:
        return 0


@pytest.mark.parametrize("crash_at", [None, "event-stored"], ids=["killed-after-200", "crash-before-200"])
def test_R002_an_acknowledged_update_is_answered_once_after_a_crash(crash_at: str | None, tmp_path: Path) -> None:
    async def run() -> None:
        port = free_port()
        async with World(tmp_path, uses_tools=False) as world:
            address = "https://bot.example.org/telegram-webhook"
            hook = f'webhookUrl: "{address}", webhookSecret: "{SECRET}", webhookPort: {port},'
            world.config.write_text(world.config.read_text().replace("replyToMode", f"{hook} replyToMode"))
            await world.start(crash_at, until=lambda: "setWebhook" in world.calls)
            world.say(7, 0)
            status = await push(port, world)
            assert status == (0 if crash_at else 200)
            await world.kill()
            before = world.calls.count("setWebhook")
            await world.start(until=lambda: world.calls.count("setWebhook") > before)
            # The platform repeats what was not acknowledged, and sometimes what was.
            assert await push(port, world) == 200
            assert await world.until(lambda: world.answers(7) == [0] or world.unknown() == [(7, 0)], SECONDS)
            assert await world.stop() == 0
            assert len(world.answers(7)) <= 1

    asyncio.run(run())
