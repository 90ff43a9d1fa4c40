"""What people see: commands, queue modes, groups, pairing, previews, files, failures. A whole gateway each time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from harness.brain import Answer, Ask, Error, Tools
from harness.platform import Platform
from harness.stage import OWNER, stage
from tidegate.errors import DeliveryDeferred, DeliveryUnavailable
from tidegate.events import PeerKind

NOTHING_OPEN = "SELECT 1 FROM sessions WHERE head_seq > done_seq OR owner IS NOT NULL"
WAITING = "SELECT 1 FROM events WHERE state = 'waiting'"


def queue(mode: str, **more: object) -> str:
    """Queue settings that do not make a test wait."""
    extra = "".join(f", {key}: {json.dumps(value)}" for key, value in more.items())
    return f'messages: {{ queue: {{ mode: "{mode}", debounceMs: 10{extra} }} }},'


def test_steering_reaches_the_running_turn_at_the_next_tool(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()

        async def think(ask: Ask) -> Answer:
            if not ask.results:
                calls = [("write", {"path": f"{n}.txt", "content": "x"}) for n in (1, 2, 3)]
                return Tools(tuple(calls))
            return f"heard: {ask.last}"

        async with stage(tmp_path, platform, more=queue("steer")) as play:
            play.brain.think = think
            gate = play.brain.hold("make files")
            async with play.gateway():
                platform.say("7", "make files")
                await platform.until(lambda: len(play.brain.asks) == 1)
                platform.say("7", "no, stop after this")
                await platform.until(lambda: len(play.rows(WAITING)) == 2)
                gate.set()
                await platform.until(lambda: platform.texts("7"))
            assert platform.texts("7") == ["heard: no, stop after this"]
            assert len(play.brain.asks[-1].results) == 3
            assert all("skipped" in result for result in play.brain.asks[-1].results)
            assert not play.brain.problems
            assert play.rows("SELECT DISTINCT state FROM events") == [("answered",)]

    asyncio.run(run())


def test_steering_by_somebody_else_becomes_a_turn_of_its_own(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()

        async def think(ask: Ask) -> Answer:
            if "make" in ask.said[0] and not ask.results:
                return Tools((("write", {"path": "a.txt", "content": "x"}),))
            return f"for: {ask.last}"

        async with stage(tmp_path, platform, more=queue("steer")) as play:
            play.brain.think = think
            gate = play.brain.hold("make it")
            async with play.gateway():
                platform.say("-5", "make it", sender=OWNER, kind=PeerKind.GROUP, mention=True)
                await platform.until(lambda: len(play.brain.asks) == 1)
                platform.say("-5", "delete everything", sender="66", kind=PeerKind.GROUP, mention=True)
                await platform.until(lambda: len(play.rows(WAITING)) == 2)
                gate.set()
                await platform.until(lambda: len(platform.texts("-5")) == 2)
            assert "make it" in platform.texts("-5")[0]
            assert "delete everything" in platform.texts("-5")[1]

    asyncio.run(run())


def test_followup_answers_each_message_in_order(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform, more=queue("followup")) as play:
            gate = play.brain.hold("m0")
            async with play.gateway():
                for number in range(4):
                    platform.say("7", f"m{number}")
                gate.set()
                await platform.until(lambda: len(platform.texts("7")) == 4)
            assert platform.texts("7") == [f"echo: m{number}" for number in range(4)]

    asyncio.run(run())


def test_a_full_queue_tells_the_agent_what_was_left_out(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform, more=queue("followup", cap=2)) as play:
            gate = play.brain.hold("busy")
            async with play.gateway():
                platform.say("7", "busy")
                await platform.until(lambda: len(play.brain.asks) == 1)
                for letter in "ABC":
                    platform.say("7", letter)
                await platform.until(lambda: len(play.rows("SELECT 1 FROM events WHERE state = 'dropped'")) == 1)
                gate.set()
                await platform.until(lambda: len(platform.texts("7")) == 3)
            assert "1 message" in play.brain.asks[1].said[0]
            assert "- A" in play.brain.asks[1].said[0]
            assert [ask.last for ask in play.brain.asks] == ["busy", "B", "C"]

    asyncio.run(run())


def test_a_queue_that_refuses_new_messages_tells_the_sender(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform, more=queue("followup", cap=1, drop="new")) as play:
            gate = play.brain.hold("busy")
            async with play.gateway():
                platform.say("7", "busy")
                await platform.until(lambda: len(play.brain.asks) == 1)
                platform.say("7", "waits")
                platform.say("7", "too much")
                await platform.until(lambda: platform.texts("7"))
                assert "too much" in platform.texts("7")[0]
                gate.set()
                await platform.until(lambda: len(platform.texts("7")) == 3)
            assert platform.texts("7")[1:] == ["echo: busy", "echo: waits"]

    asyncio.run(run())


def test_stop_ends_the_run_and_counts_what_waited(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform, more=queue("collect")) as play:
            play.brain.hold("busy")
            async with play.gateway() as gateway:
                platform.say("7", "busy")
                await platform.until(lambda: len(play.brain.asks) == 1)
                platform.say("7", "a")
                platform.say("7", "b")
                await platform.until(lambda: len(play.rows(WAITING)) == 3)
                platform.say("7", "STOP!!!")
                await platform.until(lambda: platform.texts("7"))
                assert platform.texts("7") == ["Stopped. 2 messages that waited were set aside."]
                await platform.until(lambda: gateway.workers.stats().active == 0)
                platform.say("7", "next")
                await platform.until(lambda: len(platform.texts("7")) == 2)
                platform.say("7", "/stop")
                await platform.until(lambda: len(platform.texts("7")) == 3)
            assert platform.texts("7")[2] == "Nothing is running."
            assert len(play.brain.asks) == 2

    asyncio.run(run())


def test_new_begins_a_conversation_and_takes_the_rest_as_its_first_message(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play, play.gateway():
            platform.say("7", "my dog is called Bo")
            await platform.until(lambda: len(platform.texts("7")) == 1)
            platform.say("7", "/new who is my dog?")
            await platform.until(lambda: len(platform.texts("7")) == 3)
            assert "Bo" not in json.dumps(play.brain.asks[-1].body["messages"])
            assert play.brain.asks[-1].said == ["who is my dog?"]
            platform.say("7", "/resume 1")
            await platform.until(lambda: len(platform.texts("7")) == 4)
            platform.say("7", "again")
            await platform.until(lambda: len(platform.texts("7")) == 5)
            assert "Bo" in json.dumps(play.brain.asks[-1].body["messages"])

    asyncio.run(run())


def test_queue_settings_of_a_session_survive_a_restart_and_can_be_reset(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play:
            async with play.gateway():
                platform.say("7", "/queue followup debounce:2s cap:25 drop:old")
                await platform.until(lambda: len(platform.texts("7")) == 1)
            async with play.gateway():
                platform.say("7", "/queue")
                await platform.until(lambda: len(platform.texts("7")) == 2)
                platform.say("7", "/queue sideways")
                await platform.until(lambda: len(platform.texts("7")) == 3)
                platform.say("7", "/queue reset")
                await platform.until(lambda: len(platform.texts("7")) == 4)
                platform.say("7", "/queue")
                await platform.until(lambda: len(platform.texts("7")) == 5)
            shown = platform.texts("7")
            assert shown[1] == "Queue: followup, debounce 2000 ms, cap 25, drop old"
            assert "sideways" in shown[2]
            assert shown[4].startswith("Queue: collect")

    asyncio.run(run())


def test_commands_are_answered_and_known_foreign_ones_are_declined(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play, play.gateway():
            for text in ("/help", "/whoami", "/status", "/compact", "/unheard"):
                platform.say("7", text)
            await platform.until(lambda: len(platform.texts("7")) == 5)
            shown = " ".join(platform.texts("7"))
            assert "/resume" in shown
            assert "telegram:7" in shown
            assert "/compact is not available here." in shown
            assert [ask.last for ask in play.brain.asks] == ["/unheard"]

    asyncio.run(run())


def test_group_talk_is_kept_as_context_for_the_next_mention(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        more = "messages: { groupChat: { historyLimit: 2 } },"
        async with stage(tmp_path, platform, more=more) as play, play.gateway():
            for number, sender in enumerate(("61", "62", "63")):
                platform.say("-5", f"talk {number}", sender=sender, kind=PeerKind.GROUP)
            platform.say("-5", "what do you think?", sender="61", kind=PeerKind.GROUP, mention=True)
            await platform.until(lambda: platform.texts("-5"))
            platform.say("-5", "and now?", sender="61", kind=PeerKind.GROUP, mention=True)
            await platform.until(lambda: len(platform.texts("-5")) == 2)
            first, second = play.brain.asks[0].last, play.brain.asks[1].last
            assert "talk 0" not in first
            assert "Person 62: talk 1" in first
            assert "Person 63: talk 2" in first
            assert "what do you think?" in first
            assert "talk" not in second

    asyncio.run(run())


def test_a_stranger_gets_one_code_and_is_heard_once_approved(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play:
            text = play.config_path.read_text().replace('dmPolicy: "open", allowFrom: ["*"]', 'dmPolicy: "pairing"')
            play.write_config(text=text.replace('ownerAllowFrom: ["telegram:1"]', "ownerAllowFrom: []"))
            async with play.gateway() as gateway:
                for _ in range(5):
                    platform.say("42", "let me in, my PIN is 1234")
                await platform.until(lambda: platform.texts("42"))
                (request,) = await gateway.control.pairing_list()
                assert request["code"] in platform.texts("42")[0]
                assert "1234" not in str(play.rows("SELECT payload FROM events"))
                done = await gateway.control.pairing_approve("telegram", request["code"].lower())
                assert done["owner"] is True
                platform.say("42", "hello")
                await platform.until(lambda: "echo: hello" in platform.texts("42"))
                platform.say("43", "me too")
                await platform.until(lambda: platform.texts("43"))
                (second,) = await gateway.control.pairing_list()
                assert (await gateway.control.pairing_approve("telegram", second["code"]))["owner"] is False
            assert len(play.brain.asks) == 1
            assert play.brain.asks[0].said == ["hello"]
            keys = [row[0] for row in play.rows("SELECT key FROM sessions")]
            assert keys == ["agent:main:main"]

    asyncio.run(run())


def test_a_fourth_stranger_gets_no_code_while_three_are_pending(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play:
            text = play.config_path.read_text().replace('dmPolicy: "open", allowFrom: ["*"]', 'dmPolicy: "pairing"')
            play.write_config(text=text)
            async with play.gateway():
                for person in ("41", "42", "43", "44"):
                    platform.say(person, "hi")
                await platform.until(lambda: len(platform.bubbles) == 3)
                await platform.until(lambda: len(play.rows("SELECT 1 FROM events")) == 4)
            assert not platform.texts("44")

    asyncio.run(run())


def test_a_long_answer_is_shown_while_it_is_written_and_ends_in_the_same_message(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform(edit_interval=0.05)
        words = [f"word{number}" for number in range(40)]

        async def think(ask: Ask) -> Answer:
            return " ".join(words)

        async with stage(tmp_path, platform) as play:
            text = play.config_path.read_text().replace('streaming: { mode: "off" }', 'streaming: { mode: "partial" }')
            play.write_config(text=text)
            play.brain.think = think
            play.brain.pace = 0.04
            async with play.gateway():
                platform.say("7", "tell me a lot")
                await platform.until(lambda: platform.bubbles)
                assert "word39" not in platform.texts("7")[0]
                await platform.until(lambda: not play.rows(NOTHING_OPEN))
                await platform.until(lambda: platform.texts("7") == [" ".join(words)])
            assert len(platform.bubbles) == 1
            assert platform.bubbles[0].edits >= 2

    asyncio.run(run())


def test_a_rate_limit_delays_the_answer_and_loses_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play, play.gateway():
            platform.faults.extend([DeliveryDeferred("slow down", 0.3), DeliveryUnavailable("reset")])
            loop = asyncio.get_running_loop()
            asked = loop.time()
            platform.say("7", "one")
            platform.say("8", "two")
            await platform.until(lambda: platform.texts("7") and platform.texts("8"))
            assert loop.time() - asked >= 0.3
            assert platform.texts("7") == ["echo: one"]
            assert platform.texts("8") == ["echo: two"]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Error(401, "bad key"), "key"),
        (Error(429, "slow", {"retry-after": "3600"}), "limiting"),
        (Error(400, "maximum context length exceeded"), "/new"),
        (Error(404, "no such model"), "does not exist"),
    ],
)
def test_a_failing_model_is_told_in_plain_words_and_the_next_message_runs(
    error: Error, words: str, tmp_path: Path
) -> None:
    async def run() -> None:
        platform = Platform()

        async def think(ask: Ask) -> Answer:
            return error if "fail" in ask.last else "fine again"

        async with stage(tmp_path, platform) as play:
            play.brain.think = think
            async with play.gateway():
                platform.say("7", "fail")
                await platform.until(lambda: platform.texts("7"))
                assert words in platform.texts("7")[0]
                assert error.text not in platform.texts("7")[0]
                assert not play.rows(NOTHING_OPEN)

    asyncio.run(run())


def test_a_fallback_model_answers_and_says_that_it_did(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()

        async def think(ask: Ask) -> Answer:
            return Error(404, "gone") if ask.body["model"] == "model" else "from the second"

        async with stage(tmp_path, platform) as play:
            text = play.config_path.read_text().replace(
                'model: { primary: "fake/model" }', 'model: { primary: "fake/model", fallbacks: ["fake/second"] }'
            )
            play.write_config(text=text)
            play.brain.think = think
            async with play.gateway():
                platform.say("7", "hello")
                await platform.until(lambda: platform.texts("7"))
            assert platform.texts("7") == ["from the second\n\n(Answered by fake/second.)"]

    asyncio.run(run())


@pytest.mark.parametrize("text", ["NO_REPLY", "**NO_REPLY**", "no_reply."])
def test_silence_in_a_group_sends_nothing(text: str, tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()

        async def think(ask: Ask) -> Answer:
            return text

        async with stage(tmp_path, platform) as play:
            play.brain.think = think
            async with play.gateway():
                platform.say("-5", "psst", sender="7", kind=PeerKind.GROUP, mention=True)
                await platform.until(lambda: play.rows("SELECT 1 FROM turns WHERE state = 'answered'"))
            assert not platform.bubbles
            assert play.rows("SELECT state FROM events") == [("answered",)]

    asyncio.run(run())


def test_a_file_that_the_agent_names_is_attached(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()

        async def think(ask: Ask) -> Answer:
            if not ask.results:
                return Tools((("write", {"path": "report.txt", "content": "figures"}),))
            return "Here it is.\nMEDIA: report.txt\nMEDIA: missing.txt"

        async with stage(tmp_path, platform) as play:
            play.brain.think = think
            async with play.gateway():
                platform.say("7", "report please")
                await platform.until(lambda: len(platform.bubbles) == 2)
            assert platform.texts("7")[0].startswith("Here it is.")
            assert "could not attach missing.txt" in platform.texts("7")[0]
            sent = platform.bubbles[1].part
            assert sent.file is not None
            assert sent.file.read_text() == "figures"
            assert sent.file_name == "report.txt"

    asyncio.run(run())


def test_an_album_is_one_turn(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play, play.gateway():
            for number in range(3):
                platform.say("7", f"picture {number}" if number == 0 else "", album="g1")
            await platform.until(lambda: platform.texts("7"), 5)
            await platform.until(lambda: not play.rows(NOTHING_OPEN))
            assert len(play.brain.asks) == 1

    asyncio.run(run())


@pytest.mark.parametrize("text", ["x" * 100_000, "a\u0000b", "\u202eevil\u202c", "line\r\nline", "👩‍👩‍👧‍👦" * 500])
def test_strange_texts_are_answered_like_any_other(text: str, tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()

        async def think(ask: Ask) -> Answer:
            return f"{len(ask.last)} characters"

        async with stage(tmp_path, platform) as play:
            play.brain.think = think
            async with play.gateway():
                platform.say("7", text)
                platform.say("8", "hello")
                await platform.until(lambda: platform.texts("7") and platform.texts("8"))

    asyncio.run(run())


def test_people_cannot_reach_each_others_files_nor_the_agents_own(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()

        async def think(ask: Ask) -> Answer:
            if ask.results:
                return " || ".join(ask.results)
            name, *arguments = ask.last.split()
            if name == "write":
                return Tools((("write", {"path": arguments[0], "content": f"by {arguments[1]}"}),))
            return Tools(((name, {"path": arguments[0]} if name != "find" else {"pattern": arguments[0]}),))

        async def ask_as(person: str, text: str) -> str:
            before = len(platform.texts(person))
            platform.say(person, text)
            await platform.until(lambda: len(platform.texts(person)) > before)
            return platform.texts(person)[-1]

        async with stage(tmp_path, platform) as play:
            play.brain.think = think
            async with play.gateway():
                await ask_as(OWNER, "write MEMORY.md owner-secret")
                await ask_as("55", "write notes.txt guest55")
                assert "owner-secret" not in await ask_as("55", "read MEMORY.md")
                assert "by guest55" in await ask_as("55", "read notes.txt")
                assert "by guest55" not in await ask_as("66", "read notes.txt")
                await ask_as("66", "write AGENTS.md poison")
                assert "AGENTS.md" in await ask_as("66", "find *")
                assert "notes" not in platform.texts("66")[-1]
                await ask_as(OWNER, "read MEMORY.md")
                assert "owner-secret" in platform.texts(OWNER)[-1]
            system = str(play.brain.asks[-1].body["messages"][0])
            assert "owner-secret" in system
            assert "poison" not in system

    asyncio.run(run())
