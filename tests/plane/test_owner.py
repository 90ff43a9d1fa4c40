"""The owner of the state directory: the private socket, our own methods, and the bare store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from cli.driver import short_state_dir
from fakes.event_loop import on_loop
from harness.stage import stage
from plane.client import Key, RawClient, connect_params
from plane.talking import talking
from tidegate.gateway.app import Gateway
from tidegate.gateway.client.errors import Unreachable
from tidegate.gateway.offline import ask_store
from tidegate.gateway.plane import server
from tidegate.gateway.plane.contract import RpcError
from tidegate.gateway.site import Site


@asynccontextmanager
async def owned(folder: Path) -> AsyncIterator[tuple[Gateway, aiohttp.ClientSession]]:
    async with stage(folder) as place, place.gateway() as gateway:
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(folder / "gateway.sock"))) as http:
            yield gateway, http


async def connected(http: aiohttp.ClientSession, scopes: Sequence[str] = (), **fields: Any) -> dict[str, Any]:
    async with http.ws_connect("http://localhost/plane") as socket:
        client = RawClient(socket)
        await client.frame()
        return await client.say_connect(connect_params(scopes=scopes, auth={}, **fields))


@on_loop
async def test_who_can_open_the_private_socket_holds_every_right_without_a_secret() -> None:
    with short_state_dir() as folder:
        async with owned(folder) as (_, http):
            everything = await connected(http)
            narrowed = await connected(http, ["operator.read"])
    assert everything["payload"]["auth"] == {"method": "owner", "role": "operator", "scopes": ["operator.admin"]}
    assert narrowed["payload"]["auth"]["scopes"] == ["operator.read"]


@on_loop
async def test_a_node_does_not_come_in_through_the_private_socket() -> None:
    with short_state_dir() as folder:
        async with owned(folder) as (_, http):
            answer = await connected(http, role="node")
    assert answer["error"]["message"] == "invalid role"


@on_loop
async def test_the_path_of_the_private_socket_gives_no_rights_on_the_port() -> None:
    with short_state_dir() as folder:
        async with owned(folder) as (gateway, _), aiohttp.ClientSession() as http:
            async with http.ws_connect(f"http://127.0.0.1:{gateway.port}/plane") as socket:
                client = RawClient(socket)
                await client.frame()
                answer = await client.say_connect(connect_params(auth={}))
    assert answer["error"]["details"]["code"] == "DEVICE_IDENTITY_REQUIRED"


@on_loop
async def test_methods_that_go_on_after_their_answer_are_refused_without_a_connection() -> None:
    with short_state_dir() as folder:
        async with owned(folder) as (_, http):
            params = {"message": "hi", "idempotencyKey": "k"}
            async with http.post("http://localhost/rpc/agent", json=params) as answer:
                assert "needs a connection" in (await answer.json())["error"]
            async with http.post("http://localhost/rpc/sessions.list", json={}) as answer:
                assert (await answer.json())["result"]["sessions"] == []


@on_loop
async def test_our_own_methods_answer_what_the_private_socket_answers(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        await talk.say("hello", "r1")
        await talk.until("r1", "final")
        (row,) = await talk.ok("tidegate.sessions.list")
        shown = await talk.ok("tidegate.sessions.show", key=row["key"])
        status = await talk.ok("tidegate.status")
        refused = await talk.error("tidegate.deliveries.show", id=999)
        report = await talk.ok("tidegate.config.check", effective=True)
        reader = await talk.connect(scopes=["operator.read"])
        narrow = (await reader.call("tidegate.status"))["payload"]
        pairing = await reader.call("tidegate.pairing.list")
    assert [message["role"] for message in shown["messages"]] == ["user", "assistant"]
    assert status["store"]["path"].startswith(str(tmp_path))
    assert (refused["code"], "no delivery 999" in refused["message"]) == ("INVALID_REQUEST", True)
    assert report["ok"]
    assert "secret-key-of-the-model" not in str(report["effective"])
    assert str(tmp_path) not in str(narrow)
    assert pairing["error"]["message"] == "missing scope: operator.pairing"


@on_loop
async def test_a_device_that_asked_is_approved_while_no_gateway_runs_and_comes_in_afterwards() -> None:
    key = Key(9)
    with short_state_dir() as folder:
        config = "gateway: { nodes: { pairing: { autoApproveLocal: false } } }"
        async with stage(folder, more=config) as place:

            async def say_hello(gateway: Gateway) -> dict[str, Any]:
                token = (folder / "gateway.token").read_text().strip()
                async with aiohttp.ClientSession() as http:
                    async with http.ws_connect(f"http://127.0.0.1:{gateway.port}/") as socket:
                        client = RawClient(socket)
                        client.challenge = (await client.frame())["payload"]
                        return await client.connect_device(key, auth={"token": token})

            async with place.gateway() as gateway:
                asked = await say_hello(gateway)
            site = Site(folder, place.config_path)

            def offline(method: str, **params: Any) -> Any:
                return ask_store(site, {"HOME": str(folder)}, method, params)

            listed = await asyncio.to_thread(offline, "device.pair.list")
            request = listed["pending"][0]["requestId"]
            with pytest.raises(Unreachable, match="no gateway runs"):
                await asyncio.to_thread(offline, "channels.status")
            with pytest.raises(RpcError, match="unknown requestId"):
                await asyncio.to_thread(offline, "device.pair.approve", requestId="no such")
            await asyncio.to_thread(offline, "device.pair.approve", requestId=request)
            async with place.gateway() as gateway:
                again = await say_hello(gateway)
    assert asked["error"]["details"]["requestId"] == request
    assert again["ok"], again


@on_loop
async def test_strangers_cannot_fill_the_door_of_the_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_STRANGERS", 3)
    with short_state_dir() as folder:
        async with owned(folder) as (gateway, http), aiohttp.ClientSession() as strange:
            url = f"http://127.0.0.1:{gateway.port}/"
            held = [await strange.ws_connect(url) for _ in range(3)]
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await strange.ws_connect(url)
            assert (await connected(http))["ok"]
            for socket in held:
                await socket.close()
