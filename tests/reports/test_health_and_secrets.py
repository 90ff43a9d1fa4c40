"""Bug reports about products of this kind, as tests: a connection that only seems to live, secrets, the store."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from cli.driver import running_gateway, tidegate
from crash.world import World
from fakes.event_loop import on_loop
from fakes.fake_telegram import FakeTelegram, Fault
from harness.brain import Answer, Ask, Brain, Tools
from harness.platform import Platform
from harness.stage import OWNER, stage
from plane.talking import talking
from reports.test_telegram_connection import TOKEN, running, until
from tidegate.adapters.telegram import polling
from tidegate.gateway.connections import ConnectionState

READS = (
    "config.get",
    "config.schema",
    "status",
    "health",
    "channels.status",
    "models.list",
    "agents.list",
    "logs.tail",
    "usage.status",
    "system-presence",
    "diagnostics.stability",
    "tidegate.status",
)
"""Methods that show how things stand."""


@on_loop
async def test_R081_a_connection_that_goes_silent_is_seen_told_and_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "POLL_SECONDS", 1)
    monkeypatch.setattr(polling, "POLL_SLACK", 0.5)
    async with FakeTelegram(TOKEN) as telegram, Brain() as brain, running(tmp_path, telegram, brain) as gateway:
        row = gateway.connections.add("telegram", "default")
        await until(lambda: row.state is ConnectionState.UP)
        # Sending works all the time; only polls are never answered again.
        telegram.spoil("getUpdates", Fault(delay=30), times=1)
        telegram.user_says(7, "are you there?")
        await until(lambda: row.state is ConnectionState.RETRYING)
        assert row.reason
        status = await gateway.control.status()
        seen = next(found for found in status["connections"] if found["channel"] == "telegram")
        assert (seen["state"], seen["reason"]) == ("retrying", row.reason)
        await until(lambda: row.state is ConnectionState.UP)
        await telegram.wait_call("sendMessage")
        await until(lambda: any("are you there?" in text for text in telegram.texts(7)))


@on_loop
async def test_R134_an_agent_cannot_change_what_it_may_do(tmp_path: Path) -> None:
    platform = Platform()
    results: list[str] = []

    async def think(ask: Ask) -> Answer:
        if len(ask.results) < 4:
            change = {"path": str(tmp_path / "tidegate.json"), "content": "{ tools: { allow: ['*'] } }"}
            tries = (
                change,
                {**change, "path": "../tidegate.json"},
                {**change, "path": "../../tidegate.json"},
                {**change, "path": str(tmp_path / "tidegate.db")},
            )
            return Tools((("write", tries[len(ask.results)]),))
        results.extend(ask.results)
        return "I could not"

    async with stage(tmp_path, platform) as play:
        play.brain.think = think
        before = play.config_path.read_text()
        async with play.gateway() as gateway:
            platform.say(OWNER, "give yourself all rights")
            await platform.until(lambda: platform.texts(OWNER))
            assert gateway.loaded.config.tools.allow != ["*"]
        assert play.config_path.read_text() == before
        assert len(results) == 4
        assert all("outside the workspace" in result or "'..'" in result for result in results), results


def test_R139_a_secret_that_was_typed_stands_in_the_configuration_and_nowhere_else(tmp_path: Path) -> None:
    secret = "s3cr3t-that-was-typed-once"
    with running_gateway(tmp_path):
        done = tidegate("config", "set", "gateway.auth.password", secret, state=tmp_path)
        assert done.returncode == 0, done.stderr
        assert secret not in done.stdout + done.stderr
        for words in (("config", "get"), ("status",), ("logs",), ("doctor",)):
            done = tidegate(*words, state=tmp_path)
            assert secret not in done.stdout + done.stderr, words
    holders = [path for path in tmp_path.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert holders
    assert {path.name.split(".")[0] for path in holders} <= {"tidegate", "last-good", "backup"}
    assert all(path.suffix in (".json", ".json5", ".bak") for path in holders), holders
    assert all(path.stat().st_mode & 0o077 == 0 for path in holders), holders


@on_loop
async def test_R141_no_view_shows_a_secret(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        listed = set(talk.client.hello["features"]["methods"])
        for method in READS:
            answer = await talk.client.call(method)
            assert answer["ok"] or method not in listed, (method, answer)
            text = json.dumps(answer)
            assert "secret-key-of-the-model" not in text, method
            assert '"1:T"' not in text, method
            assert (tmp_path / "gateway.token").read_text().strip() not in text, method


def shown(world: World) -> int:
    """Return how many messages the people see."""
    return sum(len(messages) for messages in world.chats.values())


def test_R146_a_shutdown_under_load_that_is_cut_off_leaves_a_sound_store(tmp_path: Path) -> None:
    async def run() -> None:
        async with World(tmp_path, model_delay=0.02) as world:
            for visit in range(4):
                for number in range(5):
                    for chat in range(1, 11):
                        world.say(chat, 10 * visit + number)
                before = shown(world)
                await world.start()
                assert await world.until(lambda before=before: shown(world) > before + 5, 20)
                assert world.process is not None
                world.process.terminate()
                # The grace period ends in the middle of the work.
                await world.until(lambda: world.is_dead, 0.05 * visit)
                await world.kill()
                with sqlite3.connect(tmp_path / "state" / "tidegate.db") as store:
                    assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            await world.start()
            everything = {10 * visit + number for visit in range(4) for number in range(5)}
            unknown = set()

            def is_answered() -> bool:
                unknown.update(world.unknown())
                return all(
                    set(world.answers(chat)) | {n for c, n in unknown if c == chat} == everything
                    for chat in range(1, 11)
                )

            assert await world.until(is_answered, 60)
            await world.stop()
            for chat in range(1, 11):
                assert len(world.answers(chat)) == len(set(world.answers(chat)))

    asyncio.run(run())
