"""How a browser comes in, and what it shows when it may not."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from playwright.async_api import Dialog

from harness.stage import stage
from tidegate.gateway.app import Gateway
from tidegate.gateway.plane.owner import call_as_owner
from web.browser import Window, address, browsers, in_browser, login_link, open_chat

ASK_FIRST = "gateway: { nodes: { pairing: { autoApproveLocal: false } } },"


async def enter(window: Window, text: str) -> None:
    """Type a secret into the form."""
    await window.page.get_by_label("Login link, setup code, token or password").fill(text)
    await window.page.get_by_role("button", name="Enter").click()


async def request_id(window: Window) -> str:
    """Return the request that a waiting browser shows."""
    return (await window.page.locator(".request-id").text_content()) or ""


async def owner(gateway: Gateway, method: str, **params: object) -> object:
    """Do something as the owner of the gateway."""
    return await call_as_owner(gateway.plane.server.methods, method, params)


def token(state_dir: Path) -> str:
    """Return the gateway's token."""
    return (state_dir / "gateway.token").read_text().strip()


@in_browser
async def test_a_link_lets_one_browser_in_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, place.gateway() as gateway, browsers() as found:
        link = await login_link(gateway)
        code = link.partition("#code=")[2]
        first = await found.window(link)
        await first.sees(".composer")
        assert "code" not in first.page.url
        assert await first.page.evaluate("history.length") <= 2
        second = await found.window(link)
        await second.is_told("That link is used up")
        for window in (first, second):
            assert window.problems == []
            assert await window.context.cookies() == []
            secrets = (code, token(tmp_path))
            assert not [url for url in window.requested if any(secret in url for secret in secrets)]
        # The browser that is in may open the old link again.
        await first.page.goto(link)
        await first.page.reload()
        await first.sees(".composer")
        assert "code" not in first.page.url
        devices = await gateway.store.devices()
        assert [(d.approved_via, d.scopes) for d in devices] == [("bootstrap", ("operator.read", "operator.write"))]


@in_browser
async def test_the_key_of_a_browser_cannot_be_taken_out(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (_, gateway, window):
        key = await window.page.evaluate(
            """() => new Promise((resolve) => {
              indexedDB.open("tidegate").onsuccess = (opened) => {
                const wanted = opened.target.result.transaction("kept").objectStore("kept").get("key");
                wanted.onsuccess = () => resolve([wanted.result.privateKey.extractable,
                  wanted.result.privateKey.algorithm.name]);
              };
            })"""
        )
        assert key == [False, "Ed25519"]
        code = (await login_link(gateway)).partition("#code=")[2]
        stored = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.name.startswith("tidegate.db"))
        assert code.encode() not in stored


