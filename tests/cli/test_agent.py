"""`tidegate agent` in a terminal, against a whole gateway whose model a test holds still."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from cli.driver import short_state_dir, tidegate
from cli.glass import glass
from harness.brain import Ask, Error, Tools
from harness.stage import Stage, stage

LIMIT = 60.0
Scene = Callable[[Stage], Coroutine[Any, Any, None]]


def play(scene: Scene) -> None:
    async def limited(folder: Path) -> None:
        async with asyncio.timeout(LIMIT), stage(folder) as place:
            await scene(place)

    with short_state_dir() as folder:
        asyncio.run(limited(folder))


async def run(place: Stage, *words: str) -> Any:
    return await asyncio.to_thread(tidegate, "agent", *words, state=place.state_dir)


def test_an_answer_is_printed_as_it_is_written_with_the_tools_between() -> None:
    async def scene(place: Stage) -> None:
        async def think(ask: Ask) -> str | Tools:
            if not ask.results:
                return Tools((("ls", {"path": "."}), ("read", {"path": "none"})), "Let me look.")
            return "It is\x1b[2J all there."

        place.brain.think = think
        async with place.gateway(), glass("agent", "--message", "look", state=place.state_dir) as shown:
            assert await shown.until_end() == 0
            await shown.until("all there.")
            rows = [row for row in shown.lines if row]
        assert rows[:4] == ["Let me look.", "  ⚙ ls .", "  ⚙ read none", "  ⚙ read failed"]
        assert shown.text.count("all there.") == 1
        assert b"\x1b[2J" not in shown.raw

    play(scene)


def test_ctrl_c_ends_the_turn_too() -> None:
    async def scene(place: Stage) -> None:
        place.brain.hold("wait")
        async with place.gateway(), glass("agent", "--message", "wait", state=place.state_dir) as shown:
            await shown.until(lambda: bool(place.brain.asks))
            shown.type("\x03")
            assert await shown.until_end() == 130
            # What a shell asks next begins in a line of its own.
            await shown.until(lambda: shown.raw.endswith(b"\r\n"))
            await shown.until(lambda: ("stopped",) in place.rows("SELECT state FROM turns"))

    play(scene)


def test_a_turn_that_takes_too_long_is_ended_with_code_three() -> None:
    async def scene(place: Stage) -> None:
        place.brain.hold("wait")
        async with place.gateway():
            done = await run(place, "--message", "wait", "--timeout", "1")
        assert (done.returncode, "no complete answer within 1 s" in done.stderr) == (3, True)

    play(scene)


def test_a_turn_that_fails_says_why() -> None:
    async def scene(place: Stage) -> None:
        async def think(_: Ask) -> Error:
            return Error(401, "no such key")

        place.brain.think = think
        async with place.gateway():
            done = await run(place, "--message", "hello")
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1

    play(scene)


def test_a_turn_goes_on_over_a_restart_of_the_gateway_and_runs_once() -> None:
    async def scene(place: Stage) -> None:
        gate = place.brain.hold("hello")
        first = place.gateway(drain=False)
        await first.__aenter__()
        async with glass("agent", "--message", "hello", state=place.state_dir) as shown:
            await shown.until(lambda: bool(place.brain.asks))
            await first.__aexit__(None, None, None)
            await shown.until("trying again")
            gate.set()
            async with place.gateway():
                assert await shown.until_end() == 0
                await shown.until("echo: hello")
        assert shown.text.count("echo: hello") == 1
        assert place.rows("SELECT count(*) FROM events") == [(1,)]

    play(scene)


@pytest.mark.parametrize("words", [("--message", "  "), ("--message", "x", "--session", "agent:none:x")])
def test_what_cannot_be_said_is_refused(words: tuple[str, ...]) -> None:
    async def scene(place: Stage) -> None:
        async with place.gateway():
            done = await run(place, *words)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)

    play(scene)


def test_standard_input_can_be_the_message_and_json_the_answer() -> None:
    async def scene(place: Stage) -> None:
        async with place.gateway():
            done = await asyncio.to_thread(
                tidegate, "agent", "--message", "-", "--json", state=place.state_dir, stdin="piped"
            )
        assert json.loads(done.stdout)["result"]["payloads"][0]["text"] == "echo: piped"

    play(scene)
