"""Updates that are pushed: acknowledged once they are stored, taken from nobody but Telegram."""

from __future__ import annotations

import asyncio
import socket
from contextlib import aclosing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fakes.connected_bot import Told, connected
from fakes.event_loop import on_loop
from fakes.fake_telegram import FakeTelegram
from tidegate.adapters.telegram.settings import WebhookSettings
from tidegate.errors import AdapterConfigError, AdapterUnavailable, ConfigError

SECRET = "s-e_cret"


def hook(port: int, secret: str = SECRET, **more: Any) -> WebhookSettings:
    url = f"http://127.0.0.1:{port}/hook"
    return WebhookSettings(url, lambda: secret, "/hook", "127.0.0.1", port, **more)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def post(port: int, body: bytes, secret: str = SECRET) -> int:
    headers = {"X-Telegram-Bot-Api-Secret-Token": secret}
    async with aiohttp.ClientSession() as http:
        async with http.post(f"http://127.0.0.1:{port}/hook", data=body, headers=headers) as response:
            return response.status


@on_loop
async def test_R002_an_update_is_acknowledged_only_once_it_is_stored(port: int) -> None:
    told = Told()
    async with FakeTelegram() as platform, connected(platform, told, webhook=hook(port)) as bot:
        async with aclosing(bot.events(None)) as batches:
            platform.user_says(7, "one")
            assert [event.text for event in (await anext(batches)).events] == ["one"]
            assert platform.waiting
            platform.user_says(7, "two")
            assert [event.text for event in (await anext(batches)).events] == ["two"]
            assert [update["message"]["text"] for update in platform.waiting] == ["two"]
        assert told.alive
        (call,) = platform.called("setWebhook")
        assert (call["secret_token"], call["max_connections"]) == (SECRET, 1)


@on_loop
async def test_an_update_that_was_not_stored_comes_again(port: int) -> None:
    async with FakeTelegram() as platform:
        platform.user_says(7, "again")
        for _ in range(2):
            async with connected(platform, webhook=hook(port)) as bot, aclosing(bot.events(None)) as batches:
                platform.user_says(7, "more")
                assert (await anext(batches)).events[0].text == "again"


@on_loop
async def test_nobody_else_can_push(port: int) -> None:
    async with FakeTelegram() as platform, connected(platform, webhook=hook(port)):
        assert await post(port, b'{"update_id": 1}', "wrong") == 403
        assert await post(port, b'{"update_id": 1}', "") == 403
        assert await post(port, b"no json") == 400
        assert await post(port, b"[]") == 400
        assert await post(port, b" " * (2 << 20)) == 413


@on_loop
async def test_when_too_many_wait_the_rest_comes_again_later(port: int) -> None:
    async with FakeTelegram() as platform, connected(platform, webhook=hook(port)):
        refused: asyncio.Queue[int] = asyncio.Queue()

        async def one(number: int) -> None:
            refused.put_nowait(await post(port, b'{"update_id": %d}' % number))

        async with asyncio.TaskGroup() as group:
            posts = [group.create_task(one(number)) for number in range(260)]
            assert [await refused.get() for _ in range(260 - 256)] == [503] * 4
            for task in posts:
                task.cancel()


@on_loop
async def test_what_a_person_must_change_is_told(port: int, tmp_path: Path) -> None:
    def missing() -> str:
        raise ConfigError("webhookSecret is not set")

    async with FakeTelegram() as platform:
        for settings, words in [
            (hook(port, "has a space"), "webhookSecret must be"),
            (WebhookSettings("http://x/", missing, "/", "127.0.0.1", port), "not set"),
            (WebhookSettings("http://x/", lambda: SECRET, "/", "192.0.2.1", port), "cannot listen"),
            (hook(port, certificate=tmp_path / "none.pem"), "webhookCertPath"),
        ]:
            with pytest.raises(AdapterConfigError, match=words):
                async with connected(platform, webhook=settings):
                    pass


@on_loop
async def test_a_port_that_is_taken_is_told_and_tried_again(port: int) -> None:
    async with FakeTelegram() as platform, connected(platform, webhook=hook(port)):
        with pytest.raises(AdapterUnavailable, match="webhookPort"):
            async with connected(platform, webhook=hook(port)):
                pass
