"""What a client asked to change is changed, also when the client went away meanwhile; what it waited for ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.event_loop import on_loop
from plane.client import ALL, Key, Plane, RawClient, plane
from plane.test_nodes import field
from tidegate.clock import SystemClock
from tidegate.gateway.plane.connection import Connection
from tidegate.gateway.plane.contract import Call, Method, NoParams, Scope, Waiting
from tidegate.gateway.plane.lasting import Lasting
from tidegate.sessions.devices import Device
from tidegate.sessions.memory.store import MemoryStore


class GatedStore(MemoryStore):
    """A store that can be made to answer late, after it has written."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.gate = asyncio.Event()
        self.gate.set()
        self.written = asyncio.Event()

    def hold(self) -> None:
        """Answer nothing more until the gate is open."""
        self.gate.clear()
        self.written.clear()

    async def _pass(self) -> None:
        self.written.set()
        await self.gate.wait()

    async def change_device(self, device: str, change: Callable[[Device | None], Device | None]) -> Device | None:
        changed = await super().change_device(device, change)
        await self._pass()
        return changed

    async def claim_key(self, caller: str, method: str, key: str, response: str) -> str | None:
        claimed = await super().claim_key(caller, method, key, response)
        await self._pass()
        return claimed


async def leave(running: Plane, client: RawClient) -> None:
    """Close a client's socket, and wait until the server has noticed."""
    gone = asyncio.Event()

    def left(connection: Connection) -> None:
        if connection.id == client.hello["server"]["connId"]:
            gone.set()

    running.hub.leaving.append(left)
    await client.socket.close()
    await gone.wait()


async def ask(client: RawClient, method: str, **params: Any) -> None:
    await client.socket.send_json({"type": "req", "id": "q", "method": method, "params": params})


@on_loop
@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("device.token.revoke", {"role": "operator"}),
        ("device.token.rotate", {"role": "operator"}),
        ("device.pair.remove", {}),
    ],
)
async def test_a_device_loses_its_sockets_though_the_one_that_took_its_rights_is_gone(
    method: str, more: dict[str, Any], tmp_path: Path
) -> None:
    store = GatedStore()
    async with asyncio.timeout(10), plane(tmp_path, store=store) as running:
        owner, victim, key = await running.connect(ALL), await running.open(), Key(3)
        assert (await victim.connect_device(key, scopes=["operator.read"]))["ok"]
        store.hold()
        await ask(owner, method, deviceId=key.id, **more)
        await store.written.wait()
        await leave(running, owner)
        store.gate.set()
        assert (await victim.until_closed())[0] == 4001


@on_loop
async def test_a_node_is_removed_though_the_one_that_asked_for_it_is_gone(tmp_path: Path) -> None:
    store = GatedStore()
    async with asyncio.timeout(10), field(tmp_path, store=store) as f:
        owner = await f.running.connect(ALL)
        store.hold()
        await ask(owner, "node.pair.remove", nodeId=f.key.id)
        await store.written.wait()
        await leave(f.running, owner)
        store.gate.set()
        assert (await f.node.until_closed())[0] == 4001


@on_loop
async def test_a_node_is_asked_though_the_operator_left_before_its_request_was_sent_on(tmp_path: Path) -> None:
    store = GatedStore()
    async with asyncio.timeout(10), field(tmp_path, store=store) as f:
        other = await f.running.connect(ALL)
        store.hold()
        await ask(other, "node.invoke", **f.ask("k"))
        await store.written.wait()
        await leave(f.running, other)
        store.gate.set()
        asked = (await f.node.event("node.invoke.request"))["payload"]
        assert await f.result(asked, payload=7) == {"ok": True}
        assert (await f.ok("node.invoke", **f.ask("k")))["payload"] == 7
        assert f.running.server.lasting.running == 0


class Held:
    """Methods that wait until they are told to go on."""

    def __init__(self) -> None:
        self.begun = asyncio.Semaphore(0)
        self.go = asyncio.Event()
        self.done = asyncio.Semaphore(0)
        self.waits = asyncio.Event()
        self.unheard = asyncio.Event()

    async def change(self, _: Call) -> Any:
        """Change something, slowly."""
        self.begun.release()
        await self.go.wait()
        self.done.release()
        return {}

    async def wait(self, _: Call) -> Any:
        """Change something, then wait for what comes of it."""
        return Waiting(self._forever)

    async def spawn(self, call: Call) -> Any:
        """Change something, then leave a task to the connection."""
        await self.change(call)
        call.spawn(self._forever())
        return {}

    async def _forever(self) -> None:
        self.waits.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.unheard.set()

    def methods(self) -> list[Method]:
        """Return them."""
        return [
            Method("change", NoParams, self.change, Scope.WRITE),
            Method("wait", NoParams, self.wait, Scope.WRITE),
            Method("spawn", NoParams, self.spawn, Scope.WRITE),
        ]


@on_loop
async def test_what_a_change_only_waits_for_ends_with_its_caller(tmp_path: Path) -> None:
    held = Held()
    async with asyncio.timeout(10), plane(tmp_path, *held.methods()) as running:
        client = await running.connect()
        await ask(client, "wait")
        await held.waits.wait()
        assert running.server.lasting.running == 0
        await client.socket.close()
        await held.unheard.wait()


@on_loop
async def test_a_caller_that_is_gone_leaves_no_task_behind(tmp_path: Path) -> None:
    held = Held()
    async with asyncio.timeout(10), plane(tmp_path, *held.methods()) as running:
        client = await running.connect()
        await ask(client, "spawn")
        await held.begun.acquire()
        await leave(running, client)
        held.go.set()
        await held.done.acquire()
        assert not held.waits.is_set()


@on_loop
async def test_changes_of_those_who_left_are_bounded_and_reading_goes_on(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tidegate.gateway.plane.lasting.MAX_LASTING", 2)
    held = Held()
    async with asyncio.timeout(10), plane(tmp_path, *held.methods()) as running:
        for _ in range(2):
            client = await running.connect()
            await ask(client, "change")
            await held.begun.acquire()
            await leave(running, client)
        client = await running.connect()
        error = (await client.call("change"))["error"]
        assert (error["code"], error["retryable"]) == ("UNAVAILABLE", True)
        assert (await client.call("health"))["ok"]
        held.go.set()
        for _ in range(2):
            await held.done.acquire()
        assert (await client.call("change"))["ok"]


@on_loop
async def test_a_stop_lets_changes_end() -> None:
    done: list[str] = []
    go = asyncio.Event()

    async def change() -> None:
        await go.wait()
        done.append("changed")

    async with asyncio.TaskGroup() as group:
        async with Lasting() as lasting:
            lasting.start(change(), "change", 10)
            group.create_task(_open(go))
        assert (done, lasting.running) == (["changed"], 0)
        assert not lasting.has_room(1)


async def _open(go: asyncio.Event) -> None:
    go.set()


@on_loop
async def test_a_stop_does_not_wait_for_ever() -> None:
    cut = asyncio.Event()

    async def stuck() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()

    async with asyncio.timeout(10), Lasting(drain=0.01) as lasting:
        lasting.start(stuck(), "stuck", 10)
    assert cut.is_set()
    assert lasting.running == 0


@on_loop
async def test_a_change_that_fails_ends_no_other() -> None:
    done: list[str] = []

    async def fails() -> None:
        raise KeyError("x")

    async def change() -> None:
        await asyncio.sleep(0)
        done.append("changed")

    async with Lasting() as lasting:
        lasting.start(fails(), "fails", 10)
        lasting.start(change(), "change", 10)
    assert done == ["changed"]
