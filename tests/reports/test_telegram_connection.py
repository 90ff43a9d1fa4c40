"""Bug reports about products of this kind, as tests: Telegram's connection, with the real adapter and supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fakes.fake_telegram import FakeTelegram
from harness.brain import Brain
from harness.stage import Stage
from tidegate.config.load import load_config
from tidegate.faults import Faults
from tidegate.gateway.app import Gateway, Site, open_gateway
from tidegate.gateway.connections import ConnectionState

TOKEN = "7000000001:AAtesttesttesttesttesttesttesttest"


@asynccontextmanager
async def running(folder: Path, telegram: FakeTelegram, brain: Brain) -> AsyncIterator[Gateway]:
    """Run a gateway with the real Telegram adapter against the fake server."""
    play = Stage(folder, brain, [])
    written = play.config_path.read_text().replace(
        'botToken: "1:T"', f'botToken: "{TOKEN}", apiRoot: "{telegram.base}"'
    )
    play.write_config(text=written)
    loaded = load_config(play.config_path, environ={"HOME": str(folder)}, state_dir=folder)
    stop = asyncio.Event()
    async with open_gateway(Site(folder, play.config_path, port=0), loaded, Faults()) as gateway:
        async with asyncio.TaskGroup() as group:
            group.create_task(gateway.run(stop))
            await gateway.ready.wait()
            try:
                yield gateway
            finally:
                stop.set()


async def until(condition: object, seconds: float = 10.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.02)


def test_R066_R069_a_conflict_is_shown_and_polled_slowly_until_a_poll_succeeds(tmp_path: Path) -> None:
    async def run() -> None:
        async with FakeTelegram(TOKEN) as telegram, Brain() as brain:
            telegram.fail("getUpdates", 409, times=50)
            async with running(tmp_path, telegram, brain) as gateway:
                row = gateway.connections.add("telegram", "default")
                await until(lambda: row.state is ConnectionState.CONFLICT)
                assert row.alive_at == 0
                assert "another" in row.reason.lower() or "other" in row.reason.lower()
                polls = len(telegram.called("getUpdates"))
                await asyncio.sleep(1.5)
                # The next try comes after longer than a long poll lasts.
                assert len(telegram.called("getUpdates")) == polls
                ready, facts = gateway._readiness()
                assert ready
                assert {r["state"] for r in facts["connections"]} == {"up", "conflict"}

    asyncio.run(run())


def test_R067_a_connection_that_cannot_be_made_is_tried_again_until_it_works(tmp_path: Path) -> None:
    async def run() -> None:
        async with FakeTelegram(TOKEN) as telegram, Brain() as brain:
            telegram.fail("getMe", 502, times=2)
            async with running(tmp_path, telegram, brain) as gateway:
                row = gateway.connections.add("telegram", "default")
                await until(lambda: row.state is ConnectionState.RETRYING)
                await until(lambda: row.state is ConnectionState.UP)
                telegram.user_says(7, "hello")
                await telegram.wait_call("sendMessage")
                assert telegram.texts(7)[-1].endswith("hello")

    asyncio.run(run())


def test_a_revoked_token_stops_only_that_account_and_says_why(tmp_path: Path) -> None:
    async def run() -> None:
        async with FakeTelegram("1:other") as telegram, Brain() as brain:
            async with running(tmp_path, telegram, brain) as gateway:
                row = gateway.connections.add("telegram", "default")
                await until(lambda: row.state is ConnectionState.STOPPED)
                assert "token" in row.reason.lower()
                assert TOKEN not in row.reason
                status = await gateway.control.status()
                assert {c["channel"]: c["state"] for c in status["connections"]} == {
                    "telegram": "stopped",
                    "terminal": "up",
                    "webchat": "up",
                }

    asyncio.run(run())
