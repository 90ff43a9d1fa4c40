"""Frames of every shape, before and after authentication: nothing breaks, nobody gains a right."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plane.client import Plane, plane
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
