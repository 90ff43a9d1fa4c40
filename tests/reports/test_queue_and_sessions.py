"""Bug reports about products of this kind, as tests: queue, sessions, concurrency, stuck, typing, routing."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from harness.brain import Answer, Ask, Error, Tools
from harness.platform import Platform
from harness.stage import OWNER, stage
from tidegate.errors import DeliveryUnknown
from tidegate.events import PeerKind

NOTHING_OPEN = "SELECT 1 FROM sessions WHERE head_seq > done_seq OR owner IS NOT NULL"


def queue(mode: str = "collect") -> str:
    """A queue that does not make a test wait."""
    return f'messages: {{ queue: {{ mode: "{mode}", debounceMs: 10 }} }},'


def test_R014_R018_messages_queued_while_busy_reach_the_model_once_and_give_one_answer(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform, more=queue()) as play:
            gate = play.brain.hold("long work")
            async with play.gateway():
                platform.say("7", "long work")
                await platform.until(lambda: len(play.brain.asks) == 1)
                words = ["?", "hello", "are you there", "one", "two", "three", "four", "five"]
                for word in words:
                    platform.say("7", word)
                await platform.until(lambda: len(play.rows("SELECT 1 FROM events WHERE state = 'waiting'")) == 9)
                gate.set()
                await platform.until(lambda: len(platform.texts("7")) == 2 and not play.rows(NOTHING_OPEN))
            assert len(play.brain.asks) == 2
            together = play.brain.asks[1].said
            assert len(together) == 1
            assert [together[0].count(f"\n{word}") for word in words] == [1] * len(words)
            assert len(platform.texts("7")) == 2

    asyncio.run(run())


def test_R020_an_interrupt_stops_the_run_and_answers_the_newest_message(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform, more=queue("interrupt")) as play:
            play.brain.hold("do X")
            async with play.gateway():
                platform.say("7", "do X")
                await platform.until(lambda: len(play.brain.asks) == 1)
                platform.say("7", "stop, do Y instead")
                await platform.until(lambda: any("do Y" in text for text in platform.texts("7")))
                await platform.until(lambda: not play.rows(NOTHING_OPEN))
            assert any("set aside" in text for text in platform.texts("7"))
            assert [text for text in platform.texts("7") if "echo" in text] == ["echo: stop, do Y instead"]
            states = [row[0] for row in play.rows("SELECT state FROM events ORDER BY id")]
            assert states == ["set_aside", "answered"]

    asyncio.run(run())


def test_R021_a_message_after_a_restart_waits_behind_the_resumed_turn(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform, more=queue()) as play:
            gate = play.brain.hold("first")
            async with play.gateway(drain=False):
                platform.say("7", "first")
                await platform.until(lambda: len(play.brain.asks) == 1)
            async with play.gateway():
                platform.say("7", "second")
                await platform.until(lambda: len(play.brain.asks) == 2)
                running = play.rows("SELECT COUNT(*) FROM turns WHERE state = 'running'")
                assert running == [(1,)]
                gate.set()
                await platform.until(lambda: len(platform.texts("7")) == 2)
            assert platform.texts("7") == ["echo: first", "echo: second"]

    asyncio.run(run())


def test_R022_an_idle_session_takes_messages_again(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play, play.gateway() as gateway:
            for number in range(3):
                platform.say("7", f"m{number}")
                await platform.until(lambda count=number: len(platform.texts("7")) == count + 1)
                await platform.until(lambda: gateway.workers.stats().active == 0)
            assert platform.texts("7") == ["echo: m0", "echo: m1", "echo: m2"]

    asyncio.run(run())


def test_R023_messages_in_other_topics_are_answered_while_one_is_busy(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play:
            gate = play.brain.hold("long chain")
            async with play.gateway():
                platform.say("-5", "long chain", sender="7", kind=PeerKind.GROUP, thread="1", mention=True)
                for number in (8, 9, 10):
                    platform.say("-5", f"hi{number}", sender="7", kind=PeerKind.GROUP, thread=str(number), mention=True)
                for number in (8, 9, 10):
                    await platform.until(lambda n=number: len(platform.texts("-5", str(n))) == 1)
                gate.set()
                await platform.until(lambda: len(platform.texts("-5", "1")) == 1)

    asyncio.run(run())


def test_R025_the_message_that_triggers_a_reset_is_answered_and_the_reset_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        more = 'session: { reset: { mode: "idle", idleMinutes: 90 } },'
        async with stage(tmp_path, platform, more=more) as play:
            async with play.gateway():
                platform.say("7", "book a table")
                await platform.until(lambda: len(platform.texts("7")) == 1)
            age_sessions(play.state_dir, minutes=91)
            async with play.gateway():
                platform.say("7", "what about tomorrow?")
                await platform.until(lambda: len(platform.texts("7")) == 2)
                platform.say("7", "/resume")
                await platform.until(lambda: len(platform.texts("7")) == 3)
            assert platform.texts("7")[1].endswith("echo: what about tomorrow?")
            assert "new conversation" in platform.texts("7")[1]
            assert "book a table" in platform.texts("7")[2]
            assert "book a table" not in str(play.brain.asks[-1].body)

    asyncio.run(run())


def age_sessions(state_dir: Path, minutes: int) -> None:
    """Let time pass for everything that is stored."""
    connection = sqlite3.connect(state_dir / "tidegate.db")
    with connection:
        connection.execute("UPDATE sessions SET touched_at = touched_at - ?", (minutes * 60_000_000,))
        connection.execute("UPDATE conversations SET started_at = started_at - ?", (minutes * 60_000_000,))
    connection.close()


def test_R031_R039_two_people_share_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play, play.gateway():
            platform.say("111", "my PIN is 1234")
            await platform.until(lambda: len(platform.texts("111")) == 1)
            platform.say("222", "what did I just tell you?")
            await platform.until(lambda: len(platform.texts("222")) == 1)
            assert "1234" not in str(play.brain.asks[1].body)
            keys = [row[0] for row in play.rows("SELECT key FROM sessions ORDER BY id")]
            assert keys == ["agent:main:telegram:direct:111", "agent:main:telegram:direct:222"]

    asyncio.run(run())


def test_R033_two_bots_keep_one_person_apart(tmp_path: Path) -> None:
    async def run() -> None:
        first, second = Platform(), Platform(account="b2")
        text = 'channels: { telegram: { dmPolicy: "open", allowFrom: ["*"], accounts: { default: { botToken: "1:T" }, '
        text += 'b2: { botToken: "2:T" } } } },'
        async with stage(tmp_path, first, second) as play:
            written = play.config_path.read_text()
            start = written.index("  channels:")
            play.write_config(text=written[:start] + text + "}")
            async with play.gateway():
                first.say("42", "for the first")
                second.say("42", "for the second")
                await first.until(lambda: first.texts("42") and second.texts("42"))
            assert first.texts("42") == ["echo: for the first"]
            assert second.texts("42") == ["echo: for the second"]
            assert len(play.rows("SELECT DISTINCT key FROM sessions")) == 2

    asyncio.run(run())


def test_R035_resume_finds_only_ones_own_conversations(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play, play.gateway():
            platform.say("111", "budget")
            platform.say("222", "hello")
            await platform.until(lambda: platform.texts("111") and platform.texts("222"))
            platform.say("111", "/new")
            platform.say("222", "/new")
            await platform.until(lambda: len(platform.texts("111")) == 2 and len(platform.texts("222")) == 2)
            foreign = play.rows(
                "SELECT uuid FROM conversations c JOIN sessions s ON s.id = c.session WHERE s.key LIKE '%:111'"
            )[0][0]
            platform.say("222", "/resume budget")
            platform.say("222", f"/resume {foreign}")
            platform.say("222", "/resume")
            await platform.until(lambda: len(platform.texts("222")) == 5)
            assert platform.texts("222")[2:4] == ["There is no such conversation here. Send /resume for the list."] * 2
            assert "budget" not in platform.texts("222")[4]

    asyncio.run(run())


def test_R038_R037_answers_of_many_people_at_once_go_to_their_askers(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()

        async def think(ask: Ask) -> Answer:
            if "file" in ask.last and not ask.results:
                return Tools((("write", {"path": f"{ask.last}.txt", "content": ask.last}),))
            await asyncio.sleep(0.01)
            return f"for {ask.last}"

        async with stage(tmp_path, platform) as play:
            play.brain.think = think
            async with play.gateway():
                for person in range(100, 112):
                    platform.say(str(person), f"{'file' if person % 2 else 'plain'}{person}")
                await platform.until(lambda: len(platform.bubbles) == 12)
            for person in range(100, 112):
                assert platform.texts(str(person)) == [f"for {'file' if person % 2 else 'plain'}{person}"]

    asyncio.run(run())


def test_R048_R049_a_model_that_fails_ends_the_turn_and_the_next_message_runs(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform(edit_interval=None)

        async def think(ask: Ask) -> Answer:
            if "m1" in ask.last:
                return Tools((("session_status", {}),)) if not ask.results else Error(401, "bad key")
            return f"ok {ask.last}"

        async with stage(tmp_path, platform) as play:
            play.brain.think = think
            async with play.gateway() as gateway:
                platform.say("7", "m1")
                await platform.until(lambda: len(platform.texts("7")) == 1)
                assert "key" in platform.texts("7")[0]
                await platform.until(lambda: gateway.workers.stats().running == 0)
                assert play.rows("SELECT state FROM turns") == [("failed",)]
                assert not play.rows(NOTHING_OPEN)
                typed = len(platform.typed)
                await asyncio.sleep(0.5)
                assert len(platform.typed) == typed

    asyncio.run(run())


def test_R050_typing_ends_with_the_turn(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play:
            gate = play.brain.hold("topic work")
            async with play.gateway():
                platform.say("-5", "topic work", sender="7", kind=PeerKind.GROUP, thread="31", mention=True)
                await platform.until(lambda: len(platform.typed) >= 3)
                gate.set()
                await platform.until(lambda: platform.texts("-5", "31"))
                await platform.until(lambda: not play.rows(NOTHING_OPEN))
                typed = len(platform.typed)
                await asyncio.sleep(0.6)
                assert len(platform.typed) == typed
                assert {address.thread for _, address in platform.typed} == {"31"}

    asyncio.run(run())


def test_R054_one_busy_chat_blocks_no_other(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play:
            gate = play.brain.hold("two minutes of work")
            async with play.gateway():
                platform.say("1", "two minutes of work")
                await platform.until(lambda: len(play.brain.asks) == 1)
                platform.say("2", "hi")
                await platform.until(lambda: platform.texts("2") == ["echo: hi"])
                assert not platform.texts("1")
                gate.set()
                await platform.until(lambda: platform.texts("1"))

    asyncio.run(run())


def test_R111_a_command_for_another_bot_is_not_ours(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play, play.gateway():
            platform.say("-5", "/whoami@OtherBot", sender=OWNER, kind=PeerKind.GROUP)
            platform.say("-5", "/whoami@Tide_Bot", sender=OWNER, kind=PeerKind.GROUP)
            await platform.until(lambda: platform.texts("-5"))
            await platform.until(lambda: not play.rows("SELECT 1 FROM events WHERE state = 'command'"))
            assert len(platform.texts("-5")) == 1
            assert not play.brain.asks

    asyncio.run(run())


def test_R027_R029_a_reply_goes_where_its_message_came_from_in_a_shared_session(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        more = 'session: { dmScope: "main" },' + queue()
        async with stage(tmp_path, platform, more=more) as play:
            gate = play.brain.hold("from one")
            async with play.gateway():
                platform.say("1", "from one")
                await platform.until(lambda: len(play.brain.asks) == 1)
                platform.say("2", "from two")
                platform.say("1", "again from one")
                await platform.until(lambda: len(play.rows("SELECT 1 FROM events WHERE state = 'waiting'")) == 3)
                gate.set()
                await platform.until(lambda: len(platform.bubbles) == 3)
            assert [b.address.chat for b in platform.bubbles] == ["1", "2", "1"]
            assert [b.text for b in platform.bubbles] == ["echo: from one", "echo: from two", "echo: again from one"]

    asyncio.run(run())


def test_R008_R010_R011_outcomes_that_are_final_are_never_tried_again(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play:
            async with play.gateway():
                platform.faults.append(DeliveryUnknown("cut off"))
                platform.say("7", "m1")
                await platform.until(lambda: play.rows("SELECT 1 FROM deliveries WHERE state = 'unknown'"))
            attempts = len(platform.attempts)
            for _ in range(3):
                async with play.gateway():
                    await platform.until(lambda: not play.rows(NOTHING_OPEN))
            assert len([p for p in platform.attempts if p.address.chat == "7"]) == attempts
            assert len(play.brain.asks) == 1

    asyncio.run(run())
