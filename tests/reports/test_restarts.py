"""Bug reports about products of this kind, as tests: restarts, the outbox, repeated deliveries, files."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from pathlib import Path

from harness.brain import Answer, Ask, Tools
from harness.platform import Platform
from harness.stage import OWNER, stage
from tidegate.errors import AdapterUnavailable, DeliveryRefused
from tidegate.events import Attachment, MediaKind, PeerKind

NOTHING_OPEN = "SELECT 1 FROM sessions WHERE head_seq > done_seq OR owner IS NOT NULL"


def test_R003_a_turn_cut_by_a_restart_is_taken_up_again(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play:
            gate = play.brain.hold("restart me")
            async with play.gateway(drain=False):
                platform.say("7", "restart me")
                await platform.until(lambda: len(play.brain.asks) == 1)
            gate.set()
            async with play.gateway():
                await platform.until(lambda: platform.texts("7"))
            assert platform.texts("7") == ["echo: restart me"]

    asyncio.run(run())


def test_R004_R013_updates_that_come_again_are_dropped_even_after_restarts(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play:
            async with play.gateway():
                events = [platform.say(str(person), f"m{person}") for person in range(1, 6)]
                await platform.until(lambda: len(platform.bubbles) == 5)
            assert play.rows("SELECT value FROM cursors WHERE channel = 'telegram'") == [("5",)]
            platform.redelivers = True
            async with play.gateway():
                platform.repeat(events[0])
                platform.say("9", "new")
                await platform.until(lambda: platform.texts("9"))
                await platform.until(lambda: not play.rows(NOTHING_OPEN))
            assert len(platform.bubbles) == 6
            assert len(play.brain.asks) == 6

    asyncio.run(run())


def test_R005_files_that_arrive_while_the_gateway_is_down_are_fetched_or_told_about(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform(files={"f1": b"first file", "f3": b"third file"})
        async with stage(tmp_path, platform) as play:
            for number in (1, 2, 3):
                document = Attachment(MediaKind.DOCUMENT, f"f{number}", f"doc{number}.txt", "text/plain", 10)
                platform.say("7", f"document {number}", files=[document])
            async with play.gateway():
                await platform.until(lambda: not play.rows(NOTHING_OPEN) and platform.bubbles)
            said = " ".join(text for ask in play.brain.asks for text in ask.said)
            assert re.search(r"saved as media/inbound/\w+-in1-doc1.txt", said)
            assert re.search(r"saved as media/inbound/\w+-in3-doc3.txt", said)
            assert "doc2.txt: not received" in said
            saved = {path.name[7:]: path.read_bytes() for path in play.state_dir.rglob("media/inbound/*")}
            assert saved == {"in1-doc1.txt": b"first file", "in3-doc3.txt": b"third file"}

    asyncio.run(run())


def test_R006_an_answer_in_the_outbox_is_delivered_to_its_topic_after_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play:
            gate = play.brain.hold("topic question")
            async with play.gateway(drain=False) as gateway:
                platform.say("-5", "topic question", sender="7", kind=PeerKind.GROUP, thread="31", mention=True)
                await platform.until(lambda: len(play.brain.asks) == 1)
                # The connection is gone at the moment the answer is ready.
                gateway.connections.add("telegram", "default").adapter = None
                gate.set()
                await platform.until(lambda: play.rows("SELECT 1 FROM deliveries WHERE state = 'due'"))
            assert not platform.bubbles
            async with play.gateway():
                await platform.until(lambda: platform.bubbles)
                await platform.until(lambda: play.rows("SELECT 1 FROM deliveries WHERE state = 'sent'"))
            assert [(b.address.chat, b.address.thread, b.text) for b in platform.bubbles] == [
                ("-5", "31", "echo: Person 7: topic question")
            ]
            assert len(play.brain.asks) == 1

    asyncio.run(run())


def test_R010_a_message_that_is_refused_for_ever_is_buried_with_its_reason(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play:
            platform.faults.append(DeliveryRefused("chat not found"))
            async with play.gateway():
                platform.say("7", "hello")
                await platform.until(lambda: play.rows("SELECT 1 FROM deliveries WHERE state = 'dead'"))
            for _ in range(3):
                async with play.gateway():
                    await platform.until(lambda: not play.rows(NOTHING_OPEN))
            assert len(platform.attempts) == 1
            assert play.rows("SELECT state, reason FROM deliveries") == [("dead", "chat not found")]

    asyncio.run(run())


def test_R010_the_owner_hears_once_about_messages_that_did_not_arrive(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play, play.gateway():
            platform.say(OWNER, "it is me")
            await platform.until(lambda: platform.texts(OWNER))
            platform.faults.extend([DeliveryRefused("blocked"), DeliveryRefused("blocked")])
            platform.say("7", "hush hush")
            platform.say("8", "hush hush")
            await platform.until(lambda: len(platform.texts(OWNER)) == 2, 15)
            report = platform.texts(OWNER)[1]
            assert "2 messages" in report
            assert "telegram/default/7" in report
            assert "telegram/default/8" in report
            assert "hush" not in report

    asyncio.run(run())


def test_R094_a_tool_cut_by_a_crash_is_reported_to_the_model_and_not_run_again(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()

        async def think(ask: Ask) -> Answer:
            if not ask.results:
                return Tools((("write", {"path": "once.txt", "content": "x"}),))
            return f"told: {ask.results[-1]}"

        async with stage(tmp_path, platform) as play:
            play.brain.think = think
            async with play.gateway():
                platform.say("7", "write it")
                await platform.until(lambda: len(platform.texts("7")) == 1)
            rewind_to_started_tool(play.state_dir)
            next(play.state_dir.rglob("once.txt")).unlink()
            async with play.gateway():
                await platform.until(lambda: len(platform.texts("7")) == 2)
                assert "unknown" in platform.texts("7")[1].lower()
                platform.say("7", "continue")
                await platform.until(lambda: len(platform.texts("7")) == 3)
            assert not play.brain.problems
            assert play.rows("SELECT COUNT(*) FROM tool_calls WHERE ended_at IS NULL") == [(0,)]

    asyncio.run(run())


def rewind_to_started_tool(state_dir: Path) -> None:
    """Put the store into the state it had after the tool's start was stored and before its end was."""
    connection = sqlite3.connect(state_dir / "tidegate.db")
    with connection:
        connection.execute("DELETE FROM messages WHERE seq > 2")
        connection.execute("UPDATE tool_calls SET ended_at = NULL")
        connection.execute("UPDATE turns SET state = 'running', ended_at = NULL")
        connection.execute("UPDATE events SET state = 'waiting'")
        connection.execute("UPDATE sessions SET done_seq = 0, owner = 'a boot that is gone'")
        connection.execute("DELETE FROM deliveries")
    connection.close()


def test_R075_an_adapter_that_breaks_in_an_unforeseen_way_is_connected_anew_and_harms_nobody(tmp_path: Path) -> None:
    async def run() -> None:
        sick, well = Platform(connect_error=RuntimeError("boom")), Platform(account="second")
        async with stage(tmp_path, sick, well) as play, play.gateway() as gateway:
            await well.until(lambda: sick.connects >= 1)
            row = gateway.connections.add("telegram", "default")
            assert row.state.value == "retrying"
            sick.connect_error = AdapterUnavailable("still down")
            await well.until(lambda: sick.connects >= 2)
            sick.connect_error = None
            sick.say("7", "are you back?")
            await well.until(lambda: sick.texts("7") == ["echo: are you back?"])
            assert row.state.value == "up"

    asyncio.run(run())
