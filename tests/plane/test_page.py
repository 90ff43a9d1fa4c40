"""The web chat's side of the control plane: login codes, what they give, and rendered Markdown."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from fakes.event_loop import on_loop
from plane.client import QUICK, TOKEN, Key, Plane, RawClient, plane, with_rules
from plane.talking import talking
from tidegate.clock import MINUTE, ManualClock
from tidegate.config.load import load_config
from tidegate.config.reload import NONE, effect_of
from tidegate.gateway.plane.auth import AuthSettings
from tidegate.gateway.plane.page_methods import MAX_RENDERED, PAGE_SCOPES
from tidegate.gateway.plane.peers import parse_networks

PAGE = {"client": "webchat", "mode": "webchat", "scopes": list(PAGE_SCOPES)}
SETTINGS = AuthSettings("token", TOKEN, rules=QUICK)


async def from_page(running: Plane, key: Key, **fields: object) -> dict[str, object]:
    """Connect as the page does: with an origin; returns the answer."""
    client = await running.open(headers={"Origin": running.url})
    return await client.connect_device(key, **{**PAGE, **fields})  # type: ignore[arg-type]


@on_loop
async def test_a_code_gives_what_chatting_needs_and_no_more(tmp_path: Path) -> None:
    async with plane(tmp_path, settings=replace(SETTINGS, auto_approve_local=False)) as running:
        code, _ = await running.book.new_setup_code("operator", PAGE_SCOPES)
        wide = await from_page(running, Key(40), auth={"bootstrapToken": code}, scopes=["operator.admin"])
        assert wide["error"]["details"]["code"] == "AUTH_BOOTSTRAP_TOKEN_INVALID"  # type: ignore[index]
        code, _ = await running.book.new_setup_code("operator", PAGE_SCOPES)
        answer = await from_page(running, Key(40), auth={"bootstrapToken": code})
        assert answer["payload"]["auth"]["scopes"] == ["operator.read", "operator.write"]  # type: ignore[index]


@on_loop
async def test_a_code_is_over_after_ten_minutes(tmp_path: Path) -> None:
    clock = ManualClock()
    async with plane(tmp_path, settings=SETTINGS, clock=clock) as running:
        code, _ = await running.book.new_setup_code("operator", PAGE_SCOPES)
        clock.advance(10 * MINUTE + 1)
        answer = await from_page(running, Key(41), auth={"bootstrapToken": code})
        assert answer["error"]["details"]["code"] == "AUTH_BOOTSTRAP_TOKEN_INVALID"  # type: ignore[index]


@on_loop
async def test_of_many_that_use_one_code_at_a_time_one_comes_in(tmp_path: Path) -> None:
    async with plane(tmp_path, settings=SETTINGS) as running:
        code, _ = await running.book.new_setup_code("operator", PAGE_SCOPES)
        async with asyncio.TaskGroup() as group:
            tries = [
                group.create_task(from_page(running, Key(50 + number), auth={"bootstrapToken": code}))
                for number in range(8)
            ]
        assert sum(bool(task.result()["ok"]) for task in tries) == 1


@on_loop
async def test_guessing_codes_locks_an_address_out(tmp_path: Path) -> None:
    settings = with_rules(replace(SETTINGS, trusted_proxies=parse_networks(["127.0.0.1"])), max_attempts=3)
    far = {"X-Forwarded-For": "198.51.100.7"}
    async with plane(tmp_path, settings=settings) as running:
        code, _ = await running.book.new_setup_code("operator", PAGE_SCOPES)
        for _ in range(3):
            client = await running.open(headers=far)
            answer = await client.connect_device(Key(42), **PAGE, auth={"bootstrapToken": "guess"})  # type: ignore[arg-type]
            assert answer["error"]["details"]["code"] == "AUTH_BOOTSTRAP_TOKEN_INVALID"
        client = await running.open(headers=far)
        answer = await client.connect_device(Key(42), **PAGE, auth={"bootstrapToken": code})  # type: ignore[arg-type]
        assert answer["error"]["details"]["code"] == "AUTH_RATE_LIMITED"


@on_loop
async def test_a_code_counts_where_no_secret_is_asked_for(tmp_path: Path) -> None:
    async with plane(tmp_path, settings=AuthSettings("none", rules=QUICK)) as running:
        waits = await from_page(running, Key(43), auth={})
        assert waits["error"]["code"] == "NOT_PAIRED"  # type: ignore[index]
        code, _ = await running.book.new_setup_code("operator", PAGE_SCOPES)
        assert (await from_page(running, Key(43), auth={"bootstrapToken": code}))["ok"]
        wrong = await from_page(running, Key(44), auth={"bootstrapToken": code})
        assert wrong["error"]["details"]["code"] == "AUTH_BOOTSTRAP_TOKEN_INVALID"  # type: ignore[index]


@on_loop
async def test_a_page_is_paired_at_once_only_here_and_only_with_the_secret(tmp_path: Path) -> None:
    settings = replace(SETTINGS, trusted_proxies=parse_networks(["127.0.0.1"]))
    async with plane(tmp_path, settings=settings) as running:
        assert (await from_page(running, Key(45)))["ok"]
        # Another kind of client in a browser is not ours.
        other = await from_page(running, Key(46), client="test", mode="test")
        assert other["error"]["code"] == "NOT_PAIRED"  # type: ignore[index]
        client = await running.open(headers={"X-Forwarded-For": "198.51.100.7"})
        far = await client.connect_device(Key(47), **PAGE)  # type: ignore[arg-type]
        assert far["error"]["code"] == "NOT_PAIRED"
        manual = replace(settings, auto_approve_local=False)
        running.server.use_auth(manual)
        assert (await from_page(running, Key(48)))["error"]["code"] == "NOT_PAIRED"  # type: ignore[index]


@on_loop
async def test_markdown_is_rendered_within_bounds(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        found = await talk.ok("tidegate.web.render", texts=["**a**", "<script>"])
        assert found == {
            "html": ['<p dir="auto"><strong>a</strong></p>', '<p dir="auto">&lt;script&gt;</p>'],
        }
        assert await talk.ok("tidegate.web.render", texts=[]) == {"html": []}
        half = "a" * (MAX_RENDERED // 2)
        for texts in ([half, half, "a"], ["a" * (MAX_RENDERED + 1)], ["a"] * 65):
            assert (await talk.error("tidegate.web.render", texts=texts))["code"] == "INVALID_REQUEST"
        assert "tidegate.web.render" not in talk.client.hello["features"]["methods"]


@on_loop
async def test_a_code_is_made_by_those_who_hold_everything(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        made = await talk.ok("tidegate.web.code")
        assert made["addresses"] == [f"http://127.0.0.1:{talk.gateway.port}"]
        assert made["expiresAtMs"] > 0
        lesser = await talk.connect(scopes=["operator.write", "operator.pairing"])
        assert (await lesser.call("tidegate.web.code"))["error"]["details"]["code"] == "MISSING_SCOPE"


@on_loop
async def test_the_page_is_for_its_own_name_and_origin_only(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        url = f"http://127.0.0.1:{talk.gateway.port}"
        for path in ("/", "/chat", "/assets/main.js"):
            async with talk.http.get(url + path) as answer:
                assert answer.status == 200, path
                assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
            for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
                async with talk.http.get(url + path, headers=headers) as answer:
                    assert answer.status == 403, (path, headers)


@on_loop
async def test_the_page_goes_and_comes_with_the_setting_at_once(tmp_path: Path) -> None:
    assert effect_of(("gateway", "controlUi", "enabled")) == NONE
    async with talking(tmp_path) as talk:
        url = f"http://127.0.0.1:{talk.gateway.port}/"
        for enabled, status in (("false", 404), ("true", 200)):
            talk.stage.write_config(f"gateway: {{ controlUi: {{ enabled: {enabled} }} }},")
            path, home = talk.stage.config_path, {"HOME": str(tmp_path)}
            talk.gateway.apply(load_config(path, environ=home, state_dir=tmp_path))
            async with talk.http.get(url) as answer:
                assert answer.status == status


@on_loop
async def test_a_device_that_leaves_is_forgotten_and_all_its_connections_end(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        assert (await talk.error("tidegate.web.leave"))["message"] == "only a paired device can leave"
        secret = (talk.stage.state_dir / "gateway.token").read_text().strip()

        async def come(**auth: str) -> RawClient:
            client = RawClient(await talk.http.ws_connect(f"http://127.0.0.1:{talk.gateway.port}/"))
            client.challenge = (await client.frame())["payload"]
            client.hello = await client.connect_device(Key(60), scopes=["operator.read"], auth=auth)
            return client

        one = await come(token=secret)
        own = one.hello["payload"]["auth"]["deviceToken"]
        two = await come(deviceToken=own)
        (device,) = await talk.gateway.store.devices()
        answer = await one.call("tidegate.web.leave", {})
        assert answer["payload"] == {"deviceId": device.id}
        assert await talk.gateway.store.devices() == []
        for client in (two, one):
            assert (await client.until_closed())[0] == 4001
        again = await come(deviceToken=own)
        assert again.hello["error"]["details"]["code"] == "AUTH_DEVICE_TOKEN_MISMATCH"
