"""The full-screen chat in a terminal of 80 by 24, against a whole gateway whose model a test holds still."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from cli.driver import Terminal, short_state_dir, tidegate
from cli.glass import Glass, glass
from harness.brain import Ask, Error, Tools
from harness.platform import Platform
from harness.stage import Stage, stage
from plane.client import RawClient, connect_params
from tidegate.gateway.app import Gateway
from tidegate.ids import new_id
from tidegate.sessions.model import SessionChange

LIMIT = 60.0
Scene = Callable[["Chat"], Coroutine[Any, Any, None]]


@dataclass
class Chat:
    """A gateway, and a terminal that shows it."""

    place: Stage
    gateway: Gateway
    glass: Glass

    async def call(self, method: str, **params: Any) -> Any:
        """Call a method as somebody else."""
        async with aiohttp.ClientSession() as http, http.ws_connect(f"http://127.0.0.1:{self.gateway.port}/") as socket:
            client = RawClient(socket)
            await client.frame()
            token = (self.place.state_dir / "gateway.token").read_text().strip()
            await client.say_connect(connect_params(auth={"token": token}, scopes=["operator.admin"]))
            answer = await client.call(method, params)
            assert answer["ok"], answer
            return answer["payload"]


@asynccontextmanager
async def chatting(folder: Path, *words: str, **size: int) -> AsyncIterator[Chat]:
    async with stage(folder) as place, place.gateway() as gateway:
        async with glass("tui", *words, state=folder, **size) as shown:
            await shown.until("● connected")
            yield Chat(place, gateway, shown)


def scene(**size: int) -> Callable[[Scene], Callable[[], None]]:
    """Let a test be a scene in a terminal of some size."""

    def wrap(test: Scene) -> Callable[[], None]:
        @functools.wraps(test)
        def run() -> None:
            async def limited(folder: Path) -> None:
                async with asyncio.timeout(LIMIT), chatting(folder, **size) as chat:
                    await test(chat)

            with short_state_dir() as folder:
                asyncio.run(limited(folder))

        del run.__wrapped__  # type: ignore[attr-defined]
        return run

    return wrap


@scene()
async def test_an_answer_is_drawn_as_it_is_written_and_esc_stops_it(chat: Chat) -> None:
    shown, brain = chat.glass, chat.place.brain

    async def long(_: Ask) -> str:
        return " ".join(f"w{number}" for number in range(400))

    brain.think, brain.pace = long, 0.02
    shown.type("tell me\r")
    await shown.until("w20 ")
    await shown.until("◐ answering")
    assert "Esc stops" in shown.text
    assert "w399" not in shown.text
    shown.type("\x1b")
    await shown.until("stopped")
    await shown.gone("◐ answering")
    assert "w20 " in shown.text
    (row,) = (await chat.call("sessions.list"))["sessions"]
    assert row["hasActiveRun"] is False


@scene()
async def test_esc_marks_the_cut_answer_and_what_waited_and_both_stay_marked(chat: Chat) -> None:
    shown, brain = chat.glass, chat.place.brain
    await chat.call("sessions.patch", key="main", queueMode="followup")

    async def long(_: Ask) -> str:
        return " ".join(f"w{number}" for number in range(400))

    brain.think, brain.pace = long, 0.02
    shown.type("go on\r")
    await shown.until("w20 ")
    shown.type("second\r")
    await shown.until("(waits)")
    shown.type("\x1b")
    await shown.until("(not answered: the stop set it aside)")
    fate = "(not answered: the stop set it aside)"
    rows = [row.split("│")[-1].strip() for row in shown.lines]
    assert [row for row in rows if row in ("stopped", "› second", fate)] == ["stopped", "› second", fate]

    async def fails(_: Ask) -> Error:
        return Error(400, "out to lunch")

    brain.think = fails
    shown.type("third\r")
    await shown.until("✗")
    shown.type("\x14")
    await shown.gone("› third")
    shown.type("\x0e")
    await shown.until("› third")
    assert "✗" in shown.text
    assert "stopped" in shown.text


@scene()
async def test_ctrl_c_stops_first_and_leaves_only_when_pressed_twice(chat: Chat) -> None:
    shown, brain = chat.glass, chat.place.brain
    brain.hold("wait")
    shown.type("wait\r")
    await shown.until("◐ answering")
    shown.type("\x03")
    await shown.until("stopped")
    shown.type("draft")
    await shown.until("› draft")
    shown.type("\x03")
    await shown.gone("› draft")
    shown.type("\x03")
    await shown.until("Ctrl-C once more leaves")
    assert shown.process.poll() is None
    shown.type("\x03")
    assert await shown.until_end() == 0


@scene()
async def test_a_tool_is_a_card_with_its_arguments_its_state_and_how_long_it_took(chat: Chat) -> None:
    shown, brain = chat.glass, chat.place.brain

    async def looks(ask: Ask) -> str | Tools:
        if not ask.results:
            return Tools((("ls", {"path": "."}), ("read", {"path": "nothing.txt"})), "Let me look.")
        return "That is all."

    brain.think = looks
    shown.type("look\r")
    await shown.until("That is all.")
    assert re.search(r"✓ ls \. \d\.\d s", shown.text)
    assert re.search(r"✗ read nothing\.txt failed \d\.\d s", shown.text)
    before, card, after = (shown.text.index(word) for word in ("Let me look.", "✓ ls", "That is all."))
    assert before < card < after


@scene()
async def test_what_waits_behind_a_running_turn_is_shown(chat: Chat) -> None:
    shown, gate = chat.glass, chat.place.brain.hold("first")
    shown.type("first\r")
    await shown.until("◐ answering")
    shown.type("second\r")
    await shown.until("1 waiting")
    await shown.until("(waits)")
    gate.set()
    await shown.until("echo: second")
    await shown.gone("waiting")
    assert "(waits)" not in shown.text


@scene()
async def test_sessions_are_listed_opened_and_marked(chat: Chat) -> None:
    shown, gate = chat.glass, chat.place.brain.hold("wait")
    shown.type("in main\r")
    await shown.until("echo: in main")
    await chat.call("chat.send", sessionKey="notes", message="wait here", idempotencyKey="k1")
    await shown.until(" ● notes")
    assert "wait here" not in shown.text
    gate.set()
    await shown.until(lambda: any(row.startswith(" ● notes") for row in shown.lines))
    shown.type("\x1b\x1b[B")
    await shown.until("echo: wait here")
    assert "in main" not in shown.text
    await shown.until(lambda: any(row.startswith("▸  notes") for row in shown.lines))
    shown.type("\x14")
    await shown.gone("echo: wait here")
    shown.type("a new subject\r")
    await shown.until("echo: a new subject")
    await shown.until(lambda: any(row.startswith("▸  a new subject") for row in shown.lines))
    shown.type("\x10\x10")
    await shown.until(lambda: "echo: a new subject" not in shown.text and "echo:" in shown.text)
    assert len((await chat.call("sessions.list"))["sessions"]) == 3


@scene()
async def test_sessions_of_api_requests_are_listed_with_a_key(chat: Chat) -> None:
    shown = chat.glass
    for name in ("one", "two"):
        change = SessionChange(settings={"label": f"request {name}"})
        await chat.gateway.store.change_session(f"agent:main:openai:{new_id()}", change, "main")
    await chat.call("sessions.patch", key="notes", label="my notes")
    await shown.until("my notes")
    assert "request" not in shown.text
    shown.type("\x1bOQ")
    await shown.until("request one")
    await shown.until("request two")
    shown.type("\x1bOQ")
    await shown.gone("request")
    assert "my notes" in shown.text


@scene()
async def test_a_long_history_is_scrolled_and_older_pages_are_loaded(chat: Chat) -> None:
    shown = chat.glass
    shown.type("hello\r")
    await shown.until("echo: hello")
    for number in range(150):
        await chat.call("chat.inject", sessionKey="main", message=f"note {number}")
    await shown.until("note 149")
    shown.type("\x0e")
    for _ in range(60):
        if "note 3\n" in shown.text:
            break
        shown.type("\x1b[5~")
        await asyncio.sleep(0.03)
    await shown.until("note 3\n")
    await shown.until("rows below")
    shown.type("\x1b[1;5F")
    await shown.until("note 149")
    assert "rows below" not in shown.text


@scene()
async def test_several_lines_are_typed_and_pasted_and_sent_as_one_message(chat: Chat) -> None:
    shown = chat.glass
    shown.type("one\x1b\rtwo\ntail")
    await shown.until("tail")
    shown.type("\x1b[200~ pasted\nlines\x1b[201~\r")
    await shown.until(lambda: shown.lines[-1] == "›" and "echo: one" in shown.text)
    assert chat.place.brain.asks[-1].last == "one\ntwo\ntail pasted\nlines"


@scene()
async def test_any_size_is_drawn_without_a_row_too_long(chat: Chat) -> None:
    shown = chat.glass
    shown.type("漢字と emoji 🎉 and a very long line " + "x" * 90 + "\r")
    await shown.until("echo:")
    for columns, rows in ((40, 12), (120, 40), (69, 24), (20, 6), (80, 24)):
        shown.resize(columns, rows)
        await shown.until(functools.partial(is_whole, shown, columns, rows))
    await shown.until("echo: 漢")


def is_whole(shown: Glass, columns: int, rows: int) -> bool:
    """Tell whether the screen is drawn for its size: a row too long would have pushed the others out of place."""
    lines = shown.screen.display
    if len(lines) != rows or not lines[0].startswith(" Tidegate") or not lines[-1].startswith("›"):
        return False
    edges = {line.find("│") for line in lines[1 : rows - 2]}
    return edges == ({24} if columns >= 70 else {-1})


@scene()
async def test_the_help_is_laid_over_the_chat(chat: Chat) -> None:
    shown = chat.glass
    shown.type("\x1bOP")
    await shown.until("╭")
    assert "stop the running answer" in shown.text
    shown.type("\x1b")
    await shown.gone("╭")


@scene()
async def test_text_of_others_cannot_command_the_terminal(chat: Chat) -> None:
    shown, brain = chat.glass, chat.place.brain

    async def nasty(_: Ask) -> str:
        return "before\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b31m\x07 after"

    brain.think = nasty
    await chat.call("sessions.patch", key="evil", label="\x1b[31mlabel\x1b]0;x\x07")
    shown.type("go\r")
    await shown.until("after")
    assert "before" in shown.text
    for command in (b"\x1b]0;owned", b"\x1b[2J\x1b[31mred", b"\x9b31m", b"\x1b]0;x"):
        assert command not in shown.raw
    assert shown.screen.title == ""


def test_who_comes_in_the_middle_of_a_turn_sees_what_was_said_so_far_once() -> None:
    async def run(folder: Path) -> None:
        gate = asyncio.Event()

        async def looks(ask: Ask) -> str | Tools:
            if not ask.results:
                return Tools((("ls", {"path": "."}),), "Let me look.")
            await gate.wait()
            return "That is all."

        async with asyncio.timeout(LIMIT), stage(folder) as place, place.gateway() as gateway:
            place.brain.think = looks
            somebody = Chat(place, gateway, None)  # type: ignore[arg-type]
            await somebody.call("chat.send", sessionKey="main", message="look", idempotencyKey="k")
            while len(place.brain.asks) < 2:
                await asyncio.sleep(0.01)
            async with glass("tui", state=folder) as shown:
                await shown.until("◐ answering")
                await shown.until("✓ ls .")
                gate.set()
                await shown.until("That is all.")
                await shown.gone("◐ answering")
                assert [shown.text.count(word) for word in ("› look", "Let me look.", "That is all.")] == [1, 1, 1]

    with short_state_dir() as folder:
        asyncio.run(run(folder))


def test_a_break_is_shown_and_what_was_typed_meanwhile_is_sent_once() -> None:
    async def run(folder: Path) -> None:
        async with asyncio.timeout(LIMIT), stage(folder) as place:
            first = place.gateway()
            await first.__aenter__()
            async with glass("tui", state=folder) as shown:
                await shown.until("● connected")
                await first.__aexit__(None, None, None)
                await shown.until("○ away, trying again")
                await shown.until("no gateway runs here")
                shown.type("said meanwhile\r")
                await shown.until("(not sent yet)")
                async with place.gateway():
                    await shown.until("● connected")
                    await shown.until("echo: said meanwhile")
                    assert "(not sent yet)" not in shown.text
                    assert place.rows("SELECT count(*) FROM turns") == [(1,)]
                    shown.type("/quit\r")
                    assert await shown.until_end() == 0

    with short_state_dir() as folder:
        asyncio.run(run(folder))


def test_a_device_that_waits_sees_so_and_goes_on_once_it_is_let_in() -> None:
    async def run(folder: Path) -> None:
        config = "gateway: { nodes: { pairing: { autoApproveLocal: false } } }"
        async with asyncio.timeout(LIMIT), stage(folder, Platform(), more=config) as place, place.gateway() as gateway:
            token = (folder / "gateway.token").read_text().strip()
            url = f"ws://127.0.0.1:{gateway.port}"
            env = {"TIDEGATE_GATEWAY_TOKEN": token}
            async with glass("tui", "--url", url, "--session", "notes", state=folder / "me", env=env) as shown:
                await shown.until("○ waits to be let in")
                await shown.until("devices approve")
                chat = Chat(place, gateway, shown)
                (waiting,) = (await chat.call("device.pair.list"))["pending"]
                assert waiting["requestId"] in shown.text.replace("\n", "")
                await chat.call("device.pair.approve", requestId=waiting["requestId"])
                await shown.until("● connected")
                shown.type("hello\r")
                await shown.until("echo: hello")
                device = waiting["deviceId"]
                await chat.call("device.token.revoke", deviceId=device, role="operator")
                await shown.until("this device asks to come in again")
                assert "echo: hello" in shown.text
                (waiting,) = (await chat.call("device.pair.list"))["pending"]
                await chat.call("device.pair.approve", requestId=waiting["requestId"])
                await shown.until("● connected")
                shown.type("/quit\r")
                assert await shown.until_end() == 0
            async with glass("tui", "--url", url, state=folder / "me") as shown:
                # On the token of its own, and without the gateway's.
                await shown.until("● connected")
                await chat.call("device.token.revoke", deviceId=device, role="operator")
                await shown.until("it was revoked or replaced")
                assert await shown.until_end() == 4

    with short_state_dir() as folder:
        asyncio.run(run(folder))


def test_without_a_terminal_or_a_gateway_it_says_so_in_one_line() -> None:
    with short_state_dir() as folder:
        piped = tidegate("tui", state=folder)
        assert (piped.returncode, piped.stderr.count("\n")) == (1, 1)
        assert "needs a terminal" in piped.stderr
        with Terminal("tui", state=folder) as terminal:
            terminal.wait_for("no gateway runs here; start one with `tidegate up`")
            assert terminal.wait_for_end() == 4