@in_browser
async def test_a_link_in_a_tab_that_shows_the_page_counts_too(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, place.gateway() as gateway, browsers() as found:
        window = await found.window(address(gateway))
        await window.is_told("Who is there?")
        await window.page.goto(await login_link(gateway))
        await window.sees(".composer")
        assert "code" not in window.page.url


@in_browser
async def test_the_token_lets_a_browser_on_this_machine_in_and_is_not_kept(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, place.gateway() as gateway, browsers() as found:
        window = await found.window(address(gateway))
        await enter(window, "not the token")
        await window.is_told("That was not it")
        await enter(window, token(tmp_path))
        await window.sees(".composer")
        kept = await window.page.evaluate("JSON.stringify(localStorage) + JSON.stringify(sessionStorage)")
        assert token(tmp_path) not in kept
        await window.page.reload()
        await window.sees(".composer")
        assert window.problems == []


@in_browser
async def test_a_setup_code_that_somebody_pastes_lets_a_browser_in(tmp_path: Path) -> None:
    async with stage(tmp_path, more=ASK_FIRST) as place, place.gateway() as gateway, browsers() as found:
        made = await owner(gateway, "device.pair.setupCode", publicUrl="wss://gate.test")
        assert isinstance(made, dict)
        window = await found.window(address(gateway))
        await enter(window, "e30")
        await window.is_told("That was not it")
        await enter(window, f" {made['setupCode']}\n")
        await window.sees(".composer")
        assert window.problems == []


@in_browser
async def test_two_browsers_that_wait_see_their_own_request_only(tmp_path: Path) -> None:
    async with stage(tmp_path, more=ASK_FIRST) as place, place.gateway() as gateway, browsers() as found:
        one, two = await found.window(address(gateway)), await found.window(address(gateway))
        for window in (one, two):
            await enter(window, token(tmp_path))
        first, second = await request_id(one), await request_id(two)
        assert first
        assert second
        assert first != second
        assert f"tidegate devices approve {first}" in await one.page.inner_text("main")
        assert second not in await one.page.content()
        assert first not in await two.page.content()
        await owner(gateway, "device.pair.approve", requestId=first)
        await one.sees(".composer")
        assert await request_id(two) == second
        assert await two.page.locator(".composer").count() == 0
        assert one.problems == two.problems == []


@in_browser
async def test_a_revoked_browser_is_thrown_out_and_a_new_link_lets_it_in_again(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (_, gateway, window):
        device = (await gateway.store.devices())[0].id
        await owner(gateway, "device.token.revoke", deviceId=device, role="operator")
        await window.is_told("This browser was logged out")
        assert await window.page.locator(".composer").count() == 0
        await window.page.reload()
        await window.is_told("Who is there?")
        await window.page.goto(await login_link(gateway))
        await window.sees(".composer")


@in_browser
async def test_without_a_secret_a_browser_waits_or_shows_a_code(tmp_path: Path) -> None:
    more = 'gateway: { auth: { mode: "none" } },'
    async with stage(tmp_path, more=more) as place, place.gateway() as gateway, browsers() as found:
        window = await found.window(address(gateway))
        await owner(gateway, "device.pair.approve", requestId=await request_id(window))
        await window.sees(".composer")
        other = await found.window(await login_link(gateway))
        await other.sees(".composer")


@in_browser
async def test_too_many_wrong_secrets_are_told_with_the_time_to_wait(tmp_path: Path) -> None:
    more = "gateway: { auth: { rateLimit: { maxAttempts: 2, exemptLoopback: false } } },"
    async with stage(tmp_path, more=more) as place, place.gateway() as gateway, browsers() as found:
        window = await found.window(address(gateway))
        for _ in range(2):
            await enter(window, "wrong")
            await window.is_told("That was not it")
        await enter(window, token(tmp_path))
        await window.is_told("Too many wrong attempts")
        assert re.search(r"Trying again in \d+ (seconds|minutes)", await window.page.inner_text("main"))


@in_browser
async def test_over_plain_http_from_elsewhere_the_page_says_what_to_do(tmp_path: Path) -> None:
    more = 'gateway: { controlUi: { allowedOrigins: ["http://gate.test"] } },'
    async with stage(tmp_path, more=more) as place, place.gateway() as gateway, browsers() as found:
        window = await found.window(f"http://gate.test:{gateway.port}/")
        await window.is_told("This address is not safe enough")
        assert f"ssh -L {gateway.port}:127.0.0.1:{gateway.port} gate.test" in await window.page.inner_text("main")
        assert window.sockets == []


@in_browser
async def test_a_gateway_that_went_away_is_waited_for(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, browsers() as found:
        async with place.gateway() as gateway:
            port = gateway.port
            window = await found.window(address(gateway))
            await window.is_told("Who is there?")
        await enter(window, token(tmp_path))
        await window.is_told("The gateway does not answer")
        async with place.gateway(port=port):
            await window.sees(".composer")


@in_browser
async def test_logging_out_forgets_the_key(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (_, gateway, window):
        before = {device.id for device in await gateway.store.devices()}
        window.page.on("dialog", lambda dialog: dialog.accept())
        await window.page.get_by_role("button", name="Log this browser out").click()
        await window.is_told("Who is there?")
        assert await window.page.evaluate("Object.keys(localStorage).length") == 0
        assert await gateway.store.devices() == []
        await window.page.goto(await login_link(gateway))
        await window.sees(".composer")
        after = {device.id for device in await gateway.store.devices()}
        assert (len(before), len(after), before & after) == (1, 1, set())
        assert window.problems == []


@in_browser
async def test_logging_out_while_the_gateway_is_away_says_what_stays_behind(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, browsers() as found:
        async with place.gateway() as gateway:
            window = await found.window(await login_link(gateway))
            await window.sees(".composer")
            (device,) = await gateway.store.devices()
        said: list[str] = []

        async def accept(dialog: Dialog) -> None:
            said.append(dialog.message)
            await dialog.accept()

        window.page.on("dialog", accept)
        await window.page.get_by_text("Reconnecting …").wait_for()
        await window.page.get_by_role("button", name="Log this browser out").click()
        while len(said) < 2:
            await window.page.wait_for_timeout(20)
        assert f"tidegate devices remove {device.id}" in said[-1]


@in_browser
async def test_a_browser_that_was_turned_down_stops_asking_until_somebody_wants_it_to(tmp_path: Path) -> None:
    async with stage(tmp_path, more=ASK_FIRST) as place, place.gateway() as gateway, browsers() as found:
        window = await found.window(address(gateway))
        await enter(window, token(tmp_path))
        first = await request_id(window)
        await owner(gateway, "device.pair.reject", requestId=first)
        await window.is_told("This browser was turned down")
        sockets = len(window.sockets)
        # Longer than a browser that waits lets pass between two questions.
        await asyncio.sleep(3)
        assert len(window.sockets) == sockets
        assert await gateway.store.device_requests() == []
        await window.page.get_by_role("button", name="Ask again").click()
        await window.is_told("Waiting to be let in")
        second = await request_id(window)
        assert second != first
        await owner(gateway, "device.pair.approve", requestId=second)
        await window.sees(".composer")
        assert window.problems == []


@in_browser
async def test_the_page_can_be_switched_off(tmp_path: Path) -> None:
    more = "gateway: { controlUi: { enabled: false } },"
    async with stage(tmp_path, more=more) as place, place.gateway() as gateway, browsers() as found:
        window = await found.browser.new_page()
        for path in ("", "chat", "assets/main.js"):
            answer = await window.goto(address(gateway) + path)
            assert answer is not None
            assert answer.status == 404
