"""The control plane of a whole gateway: its token, its facts, reload and restart."""

from __future__ import annotations

from pathlib import Path

import aiohttp

from fakes.event_loop import on_loop
from harness.stage import Stage, stage
from plane.client import Key, RawClient, connect_params
from tidegate.config.load import load_config
from tidegate.gateway.app import Gateway


async def knock(gateway: Gateway, http: aiohttp.ClientSession) -> RawClient:
    """Open a socket to a gateway."""
    client = RawClient(await http.ws_connect(f"http://127.0.0.1:{gateway.port}/"))
    client.challenge = (await client.frame())["payload"]
    return client


def token(set_up: Stage) -> dict[str, str]:
    """Return the token that the gateway made."""
    return {"token": (set_up.state_dir / "gateway.token").read_text().strip()}


@on_loop
async def test_the_made_token_opens_the_gateway_and_its_facts_are_true(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up, set_up.gateway() as gateway, aiohttp.ClientSession() as http:
        client = await knock(gateway, http)
        hello = (await client.say_connect(connect_params(scopes=["operator.admin"], auth=token(set_up))))["payload"]
        assert hello["snapshot"]["stateDir"] == str(tmp_path)
        assert hello["snapshot"]["sessionDefaults"]["mainSessionKey"] == "agent:main:main"
        health = (await client.call("health"))["payload"]
        assert health["channels"]["telegram"]["connected"] is True
        assert (await client.call("status"))["payload"]["sessions"]["count"] == 0


@on_loop
async def test_health_routes_answer_beside_the_sockets(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up, set_up.gateway() as gateway, aiohttp.ClientSession() as http:
        async with http.get(f"http://127.0.0.1:{gateway.port}/healthz") as answer:
            assert answer.status == 200
        async with http.get(f"http://127.0.0.1:{gateway.port}/nothing") as answer:
            assert answer.status == 404


@on_loop
async def test_a_reload_with_another_token_ends_connections_and_counts_at_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up, set_up.gateway() as gateway, aiohttp.ClientSession() as http:
        client = await knock(gateway, http)
        assert (await client.say_connect(connect_params(auth=token(set_up))))["ok"]
        old = token(set_up)
        set_up.write_config(more='gateway: { auth: { token: "another token" } },')
        gateway.apply(load_config(set_up.config_path, environ={"HOME": str(tmp_path)}, state_dir=tmp_path))
        assert await client.until_closed() == (4001, "gateway auth changed")
        assert not (await (await knock(gateway, http)).say_connect(connect_params(auth=old)))["ok"]
        new = connect_params(auth={"token": "another token"})
        assert (await (await knock(gateway, http)).say_connect(new))["ok"]


@on_loop
async def test_a_device_token_works_over_a_restart(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        async with set_up.gateway() as gateway, aiohttp.ClientSession() as http:
            client = await knock(gateway, http)
            answer = await client.connect_device(Key(40), auth=token(set_up))
            before = answer["payload"]["auth"]["deviceToken"]
        async with set_up.gateway() as gateway, aiohttp.ClientSession() as http:
            client = await knock(gateway, http)
            answer = await client.connect_device(Key(40), auth={"deviceToken": before})
            assert answer["payload"]["auth"]["deviceToken"] == before
            assert answer["payload"]["auth"]["method"] == "device-token"


@on_loop
async def test_a_stopping_gateway_says_so(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up, aiohttp.ClientSession() as http:
        async with set_up.gateway() as gateway:
            client = await knock(gateway, http)
            assert (await client.say_connect(connect_params(auth=token(set_up))))["ok"]
        assert await client.until_closed() == (1012, "service restart")
        assert [event["event"] for event in client.events if event["event"] != "health"] == ["shutdown"]
