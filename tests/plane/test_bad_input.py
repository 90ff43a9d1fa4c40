"""Bad input of every kind while a client that is inside goes on: refused as the protocol says, bounded, logged once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from fakes.event_loop import on_loop
from plane.client import Key, Plane, connect_params, plane
from plane.talking import KEY, talking
from tidegate.gateway.plane import server
from tidegate.gateway.plane.connection import Timing
from tidegate.gateway.plane.frames import MAX_BEFORE_AUTH, MAX_PAYLOAD

SKEW_MS = 121_000
Attack = Callable[[Plane], Awaitable[Any]]


@asynccontextmanager
async def going_on(running: Plane) -> AsyncIterator[list[float]]:
    """Let a client ask again and again for the length of the block; it must be answered every time, and quickly."""
    inside, loop = await running.connect(), asyncio.get_running_loop()
    waits: list[float] = []

    async def ask() -> None:
        while True:
            began = loop.time()
            assert (await inside.call("status"))["ok"]
            waits.append(loop.time() - began)
            await asyncio.sleep(0.002)

    async with asyncio.TaskGroup() as group:
        asking = group.create_task(ask())
        yield waits
        while len(waits) < 3:
            await asyncio.sleep(0.002)
        asking.cancel()
    assert running.hub.get(inside.hello["server"]["connId"]) is not None


async def closed_after(running: Plane, send: Callable[[aiohttp.ClientWebSocketResponse], Awaitable[Any]]) -> Any:
    client = await running.open()
    await send(client.socket)
    return await client.until_closed()


async def oversized(running: Plane) -> Any:
    return await closed_after(running, lambda s: s.send_str("x" * (MAX_BEFORE_AUTH + 1)))


async def binary(running: Plane) -> Any:
    return await closed_after(running, lambda s: s.send_bytes(b"\x00" * 100))


async def no_json(running: Plane) -> Any:
    return await closed_after(running, lambda s: s.send_str("{not json"))


async def deep_json(running: Plane) -> Any:
    return await closed_after(running, lambda s: s.send_str("[" * 30_000))


async def no_request(running: Plane) -> Any:
    return await closed_after(running, lambda s: s.send_str('{"type":"hello"}'))


async def fragments(running: Plane) -> Any:
    async def send(socket: aiohttp.ClientWebSocketResponse) -> None:
        writer = socket._writer
        # A text frame without its end, then continuations that never end the message.
        for opcode in (0x01, *(0x00,) * 80):
            payload = b"x" * 1_000
            await _raw(writer, bytes([opcode, 0x80 | 126, *len(payload).to_bytes(2), 0, 0, 0, 0]) + payload)

    return await closed_after(running, send)


async def _raw(writer: Any, data: bytes) -> None:
    transport = writer.transport
    if transport is not None and not transport.is_closing():
        transport.write(data)
    await asyncio.sleep(0)


ENDS: list[tuple[Attack, tuple[int, str]]] = [
    (oversized, (1009, "")),
    (binary, (1000, "")),
    (no_json, (1000, "")),
    (deep_json, (1000, "")),
    (no_request, (1008, "invalid request frame")),
    (fragments, (1009, "")),
]


@pytest.mark.parametrize(("attack", "end"), ENDS, ids=[attack.__name__ for attack, _ in ENDS])
@on_loop
async def test_a_bad_first_frame_ends_its_own_connection_only_and_is_logged_once(
    tmp_path: Path, attack: Attack, end: tuple[int, str]
) -> None:
    async with plane(tmp_path) as running:
        with capture_logs() as logs:
            async with going_on(running):
                assert await attack(running) == end
        told = [entry for entry in logs if entry["event"] == "plane.refused"]
        assert len(told) <= 1
        assert not [entry for entry in logs if entry["log_level"] in ("error", "critical")]


@on_loop
async def test_bad_frames_of_somebody_inside_cost_nobody_anything(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        with capture_logs() as logs:
            async with going_on(running):
                bad = await running.connect()
                for text in ("", "{", "null", "[]", '"x"', "[" * 100_000, "\x00", '{"type":"req","id":7}', "{}" * 1000):
                    await bad.socket.send_str(text)
                await bad.socket.send_bytes(b"\xff" * 1000)
                for _ in range(3):
                    await bad.socket.send_json({"type": "req", "id": "same", "method": "status"})
                assert [(await bad.answer("same"))["ok"] for _ in range(3)] == [True, True, True]
                invalid = [e for e in bad.events if e.get("type") == "res"]
                assert {answer["error"]["code"] for answer in invalid} == {"INVALID_REQUEST"}
                with suppress(ConnectionError):
                    # The server may be gone before all of it is sent.
                    await bad.socket.send_str("x" * (MAX_PAYLOAD + 1))
                while len(running.hub.connections) > 1:
                    await asyncio.sleep(0.01)
        assert not [entry for entry in logs if entry["log_level"] in ("error", "critical")]


@pytest.mark.parametrize(("shift", "admitted"), [(-SKEW_MS, False), (SKEW_MS, False), (-60_000, True), (60_000, True)])
@on_loop
async def test_a_clock_that_is_two_minutes_off_is_refused_in_both_directions(
    tmp_path: Path, shift: int, admitted: bool
) -> None:
    async with plane(tmp_path) as running, going_on(running):
        client = await running.open()
        params = connect_params(client="openclaw-tui", mode="ui")
        signed = Key(90).sign(params, client.challenge["nonce"], client.challenge["ts"] + shift)
        answer = await client.say_connect(signed)
        if admitted:
            assert answer["ok"], answer
            return
        assert answer["error"]["details"]["code"] == "DEVICE_AUTH_SIGNATURE_EXPIRED"
        assert await client.until_closed() == (1008, "device signature expired")


@on_loop
async def test_a_proof_that_was_overheard_opens_nothing(tmp_path: Path) -> None:
    async with plane(tmp_path) as running, going_on(running):
        first, second = await running.open(), await running.open()
        params = connect_params(client="openclaw-tui", mode="ui")
        signed = Key(91).sign(params, first.challenge["nonce"], first.challenge["ts"])
        answer = await second.say_connect(signed)
        assert answer["error"]["details"]["code"] == "DEVICE_AUTH_NONCE_MISMATCH"
        assert (await first.say_connect(signed))["ok"]
        again = await first.call("connect", signed)
        assert again["error"]["message"].startswith(("missing scope", "connect is only valid"))


@on_loop
async def test_sockets_that_are_half_open_or_not_read_end_by_themselves(tmp_path: Path) -> None:
    timing = Timing(handshake=0.3, ping=0.05, pong=0.1, write=0.2, close=0.1)
    async with plane(tmp_path, timing=timing, max_buffered=200_000) as running:
        with capture_logs() as logs:
            async with going_on(running):
                deaf = []
                for _ in range(3):
                    socket = await running.http.ws_connect(running.url, autoping=False)
                    await socket.receive_json()
                    await socket.send_json({"type": "req", "id": "c", "method": "connect", "params": connect_params()})
                    deaf.append(socket)
                while len(running.hub.connections) < 4:
                    await asyncio.sleep(0.01)
                while len(running.hub.connections) > 1:
                    await asyncio.sleep(0.01)
                for socket in deaf:
                    await socket.close()
        assert len([entry for entry in logs if entry["event"] == "plane.half_open"]) == 3


@on_loop
async def test_a_thousand_sockets_that_say_nothing_are_bounded_and_disturb_nobody(tmp_path: Path) -> None:
    async with plane(tmp_path, timing=Timing(handshake=4.0, close=0.2)) as running:
        open_sockets: list[aiohttp.ClientWebSocketResponse] = []
        refused: list[int] = []

        async def knock() -> None:
            try:
                open_sockets.append(await running.http.ws_connect(running.url, max_msg_size=0))
            except aiohttp.WSServerHandshakeError as error:
                refused.append(error.status)

        with capture_logs() as logs:
            async with going_on(running) as waits:
                for _ in range(20):
                    async with asyncio.TaskGroup() as group:
                        for _ in range(50):
                            group.create_task(knock())
                assert (len(open_sockets), set(refused)) == (server.MAX_FROM_ONE, {503})
                assert len(open_sockets) + len(refused) == 1_000
                for socket in open_sockets:
                    await socket.close()
        # The median, since two thousand ends of sockets share this one event loop.
        assert sorted(waits)[len(waits) // 2] < 0.5
        assert len(running.hub.connections) == 1
        assert not [entry for entry in logs if entry["log_level"] in ("error", "critical", "warning")]
        # Room again for those who come to stay.
        assert (await (await running.connect()).call("status"))["ok"]


@on_loop
async def test_names_keys_and_numbers_have_a_size(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        long = {"sessionKey": KEY, "message": "hi", "idempotencyKey": "k" * 257}
        assert "idempotencyKey" in (await talk.error("chat.send", **long))["message"]
        for method, params in (
            ("agent.wait", {"runId": "r" * 2_000_000, "timeoutMs": 0}),
            ("agent.wait", {"runId": "r", "timeoutMs": 10**400}),
            ("agent", {"message": "x", "idempotencyKey": "a", "timeout": 10**400}),
            ("tidegate.deliveries.show", {"id": 2**63}),
            ("sessions.patch", {"key": KEY, "icon": "i" * 100_000}),
            ("agents.create", {"name": "new", "workspace": "w", "emoji": "e" * 1_000_000}),
            ("sessions.describe", {"key": "k" * 100_000}),
        ):
            assert (await talk.error(method, **params))["code"] == "INVALID_REQUEST", method
        # What people write may be long.
        assert (await talk.say("word " * 50_000, "long"))["status"] == "started"
        await talk.until("long", "final")
