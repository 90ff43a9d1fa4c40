"""A connection from the socket's point of view: frames, limits, order, slow and silent clients, the end."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fakes.event_loop import on_loop
from plane.client import TOKEN, Key, RawClient, connect_params, plane
from tidegate.errors import StoreUnavailable
from tidegate.gateway.plane.connection import MAX_REQUESTS, Timing
from tidegate.gateway.plane.contract import Call, Code, Method, NoParams, PlaneEvent, RpcError, Scope
from tidegate.gateway.plane.frames import MAX_BEFORE_AUTH

QUICK = Timing(handshake=0.2, ping=0.05, pong=0.1, tick=0.05, health=10, close=0.2, write=0.5)


def method(name: str, handler: Any, **fields: Any) -> Method:
    return Method(name, NoParams, handler, fields.pop("scope", Scope.READ), **fields)


@on_loop
async def test_events_are_numbered_from_one_for_each_connection(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        first = await running.connect(["operator.read"])
        running.hub.publish(PlaneEvent("cron", {"n": 1}))
        second = await running.connect(["operator.read"])
        running.hub.publish(PlaneEvent("cron", {"n": 2}))
        running.hub.push(first.hello["server"]["connId"], "chat.send_timing", {})
        running.hub.publish(PlaneEvent("cron", {"n": 3}))
        seen = [await first.frame() for _ in range(4)]
        assert [(f["event"], f.get("seq")) for f in seen] == [
            ("cron", 1),
            ("cron", 2),
            ("chat.send_timing", None),
            ("cron", 3),
        ]
        assert [(await second.frame())["seq"] for _ in range(2)] == [1, 2]


@on_loop
async def test_state_versions_come_with_presence_and_health_only(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        client = await running.connect(["operator.read"])
        await client.call("health")
        assert (await client.event("health"))["stateVersion"]["health"] == 2
        screen = await running.open()
        await screen.connect_device(Key(1), client="openclaw-tui", mode="ui")
        event = await client.event("presence")
        assert event["stateVersion"]["presence"] == 2
        assert event["payload"]["presence"][1]["clientId"] == "openclaw-tui"
        running.hub.publish(PlaneEvent("cron", {}))
        assert "stateVersion" not in await client.event("cron")


@on_loop
async def test_a_node_gets_events_meant_for_it_without_a_number(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        node = await running.open()
        await node.connect_device(Key(2), client="node-host", mode="node", role="node", scopes=[])
        running.hub.publish(PlaneEvent("cron", {}))
        running.hub.publish(PlaneEvent("node.invoke.request", {"id": "1"}, to_nodes=True))
        frame = await node.frame()
        assert (frame["event"], "seq" in frame) == ("node.invoke.request", False)


@on_loop
async def test_a_request_may_be_answered_twice_and_not_three_times(tmp_path: Path) -> None:
    raised: list[str] = []

    async def twice(call: Call) -> Any:
        async def rest() -> None:
            call.later({"status": "ok"})
            try:
                call.later({"status": "again"})
            except ValueError as error:
                raised.append(str(error))

        call.spawn(rest())
        return {"status": "accepted"}

    async with plane(tmp_path, method("agent", twice)) as running:
        client = await running.connect()
        assert (await client.call("agent"))["payload"] == {"status": "accepted"}
        assert (await client.answer("r1"))["payload"] == {"status": "ok"}
        assert raised == ["a request has two responses at most"]


@on_loop
async def test_what_a_request_left_running_ends_with_its_connection(tmp_path: Path) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def forever() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def start(call: Call) -> Any:
        call.spawn(forever())
        return {}

    async with plane(tmp_path, method("start", start)) as running:
        client = await running.connect()
        await client.call("start")
        await started.wait()
        await client.socket.close()
        await ended.wait()


@on_loop
async def test_an_error_of_a_method_is_answered_and_the_connection_stays(tmp_path: Path) -> None:
    async def known(_: Call) -> Any:
        raise StoreUnavailable("the disk is full")

    async def unknown(_: Call) -> Any:
        raise KeyError("secret detail")

    async def crash_later(call: Call) -> Any:
        call.spawn(unknown(call))
        return {}

    table = [method("known", known), method("unknown", unknown), method("later", crash_later)]
    async with plane(tmp_path, *table) as running:
        client = await running.connect()
        assert (await client.call("known"))["error"] == {"code": "UNAVAILABLE", "message": "Error: the disk is full"}
        answer = await client.call("unknown")
        assert answer["error"]["code"] == "UNAVAILABLE"
        assert "secret" not in answer["error"]["message"]
        assert (await client.call("later"))["ok"]
        assert (await client.call("health"))["ok"]


@on_loop
async def test_more_than_the_bound_of_requests_are_refused_as_busy(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def wait(_: Call) -> Any:
        await go.wait()
        return {}

    async with plane(tmp_path, method("wait", wait)) as running:
        client = await running.connect()
        for number in range(MAX_REQUESTS + 1):
            await client.socket.send_json({"type": "req", "id": f"w{number}", "method": "wait"})
        busy = await client.answer(f"w{MAX_REQUESTS}")
        assert busy["error"]["message"] == "The server is busy. Please try again in a moment."
        assert busy["error"]["retryable"] is True
        go.set()
        assert (await client.answer("w0"))["ok"]


@on_loop
async def test_control_plane_writes_have_a_budget_over_all_connections_of_a_caller(tmp_path: Path) -> None:
    async def write(_: Call) -> Any:
        return {}

    async with plane(tmp_path, method("config.set", write, write_budget=True)) as running:
        first, second = await running.connect(), await running.connect()
        for number in range(30):
            assert (await (first if number % 2 else second).call("config.set"))["ok"]
        error = (await first.call("config.set"))["error"]
        assert error["code"] == "UNAVAILABLE"
        assert error["message"].startswith("rate limit exceeded for config.set; retry after ")
        assert error["retryAfterMs"] > 0


@on_loop
async def test_more_than_ten_calls_in_the_wrong_role_end_the_connection(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        client = await running.connect()
        for _ in range(10):
            assert (await client.call("node.event"))["error"]["message"] == "unauthorized role: operator"
        assert (await client.call("health"))["ok"]
        for number in range(11):
            await client.socket.send_json({"type": "req", "id": f"x{number}", "method": "node.event"})
        assert await client.until_closed() == (1008, "repeated unauthorized calls")


@on_loop
async def test_a_scope_may_depend_on_the_parameters(tmp_path: Path) -> None:
    async def nothing(_: Call) -> Any:
        return {}

    async with plane(tmp_path, method("odd", nothing, scope=lambda _: Scope.ADMIN)) as running:
        reader = await running.connect(["operator.read"])
        assert (await reader.call("odd"))["error"]["message"] == "missing scope: operator.admin"
        assert (await (await running.connect()).call("odd"))["ok"]


@on_loop
async def test_a_precheck_speaks_before_the_schema(tmp_path: Path) -> None:
    async def nothing(_: Call) -> Any:
        return {}

    def check(raw: Any) -> None:
        if "sessionKey" not in raw:
            raise RpcError(Code.INVALID_REQUEST, "session mutation target is unavailable")

    table = method("chat.send", nothing, precheck=check)
    async with plane(tmp_path, table) as running:
        client = await running.connect()
        answer = await client.call("chat.send", {"nope": 1})
        assert answer["error"]["message"] == "session mutation target is unavailable"


@on_loop
async def test_a_client_that_does_not_read_is_cut_off_and_others_are_not(tmp_path: Path) -> None:
    async def flood(call: Call) -> Any:
        return "x" * 2_000_000

    async with plane(tmp_path, method("flood", flood), timing=QUICK, max_buffered=4_000_000) as running:
        good = await running.connect()
        slow = await running.connect()
        transport = slow.socket._response.connection.transport  # type: ignore[union-attr]
        transport.pause_reading()
        for number in range(12):
            await slow.socket.send_json({"type": "req", "id": f"f{number}", "method": "flood"})
        while len(running.hub.connections) > 1:
            await asyncio.sleep(0.01)
        assert (await good.call("status"))["ok"]
        transport.abort()


@on_loop
async def test_a_write_that_never_ends_ends_the_connection(tmp_path: Path) -> None:
    async def flood(_: Call) -> Any:
        return "x" * 20_000_000

    patient = Timing(write=0.2, close=0.2)
    async with plane(tmp_path, method("flood", flood), timing=patient) as running:
        stuck = await running.connect()
        transport = stuck.socket._response.connection.transport  # type: ignore[union-attr]
        transport.pause_reading()
        await stuck.socket.send_json({"type": "req", "id": "f", "method": "flood"})
        while running.hub.connections:
            await asyncio.sleep(0.01)
        transport.abort()


@on_loop
async def test_a_store_that_fails_refuses_devices_and_says_to_come_again(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        await running.store.close()
        client = await running.open()
        answer = await client.connect_device(Key(6))
        assert (answer["error"]["code"], answer["error"]["retryable"]) == ("UNAVAILABLE", True)
        assert (await client.until_closed())[0] == 1013


@on_loop
async def test_a_slow_client_misses_droppable_events_and_sees_the_gap(tmp_path: Path) -> None:
    async with plane(tmp_path, max_buffered=10_000) as running:
        client = await running.connect(["operator.read"])
        running.hub.publish(PlaneEvent("cron", {"n": 1}, drop_if_slow=True))
        running.hub.publish(PlaneEvent("cron", {"n": "x" * 20_000}, drop_if_slow=True))
        running.hub.publish(PlaneEvent("cron", {"n": 3}))
        assert [(await client.frame())["seq"] for _ in range(2)] == [1, 3]


@on_loop
async def test_a_half_open_socket_is_let_go(tmp_path: Path) -> None:
    async with plane(tmp_path, timing=QUICK) as running:
        socket = await running.http.ws_connect(running.url, autoping=False)
        client = RawClient(socket)
        client.challenge = (await client.frame())["payload"]
        assert (await client.say_connect(connect_params()))["ok"]
        while running.hub.connections:
            await asyncio.sleep(0.01)


@on_loop
async def test_ticks_come_to_everybody(tmp_path: Path) -> None:
    async with plane(tmp_path, timing=QUICK) as running, asyncio.TaskGroup() as group:
        ticking = group.create_task(running.server.run())
        client = await running.connect([], client="test", mode="test")
        first, second = await client.event("tick"), await client.event("tick")
        assert second["seq"] > first["seq"]
        ticking.cancel()


@on_loop
async def test_a_silent_client_is_closed_after_the_handshake_time(tmp_path: Path) -> None:
    async with plane(tmp_path, timing=QUICK) as running:
        client = await running.open()
        assert await client.until_closed() == (1000, "")


@on_loop
async def test_binary_frames_end_a_handshake_and_are_ignored_after_it(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        stranger = await running.open()
        await stranger.socket.send_bytes(b"\x00\x01")
        assert await stranger.until_closed() == (1000, "")
        client = await running.connect()
        await client.socket.send_bytes(b"\x00\x01")
        assert (await client.call("health"))["ok"]


@on_loop
async def test_a_message_in_fragments_is_one_message_and_its_limit_holds(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        client = await running.open()
        text = json.dumps({"type": "req", "id": "c", "method": "connect", "params": connect_params()}).encode()
        writer = client.socket._writer
        await writer.send_frame(text[:20], 1 | 0)  # type: ignore[arg-type]
        stranger = await running.open()
        transport = stranger.socket._response.connection.transport  # type: ignore[union-attr]
        for _ in range(3):
            # Unfinished text frames (FIN not set), masked with zeros: 30,000 bytes each.
            transport.write(bytes([0x01 if _ == 0 else 0x00, 0xFE]) + (30_000).to_bytes(2) + bytes(4) + b"x" * 30_000)
        assert (await stranger.until_closed())[0] == 1009


@on_loop
async def test_the_limit_before_authentication_is_exact(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        for size, expected in ((MAX_BEFORE_AUTH, 1000), (MAX_BEFORE_AUTH + 1, 1009)):
            client = await running.open()
            await client.socket.send_str("x" * size)
            assert (await client.until_closed())[0] == expected


@on_loop
async def test_after_authentication_large_frames_pass(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        client = await running.connect()
        await client.socket.send_str("x" * 3_000_000)
        assert (await client.call("health"))["ok"]


@on_loop
async def test_a_cut_emoji_does_not_cost_the_request(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        client = await running.connect()
        await client.socket.send_str('{"type":"req","id":"\\ud83d","method":"health"}')
        assert (await client.answer("\ufffd"))["ok"]


@on_loop
async def test_duplicate_ids_are_each_answered(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        client = await running.connect()
        for _ in range(2):
            await client.socket.send_json({"type": "req", "id": "same", "method": "status"})
        assert [(await client.answer("same"))["ok"] for _ in range(2)] == [True, True]


@on_loop
async def test_strangers_are_bounded_and_those_inside_are_not_disturbed(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tidegate.gateway.plane.server.MAX_STRANGERS", 20)
    async with plane(tmp_path) as running:
        inside = await running.connect()
        strangers = [await running.open() for _ in range(20)]
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await running.open()
        assert caught.value.status == 503
        assert (await inside.call("health"))["ok"]
        await strangers[0].socket.close()
        while True:
            try:
                await running.connect()
                break
            except aiohttp.WSServerHandshakeError:
                await asyncio.sleep(0.01)


@on_loop
async def test_a_stop_is_told_before_the_socket_closes(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        client = await running.connect()
        await running.server.stop("update")
        assert await client.until_closed() == (1012, "service restart")
        assert [e["payload"] for e in client.events if e["event"] == "shutdown"] == [{"reason": "update"}]
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await running.open()


@on_loop
async def test_a_device_that_asks_for_more_hears_the_decision(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        device = await running.open()
        await device.connect_device(Key(3), scopes=["operator.read"])
        asked = await device.call("device.scopes.requestUpgrade", {"scopes": ["operator.write"]})
        request = {"requestId": asked["payload"]["requestId"]}
        admin = await running.connect()
        await device.socket.send_json(
            {"type": "req", "id": "w", "method": "device.scopes.waitUpgrade", "params": request}
        )
        assert (await admin.call("device.pair.approve", request))["ok"]
        decided = (await device.answer("w"))["payload"]
        assert (decided["status"], decided["scopes"]) == ("approved", ["operator.read", "operator.write"])
        again = await running.open()
        auth = {"deviceToken": decided["deviceToken"]}
        assert (await again.connect_device(Key(3), scopes=["operator.write"], auth=auth))["ok"]


@on_loop
async def test_a_name_given_by_a_person_stays(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        device = await running.open()
        await device.connect_device(Key(4))
        admin = await running.connect()
        assert (await admin.call("device.pair.rename", {"deviceId": Key(4).id, "label": " Kitchen "}))["ok"]
        again = await running.open()
        await again.connect_device(Key(4), about={"displayName": "told"})
        listed = await admin.call("device.pair.list")
        assert listed["payload"]["paired"][0]["displayName"] == "Kitchen"


@on_loop
async def test_a_device_may_rotate_its_own_token_and_goes_on(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        first = await running.open()
        scopes = ["operator.pairing", "operator.read"]
        token = (await first.connect_device(Key(5), scopes=scopes))["payload"]["auth"]["deviceToken"]
        own = await running.open()
        await own.connect_device(Key(5), scopes=scopes, auth={"deviceToken": token})
        answer = await own.call("device.token.rotate", {"deviceId": Key(5).id, "role": "operator"})
        assert answer["payload"]["tokenDelivery"] == "in-band"
        assert await first.until_closed() == (4001, "device removed")
        assert (await own.call("health"))["ok"]
        again = await running.open()
        assert (await again.connect_device(Key(5), auth={"deviceToken": answer["payload"]["token"]}))["ok"]


@on_loop
async def test_the_shared_secret_is_taken_in_either_field(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        for auth in ({"token": TOKEN}, {"password": TOKEN}, {"token": TOKEN, "password": "wrong"}):
            client = await running.open()
            answer = await client.say_connect(connect_params(auth=auth))
            assert answer["payload"]["auth"]["method"] == "token"
        client = await running.open()
        wrong = await client.say_connect(connect_params(auth={"token": "wrong", "password": TOKEN}))
        assert wrong["error"]["details"]["code"] == "AUTH_TOKEN_MISMATCH"
