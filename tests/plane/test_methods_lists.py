"""The list of sessions, without those that programs leave behind."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from fakes.event_loop import on_loop
from plane.talking import KEY, talking
from tidegate.gateway.http.openai_api import CHAT, RESPONSES, lone_keys
from tidegate.gateway.plane.methods.rows import is_of_request
from tidegate.ids import new_id
from tidegate.sessions.model import SessionChange


@on_loop
async def test_sessions_of_single_requests_are_listed_as_ever_and_left_out_when_asked(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        await talk.say("hello", "r")
        await talk.until("r", "final")
        store, patterns = talk.gateway.store, [*lone_keys(talk.gateway.loaded, CHAT)]
        patterns += lone_keys(talk.gateway.loaded, RESPONSES)
        keys = [f"{pattern.rpartition(':')[0]}:{new_id()}" for pattern in patterns for _ in range(2)]
        assert all(any(fnmatchcase(key, pattern) for pattern in patterns) for key in keys)
        assert all(map(is_of_request, keys))
        kept = [KEY, "agent:main:openai-user:ann", "agent:main:openai:notes"]
        assert not any(map(is_of_request, kept))
        for key in [*keys, *kept[1:]]:
            await store.change_session(key, SessionChange(settings={"label": "x"}), "main")
        listed = await talk.ok("sessions.list")
        assert {row["key"] for row in listed["sessions"]} == {*keys, *kept}
        assert {row["key"] for row in listed["sessions"] if row.get("viaApi")} == set(keys)
        assert "apiCount" not in listed
        listed = await talk.ok("sessions.list", excludeApi=True)
        assert {row["key"] for row in listed["sessions"]} == set(kept)
        assert (listed["apiCount"], listed["totalCount"]) == (4, 3)
        subscribed = await talk.ok("sessions.subscribe", excludeApi=True)
        assert subscribed["list"]["apiCount"] == 4
