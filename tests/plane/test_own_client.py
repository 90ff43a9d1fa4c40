"""Our client against the real control plane: how it comes in, what it is told, how it notices an end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fakes.event_loop import on_loop
from plane.client import QUICK, TOKEN, Plane, plane
from tidegate.gateway.client.address import read_address
from tidegate.gateway.client.connection import MAX_EVENTS, Gap
from tidegate.gateway.client.dial import Door, Kind, Secret, connected
from tidegate.gateway.client.errors import (
    Denied,
    Forbidden,
    NotAGateway,
    NotPaired,
    OtherProtocol,
    RateLimited,
    Refused,
    Unanswered,
    Unreachable,
    WrongSecret,
)
from tidegate.gateway.client.identity import Identity
from tidegate.gateway.plane.auth import AuthSettings
from tidegate.gateway.plane.connection import Timing
from tidegate.gateway.plane.contract import Call, Method, NoParams, PlaneEvent, Scope

READ = Kind(("operator.read",))
ASKED = AuthSettings("token", TOKEN, rules=QUICK, auto_approve_local=False)


def door(running: Plane, tmp_path: Path, token: str = TOKEN) -> Door:
    return Door(read_address(running.url), identity=Identity(tmp_path / "me"), secret=Secret(token))


async def approve(running: Plane, request: str) -> None:
    owner = await running.connect()
    answer = await owner.call("device.pair.approve", {"requestId": request})
    assert answer["ok"], answer


async def _slow(_: Call) -> None:
    await asyncio.sleep(30)


async def _twice(call: Call) -> str:
    async def rest() -> None:
        call.later("second")

    call.spawn(rest())
    return "first"


SLOW = Method("slow", NoParams, _slow, Scope.READ)
TWICE = Method("twice", NoParams, _twice, Scope.READ)


@on_loop
async def test_a_generator_that_holds_a_connection_is_closed_without_a_word(tmp_path: Path) -> None:
    async def hellos(running: Plane) -> AsyncGenerator[str, None]:
        async with connected(door(running, tmp_path), READ) as line:
            yield line.hello["type"]

    async with plane(tmp_path) as running:
        reading = hellos(running)
        assert await anext(reading) == "hello-ok"
        await reading.aclose()
        while running.hub.connections:
            await asyncio.sleep(0.01)


@on_loop
async def test_a_new_device_with_the_shared_secret_comes_in_and_later_on_its_own_token(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        async with connected(door(running, tmp_path), READ) as line:
            assert (line.hello["auth"]["method"], line.scopes) == ("token", ("operator.read",))
        async with connected(door(running, tmp_path, ""), READ) as line:
            assert line.hello["auth"]["method"] == "device-token"
            assert (await line.call("health"))["ok"] is True


@on_loop
async def test_a_device_that_waits_for_a_person_tells_the_request_and_what_to_do(tmp_path: Path) -> None:
    async with plane(tmp_path, settings=ASKED) as running:
        with pytest.raises(NotPaired) as refusal:
            async with connected(door(running, tmp_path), READ):
                pass
        assert refusal.value.reason == "not-paired"
        assert f"devices approve {refusal.value.request}" in str(refusal.value)
        await approve(running, refusal.value.request)
        async with connected(door(running, tmp_path), READ) as line:
            assert line.scopes == ("operator.read",)


@on_loop
async def test_a_wrong_or_missing_secret_is_told_apart(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        for token, code, words in (
            ("wrong", "AUTH_TOKEN_MISMATCH", "not this gateway's"),
            ("", "AUTH_TOKEN_MISSING", "TIDEGATE_GATEWAY_TOKEN"),
        ):
            with pytest.raises(WrongSecret, match=words) as refusal:
                async with connected(door(running, tmp_path, token), READ):
                    pass
            assert refusal.value.code == code


@on_loop
async def test_where_the_secret_does_not_fit_the_device_token_is_tried(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        async with connected(door(running, tmp_path), READ):
            pass
        async with connected(door(running, tmp_path, "of another gateway"), READ) as line:
            assert line.hello["auth"]["method"] == "device-token"


@on_loop
async def test_a_revoked_device_is_told_and_its_open_line_ends(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        owner = await running.connect()

        async def revoked() -> None:
            async with connected(door(running, tmp_path), READ) as line:
                device = Identity(tmp_path / "me").key().id
                await owner.call("device.token.revoke", {"deviceId": device, "role": "operator"})
                async for _ in line.events():
                    pass

        with pytest.raises(Unreachable, match="device removed"):
            await revoked()
        with pytest.raises(WrongSecret, match="with the gateway's token once more") as refusal:
            async with connected(door(running, tmp_path, ""), READ):
                pass
        assert refusal.value.is_device_token


@on_loop
async def test_too_many_wrong_secrets_tell_how_long_to_wait(tmp_path: Path) -> None:
    rules = replace(QUICK, max_attempts=1, lockout=300, exempt_loopback=False)
    async with plane(tmp_path, settings=AuthSettings("token", TOKEN, rules=rules)) as running:
        for expected in (WrongSecret, RateLimited):
            with pytest.raises(expected) as refusal:
                async with connected(door(running, tmp_path, "wrong"), READ):
                    pass
        assert isinstance(refusal.value, RateLimited)
        assert "try again in 5 min" in str(refusal.value)


@on_loop
async def test_a_token_that_does_not_reach_lets_us_in_with_what_it_does_reach(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        async with connected(door(running, tmp_path), READ):
            pass
        async with connected(door(running, tmp_path, ""), Kind(("operator.read", "operator.pairing"))) as line:
            assert line.scopes == ("operator.read",)
            with pytest.raises(Forbidden) as refusal:
                await line.call("device.pair.list")
            assert refusal.value.scope == "operator.pairing"


@on_loop
async def test_requests_have_a_deadline_and_may_be_answered_twice(tmp_path: Path) -> None:
    async with plane(tmp_path, SLOW, TWICE) as running, connected(door(running, tmp_path), READ) as line:
        with pytest.raises(Unanswered, match=r"slow within 0\.05 s"):
            await line.call("slow", seconds=0.05)
        pending = await line.send("twice")
        assert [await pending.answer(), await pending.answer()] == ["first", "second"]
        with pytest.raises(Refused, match="unexpected property"):
            await line.call("health", {"surely": "not"})


@on_loop
async def test_an_open_request_ends_with_the_connection(tmp_path: Path) -> None:
    async with plane(tmp_path, SLOW) as running:

        async def stopped() -> None:
            async with connected(door(running, tmp_path), READ) as line:
                pending = await line.send("slow")
                await running.server.stop("test")
                await pending.answer()

        with pytest.raises(Unreachable, match="restarts or stops"):
            await stopped()


@on_loop
async def test_events_come_in_order_and_a_gap_is_told(tmp_path: Path) -> None:
    async with plane(tmp_path) as running, connected(door(running, tmp_path), READ) as line:
        for number in range(3):
            running.hub.publish(PlaneEvent("chat", {"n": number}))
        running.hub.connections[0].out._seq += 2
        running.hub.publish(PlaneEvent("chat", {"n": 3}))
        seen: list[Any] = []
        async for event in line.events():
            if isinstance(event, Gap) or event.name == "chat":
                seen.append(event.missed if isinstance(event, Gap) else event.payload["n"])
            if seen and seen[-1] == 3:
                break
        assert seen == [0, 1, 2, 2, 3]


@on_loop
async def test_nobody_who_reads_costs_bounded_memory_and_is_told_as_a_gap(tmp_path: Path) -> None:
    async with plane(tmp_path) as running, connected(door(running, tmp_path), READ) as line:
        total = MAX_EVENTS + 10
        for number in range(total):
            running.hub.publish(PlaneEvent("chat", {"n": number}))
            if number % 100 == 0:
                await asyncio.sleep(0)
        await line.call("health")
        assert len(line._events) <= MAX_EVENTS
        first = await anext(line.events())
        assert isinstance(first, Gap)
        assert first.missed >= MAX_EVENTS


@on_loop
async def test_a_gateway_that_says_nothing_any_more_is_noticed(tmp_path: Path) -> None:
    async with plane(tmp_path, timing=Timing(tick=0.04, close=0.3)) as running:

        async def silence() -> None:
            async with connected(door(running, tmp_path), READ) as line:
                # The plane of this test sends no ticks: it is not run.
                async for _ in line.events():
                    pass

        with pytest.raises(Unreachable, match="silent"):
            await silence()


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def something_else(answer: Answer) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def outcome(url: str, tmp_path: Path) -> Exception:
    try:
        async with connected(Door(read_address(url), identity=Identity(tmp_path), secret=Secret("secret")), READ):
            raise AssertionError("let in")
    except (Unreachable, Denied) as error:
        return error


@on_loop
async def test_what_is_no_gateway_is_told_as_such(tmp_path: Path) -> None:
    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>")

    async def shouts(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str("\x1b[31mhello")
        await socket.receive()
        return socket

    for answer in (page, shouts):
        async with something_else(answer) as url:
            error = await outcome(url, tmp_path)
        assert isinstance(error, NotAGateway), error
        assert "is no gateway" in str(error)


@on_loop
async def test_a_redirect_is_never_followed_with_the_secret(tmp_path: Path) -> None:
    reached: list[str] = []

    async def trap(request: web.Request) -> web.StreamResponse:
        reached.append(request.path)
        return web.Response()

    async with something_else(trap) as elsewhere:

        async def away(_: web.Request) -> web.StreamResponse:
            raise web.HTTPFound(elsewhere.replace("ws:", "http:") + "/trap")

        async with something_else(away) as url:
            error = await outcome(url, tmp_path)
    assert isinstance(error, NotAGateway)
    assert "sends us on" in str(error)
    assert reached == []


def gateway_that_says(frame: dict[str, Any]) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "event", "event": "connect.challenge", "payload": {"nonce": "n", "ts": 1}})
        asked = json.loads((await socket.receive()).data)
        await socket.send_json({"type": "res", "id": asked["id"], **frame})
        await socket.close()
        return socket

    return answer


@on_loop
async def test_another_version_and_unknown_refusals_are_told_without_what_could_harm_a_terminal(tmp_path: Path) -> None:
    mismatch = {"code": "PROTOCOL_MISMATCH", "expectedProtocol": 9}
    async with something_else(gateway_that_says({"ok": False, "error": {"details": mismatch}})) as url:
        error = await outcome(url, tmp_path)
    assert isinstance(error, OtherProtocol)
    assert "speaks protocol 9" in str(error)
    nasty = {"ok": False, "error": {"code": "X", "message": "no\x1b]0;owned\x07\nentry"}}
    async with something_else(gateway_that_says(nasty)) as url:
        error = await outcome(url, tmp_path)
    assert str(error).isprintable()
    assert "no ]0;owned entry" in str(error)


@on_loop
async def test_nobody_at_an_address_is_told_with_what_to_do(tmp_path: Path) -> None:
    async with something_else(gateway_that_says({})) as url:
        pass
    error = await outcome(url, tmp_path)
    assert "no gateway answers on" in str(error)
    assert "start it there" in str(error)
