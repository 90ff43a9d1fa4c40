"""The local door over a real Unix socket, with a client that can be as slow as it likes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from cli.driver import short_state_dir
from tidegate.adapters.base import Outbound, TextPart
from tidegate.adapters.terminal.adapter import ADDRESS, TerminalHub
from tidegate.clock import SystemClock
from tidegate.config.load import Loaded, load_config
from tidegate.errors import DeliveryUnavailable
from tidegate.faults import Faults
from tidegate.gateway.bus import EventBus, Fact
from tidegate.gateway.connections import Connections
from tidegate.gateway.control import Control
from tidegate.gateway.http.local import MAX_OUTGOING, local_app
from tidegate.gateway.http.server import serve_unix
from tidegate.gateway.people import People
from tidegate.gateway.plane.contract import MethodTable
from tidegate.gateway.plane.methods.own import control_methods
from tidegate.gateway.rendering import Renderers
from tidegate.sessions.sqlite.store import SqliteStore
from tidegate.sessions.wakeups import DeafWakeups


class Door:
    """Just what the local door needs of a gateway, with a real store."""

    def __init__(self, store: SqliteStore, loaded: Loaded) -> None:
        self.clock, self.hub, self.bus, self.loaded = SystemClock(), TerminalHub(), EventBus(), loaded
        self.control = Control(store, self.clock, DeafWakeups(), People(store), Connections(), Renderers())


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Door, aiohttp.ClientSession]]:
    store = SqliteStore(folder / "tidegate.db", SystemClock(), Faults())
    await store.open()
    door = Door(store, load_config(folder / "absent.json", environ={"HOME": str(folder)}, state_dir=folder))
    try:
        async with serve_unix(local_app(door, MethodTable(control_methods(door.control))), folder / "gateway.sock"):
            connector = aiohttp.UnixConnector(path=str(folder / "gateway.sock"))
            async with aiohttp.ClientSession(connector=connector) as http:
                yield door, http
    finally:
        await store.close()


def part(token: str, text: str) -> Outbound:
    return Outbound(ADDRESS, token, TextPart(text, text))


def run(scenario: object) -> None:
    with short_state_dir() as folder:
        asyncio.run(asyncio.wait_for(scenario(folder), 20))  # type: ignore[operator]


def test_a_client_is_told_which_session_it_speaks_into():
    async def scenario(folder: Path) -> None:
        async with opened(folder) as (_, http), http.ws_connect("http://x/chat") as socket:
            assert (await socket.receive_json())["session"] == "agent:main:main"

    run(scenario)


def test_a_state_comes_after_every_reply_before_it():
    async def scenario(folder: Path) -> None:
        async with opened(folder) as (door, http), http.ws_connect("http://x/chat") as socket:
            await socket.receive_json()
            for number in range(20):
                door.hub.show(part(str(number), "text"))
            await socket.send_json({"ask": "state"})
            kinds = [(await socket.receive_json())["type"] for _ in range(21)]
            assert kinds == ["reply"] * 20 + ["state"]

    run(scenario)


@pytest.mark.parametrize("sent", ["[]", "{}", "no json", "7", '{"id": 1}'])
def test_nonsense_is_answered_and_the_line_stays_open(sent: str):
    async def scenario(folder: Path) -> None:
        async with opened(folder) as (_, http), http.ws_connect("http://x/chat") as socket:
            await socket.receive_json()
            await socket.send_str(sent)
            assert (await socket.receive_json())["type"] == "error"
            await socket.send_json({"ask": "state"})
            assert (await socket.receive_json()) == {"type": "state", "busy": False}

    run(scenario)


def test_facts_give_way_to_replies_when_a_client_is_slow():
    async def scenario(folder: Path) -> None:
        async with opened(folder) as (door, http), http.ws_connect("http://x/chat") as socket:
            await socket.receive_json()
            for number in range(3 * MAX_OUTGOING):
                door.bus.publish(Fact("tool.started", "agent:main:main", {"lane": str(ADDRESS), "tool": str(number)}))
            door.hub.show(part("1", "the answer"))
            while (frame := await socket.receive_json())["type"] != "reply":
                assert frame["type"] == "fact"
            assert frame["text"] == "the answer"

    run(scenario)


def test_a_reply_that_a_client_cannot_take_goes_back_to_the_outbox_and_the_client_is_cut_off():
    async def scenario(folder: Path) -> None:
        async with opened(folder) as (door, http), http.ws_connect("http://x/chat", max_msg_size=0) as socket:
            await socket.receive_json()
            for number in range(MAX_OUTGOING):
                door.hub.show(part(str(number), "x" * 1000))
            with pytest.raises(DeliveryUnavailable):
                door.hub.show(part("one too many", "text"))
            received = [message.json() async for message in socket if message.type is aiohttp.WSMsgType.TEXT]
            assert "one too many" not in [frame["token"] for frame in received]

    run(scenario)


def test_unknown_methods_and_wrong_arguments_are_refused_in_words():
    async def scenario(folder: Path) -> None:
        async with opened(folder) as (_, http):
            async with http.post("http://x/rpc/nothing") as answer:
                assert (answer.status, await answer.json()) == (400, {"ok": False, "error": "unknown method: nothing"})
            async with http.post("http://x/rpc/tidegate.sessions.show", json={"wrong": 1}) as answer:
                assert answer.status == 400
                assert "tidegate.sessions.show" in (await answer.json())["error"]
            async with http.post("http://x/rpc/tidegate.status", data=b"[]") as answer:
                assert (await answer.json())["error"] == "arguments are a JSON object"

    run(scenario)


def test_pieces_of_an_answer_that_come_quickly_are_joined_and_none_is_lost():
    async def scenario(folder: Path) -> None:
        async with opened(folder) as (door, http), http.ws_connect("http://x/chat") as socket:
            await socket.receive_json()
            for number in range(3 * MAX_OUTGOING):
                data = {"lane": str(ADDRESS), "run": "r", "text": f"{number} "}
                door.bus.publish(Fact("run.text", "agent:main:main", data))
            door.bus.publish(Fact("turn.ended", "agent:main:main", {"lane": str(ADDRESS), "run": "r"}))
            text, frames = "", 0
            while (frame := await socket.receive_json())["name"] == "run.text":
                text, frames = text + frame["data"]["text"], frames + 1
            assert text == "".join(f"{number} " for number in range(3 * MAX_OUTGOING))
            assert frames < 10

    run(scenario)


def test_turns_that_answer_elsewhere_are_not_told_but_the_configuration_is():
    async def scenario(folder: Path) -> None:
        async with opened(folder) as (door, http), http.ws_connect("http://x/chat") as socket:
            await socket.receive_json()
            door.bus.publish(Fact("run.text", "agent:main:main", {"lane": "telegram/default/7", "text": "x"}))
            door.bus.publish(Fact("turn.ended", "agent:main:main", {"lane": "telegram/default/7"}))
            door.bus.publish(Fact("config.broken", data={"notes": ["why"]}))
            assert (await socket.receive_json())["name"] == "config.broken"

    run(scenario)


def test_what_is_typed_in_one_terminal_is_told_to_the_others_only():
    async def scenario(folder: Path) -> None:
        async with (
            opened(folder) as (door, http),
            http.ws_connect("http://x/chat") as one,
            http.ws_connect("http://x/chat") as two,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(_store_what_comes(door))
            await one.receive_json()
            await two.receive_json()
            await one.send_json({"id": "m1", "text": "hello"})
            assert await two.receive_json() == {"type": "typed", "id": "m1", "text": "hello"}
            assert await one.receive_json() == {"type": "accepted", "id": "m1"}
            await one.send_json({"ask": "state"})
            assert (await one.receive_json())["type"] == "state"

    run(scenario)


async def _store_what_comes(door: Door) -> None:
    for _, stored in await door.hub.next_batch():
        stored.set_result(None)
