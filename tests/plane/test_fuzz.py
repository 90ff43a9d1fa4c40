"""Frames of every shape, before and after authentication: nothing breaks, nobody gains a right."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plane.client import Key, Plane, plane
from plane.mutations import Mutator
from tidegate.gateway.plane.contract import Call, Method, NoParams, Scope, covers

ROUNDS = 40
FRAMES = 25


async def _attack(seed: int, *, inside: bool) -> dict[str, Any]:
    """Send mutated frames; returns what came of it."""
    gained: list[str] = []

    async def guarded(call: Call) -> None:
        gained.append(call.method)

    failed: list[Any] = []
    with tempfile.TemporaryDirectory() as place, structlog.testing.capture_logs() as logs:
        canaries = [Method(f"canary.{s.name}", NoParams, guarded, s) for s in Scope if not covers([Scope.READ], s)]
        async with asyncio.timeout(60), plane(Path(place), *canaries) as running:
            mutate = Mutator(seed, [m.name for m in running.server.methods.all()])
            await (_inside if inside else _outside)(running, mutate)
            alive = await running.connect(["operator.read"])
            failed.append((await alive.call("status"))["ok"])
            devices = await running.store.devices()
    broken = [entry for entry in logs if entry["log_level"] == "error"]
    return {"gained": gained, "broken": broken, "alive": failed, "devices": devices}


async def _outside(running: Plane, mutate: Mutator) -> None:
    for _ in range(FRAMES):
        client = await running.open()
        await client.socket.send_str(mutate.stranger(client.challenge))
        frame: dict[str, Any] = {}
        try:
            frame = await client.frame()
        except ConnectionError:
            continue
        assert not frame["ok"], frame
        await client.until_closed()


async def _inside(running: Plane, mutate: Mutator) -> None:
    client = await running.connect(["operator.read"])
    for _ in range(FRAMES * 4):
        await client.socket.send_str(mutate.insider())
    await client.socket.send_json({"type": "req", "id": "the end", "method": "status"})
    assert (await client.answer("the end"))["ok"]


async def _from_a_node(seed: int) -> None:
    with tempfile.TemporaryDirectory() as place, structlog.testing.capture_logs() as logs:
        async with asyncio.timeout(60), plane(Path(place)) as running:
            mutate, key = Mutator(seed, [m.name for m in running.server.methods.all()]), Key(50)
            operator, node = await running.connect(), await running.open()
            fields: dict[str, Any] = {"client": "node-host", "mode": "node", "role": "node", "scopes": []}
            assert (await node.connect_device(key, commands=["location.get"], **fields))["ok"]
            waiting = (await operator.call("node.pair.list"))["payload"]["pending"][0]["requestId"]
            assert (await operator.call("node.pair.approve", {"requestId": waiting}))["ok"]
            ask = {"nodeId": key.id, "command": "location.get", "idempotencyKey": "k"}
            await operator.socket.send_json({"type": "req", "id": "asked", "method": "node.invoke", "params": ask})
            asked = (await node.event("node.invoke.request"))["payload"]
            for _ in range(FRAMES * 4):
                with suppress(ConnectionError):
                    # Too many calls in the wrong role end its connection.
                    await node.socket.send_str(mutate.node(key.id))
            with suppress(ConnectionError):
                real = {"id": asked["id"], "nodeId": key.id, "ok": True, "payload": "real"}
                await node.call("node.invoke.result", real)
            told = await operator.answer("asked")
            # No guess was taken for the answer.
            assert told["payload"]["payload"] == "real" if told["ok"] else told["error"]["code"] == "UNAVAILABLE"
            assert (await operator.call("status"))["ok"]
    assert [entry for entry in logs if entry["log_level"] == "error"] == []


def _holds(result: dict[str, Any]) -> None:
    assert result["gained"] == []
    assert result["broken"] == []
    assert result["alive"] == [True]
    assert result["devices"] == []


Property = Callable[[int], None]
modest = settings(max_examples=ROUNDS, deadline=None, suppress_health_check=list(HealthCheck))


@modest
@given(st.integers(0, 2**32))
def test_no_frame_of_a_stranger_breaks_anything_or_gains_a_right(seed: int) -> None:
    _holds(asyncio.run(_attack(seed, inside=False)))


@modest
@given(st.integers(0, 2**32))
def test_no_frame_of_a_reader_breaks_anything_or_gains_a_right(seed: int) -> None:
    _holds(asyncio.run(_attack(seed, inside=True)))


@modest
@given(st.integers(0, 2**32))
def test_no_frame_of_a_node_breaks_anything_or_answers_for_another(seed: int) -> None:
    asyncio.run(_from_a_node(seed))
