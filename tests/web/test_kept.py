"""What the page keeps in the browser: several tabs share it, it can be full, and anything can stand in it."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.async_api import Page

from harness.stage import Stage, stage
from tidegate.gateway.app import Gateway
from web.browser import Window, address, browsers, in_browser, login_link, open_chat

MAIN = "agent:main:main"
FILL = """for (let size = 2 ** 22; size; size >>= 1) {
  try { for (let at = 0; ; at++) localStorage.setItem(`other.${size}.${at}`, "x".repeat(size)); } catch { }
}"""
"""Leaves not one character of the storage free."""
OFF = """Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("denied", "SecurityError"); },
});"""
WAITS = "Will be sent when the gateway is back"


async def type_in(page: Page, text: str) -> None:
    """Type a message and send it."""
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.keyboard.press("Enter")


async def tab_of(window: Window, where: str) -> Page:
    """Open the page once more in the same browser."""
    page = await window.context.new_page()
    page.on("pageerror", lambda error: window.problems.append(str(error)))
    await page.goto(where)
    await page.locator(".composer").wait_for()
    return page


async def kept(page: Page) -> list[str]:
    """Return the names of what is kept for sending."""
    names: list[str] = await page.evaluate("Object.keys(localStorage)")
    return [name for name in names if name.startswith("tidegate.outbox")]


async def shows_once(page: Page, *texts: str) -> None:
    """Wait until these have been answered, and see that everything stands there once."""
    for text in texts:
        await page.locator(".answer:not(.is-growing)", has_text=f"echo: {text}").wait_for()
    await page.locator(".said.is-open").first.wait_for(state="detached")
    assert sorted(await page.locator(".bubble").all_inner_texts()) == sorted(texts)


def asked(place: Stage) -> list[str]:
    """Return what the model was asked."""
    return sorted(ask.last for ask in place.brain.asks)


def message(**fields: object) -> dict[str, object]:
    """Return one as it is stored."""
    return {"id": "one", "key": MAIN, "text": "hello", "at": 1_700_000_000_000, "state": "unsent", "after": 0} | fields


async def second_tab(window: Window, gateway: Gateway) -> Page:
    """Return the second of two tabs, both connected."""
    await window.sees(".composer")
    return await tab_of(window, address(gateway))


@in_browser
async def test_what_two_closed_tabs_have_left_is_sent_by_the_next_one(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, browsers() as found:
        async with place.gateway() as gateway:
            port = gateway.port
            window = await found.window(await login_link(gateway))
            other = await second_tab(window, gateway)
        for page, text in ((window.page, "from A"), (other, "from B")):
            await page.get_by_text("Reconnecting").wait_for()
            await type_in(page, text)
        await window.page.locator(".said", has_text="from B").get_by_text(WAITS).wait_for()
        blank = await window.context.new_page()
        await window.page.close()
        await other.close()
        async with place.gateway(port=port) as gateway:
            await blank.goto(address(gateway))
            await shows_once(blank, "from A", "from B")
            assert asked(place) == ["from A", "from B"]
            assert await kept(blank) == []
            assert window.problems == []


@in_browser
async def test_two_open_tabs_show_and_send_a_message_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, browsers() as found:
        async with place.gateway() as gateway:
            port = gateway.port
            window = await found.window(await login_link(gateway))
            other = await second_tab(window, gateway)
        for page, text in ((window.page, "from A"), (other, "from B")):
            await page.get_by_text("Reconnecting").wait_for()
            await type_in(page, text)
        for page in (window.page, other):
            await page.locator(".said", has_text="from A").get_by_text(WAITS).wait_for()
            await page.locator(".said", has_text="from B").get_by_text(WAITS).wait_for()
            assert await page.locator(".said").count() == 2
        sent: list[str] = []
        for page in (window.page, other):
            page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(str(frame))))
        async with place.gateway(port=port):
            for page in (window.page, other):
                await shows_once(page, "from A", "from B")
            assert asked(place) == ["from A", "from B"]
            assert sum('"chat.send"' in frame for frame in sent) == 2
            assert await kept(other) == []
            assert window.problems == []


@in_browser
async def test_an_open_tab_sends_what_a_closed_one_has_left(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, browsers() as found:
        async with place.gateway() as gateway:
            port = gateway.port
            window = await found.window(await login_link(gateway))
            other = await second_tab(window, gateway)
        await other.get_by_text("Reconnecting").wait_for()
        await type_in(other, "from B")
        await window.page.locator(".said", has_text="from B").get_by_text(WAITS).wait_for()
        await other.close()
        async with place.gateway(port=port):
            await shows_once(window.page, "from B")
            assert asked(place) == ["from B"]
            assert window.problems == []


@in_browser
async def test_a_message_that_failed_stays_whatever_another_tab_does(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (place, gateway, window):
        other = await tab_of(window, address(gateway))
        failed = message(state="failed", reason="it was set aside")
        # As a third tab would.
        page = await window.context.new_page()
        await page.goto(address(gateway) + "assets/icon.svg")
        await page.evaluate("(text) => localStorage.setItem('tidegate.outbox.one', text)", json.dumps(failed))
        for tab in (window.page, other):
            await tab.get_by_text("Not answered: it was set aside").wait_for()
        await type_in(other, "something else")
        await other.locator(".answer:not(.is-growing)", has_text="echo: something else").wait_for()
        await other.reload()
        await other.get_by_role("button", name="Send again").click()
        for tab in (window.page, other):
            await tab.locator(".is-failed").wait_for(state="detached")
            await shows_once(tab, "something else", "hello")
        assert asked(place) == ["hello", "something else"]
        assert window.problems == []


@in_browser
async def test_what_an_earlier_version_kept_is_sent(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (place, _, window):
        old = [message(), message(id="two", text="again", state="failed", reason="it was set aside"), {"id": 3}, 0]
        await window.page.evaluate("(text) => localStorage.setItem('tidegate.outbox', text)", json.dumps(old))
        await window.page.reload()
        await window.hears("echo: hello")
        await window.page.get_by_text("Not answered: it was set aside").wait_for()
        assert asked(place) == ["hello"]
        assert await kept(window.page) == ["tidegate.outbox.two"]
        assert window.problems == []


@pytest.mark.parametrize("way", ["full", "off"])
@in_browser
async def test_without_storage_a_message_is_sent_and_one_is_told_that_it_is_not_kept(tmp_path: Path, way: str) -> None:
    async with stage(tmp_path) as place, browsers() as found:
        async with place.gateway() as gateway:
            port = gateway.port
            window = await found.window(await login_link(gateway))
            await window.sees(".composer")
            if way == "off":
                await window.context.add_init_script(OFF)
                await window.page.reload()
                await window.sees(".composer")
            else:
                await window.page.evaluate(FILL)
        await window.page.get_by_text("Reconnecting").wait_for()
        await window.say("meanwhile")
        await window.page.get_by_text("the storage of this browser is full or switched off").wait_for()
        async with place.gateway(port=port):
            await shows_once(window.page, "meanwhile")
            assert await window.page.get_by_text("switched off").count() == 0
            assert asked(place) == ["meanwhile"]
            assert window.problems == []


@in_browser
async def test_so_many_wait_and_no_more_and_what_is_typed_then_stays(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (place, _, window):
        many = [message(id=f"m{at}", text=f"number {at}", state="failed", reason="no") for at in range(100)]
        await window.page.evaluate(
            "(notes) => Object.assign(localStorage, notes)",
            {f"tidegate.outbox.{one['id']}": json.dumps(one) for one in many},
        )
        await window.page.reload()
        await window.sees(".is-failed", 100)
        await window.say("one more")
        await window.page.get_by_text("Too many messages wait already").wait_for()
        box = window.page.get_by_role("textbox", name="Message")
        assert await box.input_value() == "one more"
        await window.page.get_by_role("button", name="Remove").first.click()
        await window.page.get_by_text("Too many messages wait already").wait_for(state="detached")
        await box.press("Enter")
        await window.hears("echo: one more")
        assert asked(place) == ["one more"]


@in_browser
async def test_drafts_of_two_tabs_are_both_kept(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (_, gateway, window):
        first = f"{address(gateway)}#/chat/{MAIN}"
        second = f"{address(gateway)}#/chat/agent:main:other"
        other = await tab_of(window, second)
        for page, text in ((window.page, "one thought"), (other, "another")):
            await page.get_by_role("textbox", name="Message").fill(text)
            await page.close()
        for where, text in ((first, "one thought"), (second, "another")):
            page = await tab_of(window, where)
            assert await page.get_by_role("textbox", name="Message").input_value() == text


@pytest.mark.parametrize("name", ["agent%E0%A4%A", "agent%3Amain%3Ax%00", "agentx", "agent%", "%E0%A4%A"])
@in_browser
async def test_an_address_that_names_nothing_opens_the_last_session(tmp_path: Path, name: str) -> None:
    async with open_chat(tmp_path) as (place, gateway, window):
        last = f"{address(gateway)}#/chat/{quote(MAIN, safe='')}"
        await window.page.goto(f"{address(gateway)}#/chat/{name}")
        await window.page.wait_for_url(last)
        await window.page.goto("about:blank")
        await window.page.goto(f"{address(gateway)}#/chat/{name}")
        await window.page.wait_for_url(last)
        await window.say("is anybody there?")
        await window.hears("echo: is anybody there?")
        assert asked(place) == ["is anybody there?"]
        assert window.problems == []


FOREIGN: list[object] = [None, 0, 7, "text", True, [], {}, [[]], [None], {"a": {}}, {"messages": 1}, message(key=3)]
NAMES = ["outbox", "outbox.one", "outbox.", "drafts", "seen", "open", "showsApi", "showsArchived"]


@in_browser
async def test_whatever_stands_in_the_storage_the_page_works(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (place, _, window):
        values = [*map(json.dumps, FOREIGN), "{", "", '"\\ud800"', '{"__proto__": "x"}']
        for number, value in enumerate(values):
            notes = {f"tidegate.{name}": value for name in NAMES}
            await window.page.evaluate("(notes) => Object.assign(localStorage, notes)", notes)
            # Without a session in the address, so that what is noted as the last one counts.
            await window.page.evaluate("history.replaceState(null, '', '/')")
            await window.page.reload()
            await window.say(f"number {number}.")
            await window.hears(f"echo: number {number}.")
            await window.page.locator(".said.is-open").first.wait_for(state="detached")
            assert await kept(window.page) == []
            assert window.problems == [], value
        assert len(place.brain.asks) == len(values)


@in_browser
async def test_a_key_that_is_none_is_replaced(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (_, gateway, window):
        for store, value in (("kept", "{}"), ("kept", "{ privateKey: 1, publicKey: 2 }"), ("theirs", "1")):
            page = window.page
            await page.evaluate(
                f"""new Promise((resolve, reject) => {{
                  indexedDB.deleteDatabase("tidegate");
                  const request = indexedDB.open("tidegate", 1);
                  request.onupgradeneeded = () => {{
                    const store = request.result.createObjectStore("{store}");
                    store.put({value}, "key");
                    store.put({value}, "token");
                  }};
                  request.onsuccess = () => {{ request.result.close(); resolve(); }};
                  request.onerror = reject;
                }})"""
            )
            await page.reload()
            await window.is_told("Who is there?")
            await page.goto("about:blank")
            await page.goto(await login_link(gateway))
            await window.sees(".composer")
        assert window.problems == []
