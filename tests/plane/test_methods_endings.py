"""A turn without a whole answer says so for as long as its conversation can be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fakes.event_loop import on_loop
from harness.brain import Answer, Ask, Error, Tools
from plane.talking import KEY, talking


def ends(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return who spoke, and why it ended."""
    return [(message["role"], message.get("stopReason", "")) for message in messages]


@on_loop
async def test_a_failure_stands_in_the_transcript_with_the_words_that_the_person_read(tmp_path: Path) -> None:
    async def think(ask: Ask) -> Answer:
        return Error(401, "bad key") if ask.last == "fail" else f"echo: {ask.last}"

    async with talking(tmp_path) as talk:
        talk.stage.brain.think = think
        await talk.say("fail", "run-1")
        told = (await talk.until("run-1", "error"))[-1]["errorMessage"]
        await talk.say("again", "run-2")
        await talk.until("run-2", "final")
    async with talking(tmp_path) as talk:
        history = await talk.ok("chat.history", sessionKey=KEY)
        said = history["messages"]
        assert ends(said) == [("user", ""), ("assistant", "error"), ("user", ""), ("assistant", "stop")]
        assert (said[1]["errorMessage"], said[1]["content"]) == (told, [{"type": "text", "text": told}])
        assert said[1]["__openclaw"]["runId"] == said[0]["__openclaw"]["runId"]
        assert len({message["__openclaw"]["id"] for message in said}) == 4
        assert (await talk.ok("sessions.get", key=KEY))["messages"] == said
        (preview,) = (await talk.ok("sessions.preview", keys=[KEY]))["previews"]
        assert [item["text"] for item in preview["items"]] == ["fail", told, "again", "echo: again"]
        shown = (await talk.ok("tidegate.sessions.show", key=KEY))["messages"]
        assert [(row["ended"], row["told"]) for row in shown] == [("failed", told), ("", ""), ("", "")]
        # A page is counted by what is stored.
        page = await talk.ok("chat.history", sessionKey=KEY, limit=2)
        assert (ends(page["messages"]), page["nextOffset"]) == ([("user", ""), ("assistant", "stop")], 2)
        older = await talk.ok("chat.history", sessionKey=KEY, limit=2, offset=2)
        assert (ends(older["messages"]), older["hasMore"]) == ([("user", ""), ("assistant", "error")], False)


@on_loop
async def test_a_stopped_answer_is_marked_where_it_was_cut(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:

        async def looks(ask: Ask) -> Answer:
            return "word " * 400 if ask.results else Tools((("ls", {"path": "."}),), "Let me look.")

        talk.stage.brain.think, talk.stage.brain.pace = looks, 0.02
        await talk.say("look", "run-1")
        events: list[dict[str, Any]] = []
        while not any("word word" in str(event.get("message")) for event in events):
            events += await talk.until("run-1", "delta")
        await talk.ok("chat.abort", sessionKey=KEY)
        said = (await talk.ok("chat.history", sessionKey=KEY))["messages"]
        assert ends(said)[2:] == [("toolResult", ""), ("assistant", "aborted")]
        assert said[-1]["content"][0]["text"].startswith("word word")
        assert said[-1]["openclawAbort"]["aborted"] is True
        shown = (await talk.ok("tidegate.sessions.show", key=KEY))["messages"]
        assert [row["ended"] for row in shown] == ["", "", "", "stopped"]
        # A note that comes later is no part of it.
        await talk.ok("chat.inject", sessionKey=KEY, message="a note")
        said = (await talk.ok("chat.history", sessionKey=KEY))["messages"]
        assert ends(said)[3:] == [("assistant", "aborted"), ("assistant", "stop")]


@on_loop
async def test_a_turn_that_was_stopped_before_it_said_anything_is_marked_too(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        talk.stage.brain.hold("wait")
        await talk.say("wait", "run-1")
        await talk.until("run-1", "status")
        while not talk.stage.brain.asks:
            await talk.ok("health")
        await talk.ok("chat.abort", sessionKey=KEY)
        await talk.ok("chat.inject", sessionKey=KEY, message="a note")
        said = (await talk.ok("chat.history", sessionKey=KEY))["messages"]
        assert ends(said) == [("user", ""), ("assistant", "aborted"), ("assistant", "stop")]
        assert (said[1]["content"], said[1]["errorMessage"]) == ([], "This operation was aborted")
