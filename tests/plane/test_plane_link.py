"""The chat's wire over the control plane, against a whole gateway whose model a test holds still."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fakes.event_loop import on_loop
from harness.brain import Error
from harness.stage import Stage, stage
from tidegate.gateway.app import Gateway
from tidegate.gateway.cli.plane_link import PlaneLink
from tidegate.gateway.client.address import read_address
from tidegate.gateway.client.dial import Door, Secret, who_here
from tidegate.gateway.client.identity import Identity

MAIN = "agent:main:main"


class Talk:
    """A chat that is read in the background.

    Attributes:
        frames: Everything that came.
    """

    def __init__(self, place: Stage, gateway: Gateway) -> None:
        self.place = place
        self.link = PlaneLink(self.door(gateway))
        self.frames: list[dict[str, Any]] = []

    def door(self, gateway: Gateway) -> Door:
        address = read_address(f"ws://127.0.0.1:{gateway.port}")
        token = (self.place.state_dir / "gateway.token").read_text().strip()
        return Door(address, identity=Identity(self.place.state_dir / "me"), secret=Secret(token))

    async def read(self) -> None:
        async for frame in self.link.frames():
            self.frames.append(frame)

    def replies(self) -> list[str]:
        return [frame["text"] for frame in self.frames if frame["type"] == "reply"]

    def facts(self) -> list[str]:
        return [frame["name"] for frame in self.frames if frame["type"] == "fact"]

    async def until(self, kind: str, count: int = 1) -> None:
        while sum(kind in (frame["type"], frame.get("name")) for frame in self.frames) < count:
            await asyncio.sleep(0.01)


@asynccontextmanager
async def reading(talk: Talk) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(talk.read())
        await talk.until("hello")
        try:
            yield
        finally:
            task.cancel()


@on_loop
async def test_an_answer_streams_and_is_said_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, place.gateway() as gateway:
        talk = Talk(place, gateway)
        async with reading(talk):
            assert await talk.link.send("hello") == ""
            await talk.until("turn.ended")
    assert talk.replies() == ["echo: hello"]
    names = talk.facts()
    assert names.index("turn.started") < names.index("run.text") < names.index("turn.ended")
    assert talk.link.unconfirmed == 0
    # What this machine calls itself names it in the list of devices, and nobody in a prompt.
    (device,) = place.rows("SELECT about FROM devices")
    assert who_here() in device[0]
    assert who_here() not in json.dumps(place.brain.asks[0].body)


@on_loop
async def test_a_run_that_a_crash_of_the_gateway_cut_off_is_answered_once_when_it_is_back(tmp_path: Path) -> None:
    async with stage(tmp_path) as place:
        gate = place.brain.hold("hello")
        first = place.gateway(drain=False)
        gateway = await first.__aenter__()
        talk = Talk(place, gateway)
        async with reading(talk):
            await talk.link.send("hello")
            await talk.until("turn.started")
            await first.__aexit__(None, None, None)
            await talk.until("lost")
            gate.set()
            async with place.gateway() as again:
                talk.link.door = talk.door(again)
                await talk.until("hello", 2)
                await talk.until("turn.ended")
    assert talk.replies() == ["echo: hello"]


@on_loop
async def test_an_answer_that_was_given_while_the_line_was_broken_is_fetched(tmp_path: Path) -> None:
    async with stage(tmp_path) as place:
        gate = place.brain.hold("hello")
        first = place.gateway()
        gateway = await first.__aenter__()
        talk = Talk(place, gateway)
        async with reading(talk):
            await talk.link.send("hello")
            await talk.until("turn.started")
            # The line breaks and cannot be made again before the turn and the whole gateway have ended.
            talk.link.door = Door(read_address("ws://127.0.0.1:1"), identity=Identity(tmp_path / "me"))
            for connection in gateway.plane.hub.connections:
                connection.close(1011, "test")
            await talk.until("lost")
            gate.set()
            while not any(state == "answered" for (state,) in place.rows("SELECT state FROM turns")):
                await asyncio.sleep(0.01)
            talk.link.door = talk.door(gateway)
            await talk.until("turn.ended")
            assert talk.replies() == ["echo: hello"]
            await first.__aexit__(None, None, None)
    assert talk.replies() == ["echo: hello"]


@on_loop
async def test_an_answer_from_before_a_restart_is_found_in_the_transcript(tmp_path: Path) -> None:
    async with stage(tmp_path) as place:
        gate = place.brain.hold("hello")
        first = place.gateway()
        gateway = await first.__aenter__()
        talk = Talk(place, gateway)
        async with reading(talk):
            await talk.link.send("hello")
            await talk.until("turn.started")
            talk.link.door = Door(read_address("ws://127.0.0.1:1"), identity=Identity(tmp_path / "me"))
            for connection in gateway.plane.hub.connections:
                connection.close(1011, "test")
            await talk.until("lost")
            gate.set()
            await first.__aexit__(None, None, None)
            async with place.gateway() as again:
                talk.link.door = talk.door(again)
                await talk.until("turn.ended")
                await talk.link.send("more")
                await talk.until("turn.ended", 2)
    assert talk.replies() == ["echo: hello", "echo: more"]


@on_loop
async def test_a_turn_that_fails_and_one_that_is_stopped_are_told(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, place.gateway() as gateway:
        talk = Talk(place, gateway)

        async def fails(_: object) -> Error:
            return Error(401, "no such key")

        async with reading(talk):
            echo, place.brain.think = place.brain.think, fails
            await talk.link.send("fail")
            await talk.until("turn.failed")
            await talk.until("state")
            place.brain.think = echo
            place.brain.hold("wait")
            await talk.link.send("wait")
            await talk.until("turn.started", 2)
            assert await talk.link.send("/stop") == ""
            await talk.until("turn.cut_off")
            await talk.until("state", 3)
    assert next(frame["busy"] for frame in talk.frames if frame["type"] == "state") is False
    assert talk.frames[-1] == {"type": "state", "busy": False}


@on_loop
async def test_what_somebody_else_says_in_the_session_is_shown(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, place.gateway() as gateway:
        one, other = Talk(place, gateway), Talk(place, gateway)
        async with reading(one), reading(other):
            await one.link.send("hello")
            await other.until("reply")
            await one.until("reply")
    assert [frame["text"] for frame in other.frames if frame["type"] == "typed"] == ["hello"]
    assert [frame for frame in one.frames if frame["type"] == "typed"] == []
