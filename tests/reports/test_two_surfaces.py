"""Bug reports about products of this kind, as tests: one session that is talked to from a chat and by a client."""

from __future__ import annotations

import asyncio
from pathlib import Path

from harness.platform import Platform
from plane.talking import talking


def test_R016_an_answer_goes_only_to_the_surface_that_asked(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        more = 'session: { dmScope: "per-channel-peer" },'
        async with talking(tmp_path, more, platform) as talk:
            platform.say("7", "from the phone", sender="1000")
            await platform.until(lambda: platform.texts("7") == ["echo: from the phone"])
            (session,) = (await talk.ok("sessions.list"))["sessions"]
            await talk.say("from the browser", "run-1", session["key"])
            events = await talk.until("run-1", "final", "error")
            assert events[-1]["message"]["content"][0]["text"] == "echo: from the browser"
            platform.say("7", "again from the phone", sender="1000")
            await platform.until(lambda: len(platform.texts("7")) > 1)
            assert platform.texts("7") == ["echo: from the phone", "echo: again from the phone"]
            assert [event for event in events if event["event"] == "chat" and event["state"] == "final"] == [events[-1]]
            assert "from the browser" in str(talk.stage.brain.asks[-1].body["messages"]), "it is one conversation"

    asyncio.run(run())
