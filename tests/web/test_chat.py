"""Talking to an agent in a browser: nothing is lost, nothing is shown twice, nothing in an answer runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from playwright.async_api import WebSocketRoute

from harness.brain import Answer, Ask, Error, Tools, echo
from harness.stage import stage
from tidegate.gateway.plane.owner import call_as_owner
from web.browser import Web, address, browsers, in_browser, login_link, open_chat

HOSTILE = """<script>window.hacked = 1</script>
<img src=x onerror="window.hacked = 2"> ![pixel](https://evil.example/p.png)
[link](javascript:window.hacked=3) <a href="javascript:window.hacked=4">x</a>
<style>* { display: none }</style><iframe src="https://evil.example"></iframe>

```"><script>window.hacked = 5</script>
</code></pre><svg onload="window.hacked = 6">
```

| <b onmouseover="window.hacked = 7">a</b> | b |
|---|---|
| <form action="https://evil.example"> | <meta http-equiv="refresh" content="0;url=https://evil.example"> |
"""


@in_browser
async def test_an_answer_grows_while_it_is_written_and_ends_rendered(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (place, _, window):

        async def think(_: Ask) -> Answer:
            return "First **words**.\n\n" + "and more of them " * 30 + "\n\n- the *end*"

        place.brain.think, place.brain.pace = think, 0.02
        await window.say("tell me")
        await window.sees(".answer.is-growing .prose strong")
        early = len(await window.page.inner_text(".answer"))
        assert await window.page.locator(".stop").is_visible()
        await window.sees(".answer:not(.is-growing) li em")
        assert len(await window.page.inner_text(".answer")) > early
        assert await window.page.locator(".said").all_inner_texts() == [await window.page.inner_text(".said")]
        assert await window.page.locator(".answer").count() == 1
        await window.page.locator(".stop").wait_for(state="hidden")
        assert window.problems == []


@in_browser
async def test_esc_stops_a_running_answer_and_what_was_said_stays(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (place, _, window):

        async def think(_: Ask) -> Answer:
            return "word " * 400

        place.brain.think, place.brain.pace = think, 0.05
        await window.say("go on for long")
        await window.page.get_by_text("word word word").wait_for()
        await window.page.keyboard.press("Escape")
        await window.page.get_by_text("Stopped here").wait_for()
        await window.page.locator(".stop").wait_for(state="hidden")
        assert (await window.page.inner_text(".answer .prose")).startswith("word word")
        await window.page.reload()
        await window.sees(".answer")
        assert (await window.page.inner_text(".answer .prose")).startswith("word word")
        assert await window.page.locator(".said").count() == 1
        assert await window.page.locator(".answer + .is-stopped").count() == 1
        assert await window.page.locator(".is-stopped").count() == 1


@in_browser
async def test_a_reload_keeps_the_session_the_history_and_the_draft(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (_, _gateway, window):
        await window.page.get_by_role("button", name="New conversation").first.click()
        await window.say("remember me")
        await window.sees(".answer:not(.is-growing)")
        await window.page.get_by_role("textbox", name="Message").fill("half a thought")
        where = window.page.url
        await window.page.reload()
        await window.sees(".answer")
        assert window.page.url == where
        assert await window.page.locator(".bubble").all_inner_texts() == ["remember me"]
        assert await window.page.get_by_role("textbox", name="Message").input_value() == "half a thought"
        assert await window.page.locator(".session.is-current .session-title").inner_text() == "remember me"


@in_browser
async def test_a_reload_in_the_middle_of_an_answer_shows_it_once(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (place, _, window):

        async def think(ask: Ask) -> Answer:
            if not ask.results:
                return Tools((("ls", {"path": "."}),), "I look first.")
            return "There it is. " + "word " * 60

        place.brain.think, place.brain.pace = think, 0.03
        await window.say("look")
        await window.page.locator(".prose", has_text="There it is.").wait_for()
        await window.page.reload()
        await window.page.locator(".prose", has_text="There it is.").wait_for()
        await window.page.locator(".stop").wait_for(state="hidden")
        await window.sees(".answer:not(.is-growing)", 2)
        text = await window.page.inner_text(".entries")
        assert (text.count("I look first."), text.count("There it is."), text.count("word")) == (1, 1, 60)
        assert await window.page.locator(".tool").count() == 1
        assert window.problems == []


@in_browser
async def test_a_message_typed_while_the_gateway_is_away_is_sent_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, browsers() as found:
        async with place.gateway() as gateway:
            port = gateway.port
            window = await found.window(await login_link(gateway))
            await window.sees(".composer")
            await window.say("before")
            await window.sees(".answer:not(.is-growing)")
        await window.page.get_by_text("Reconnecting").wait_for()
        await window.say("meanwhile")
        await window.page.get_by_text("Will be sent when the gateway is back").wait_for()
        async with place.gateway(port=port):
            await window.hears("echo: meanwhile")
            await window.page.get_by_text("Connected").wait_for()
            assert await window.page.locator(".bubble").all_inner_texts() == ["before", "meanwhile"]
            assert [ask.last for ask in place.brain.asks] == ["before", "meanwhile"]
            # The same after a reload: what is shown is what the gateway holds.
            await window.page.reload()
            await window.hears("echo: meanwhile")
            assert await window.page.locator(".bubble").all_inner_texts() == ["before", "meanwhile"]
            assert window.problems == []


@in_browser
async def test_a_turn_that_a_crash_cuts_is_answered_once_after_the_restart(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, browsers() as found:
        gate = place.brain.hold("slow")
        async with place.gateway(drain=False) as gateway:
            port = gateway.port
            window = await found.window(await login_link(gateway))
            await window.sees(".composer")
            await window.say("slow question")
            await window.sees(".thinking")
            while not place.brain.asks:
                await asyncio.sleep(0.02)
        gate.set()
        async with place.gateway(port=port):
            await window.hears("echo: slow question")
            await window.page.locator(".stop").wait_for(state="hidden")
            assert await window.page.locator(".bubble").all_inner_texts() == ["slow question"]
            assert await window.page.locator(".answer").count() == 1


@in_browser
async def test_a_cut_that_is_no_stop_is_not_called_one_because_the_answer_goes_on(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (place, _, window):
        told: list[str] = []

        def connect(socket: WebSocketRoute) -> None:
            server = socket.connect_to_server()

            def pass_on(text: str | bytes) -> None:
                socket.send(text)
                payload = json.loads(text).get("payload") or {}
                if payload.get("state") == "delta" and not told:
                    # As a gateway says that is ended in the middle of an answer and takes it up again.
                    told.append(payload["runId"])
                    cut = {**payload, "state": "aborted", "stopReason": "stop"}
                    socket.send(json.dumps({"type": "event", "event": "chat", "payload": cut}))

            server.on_message(pass_on)

        async def think(_: Ask) -> Answer:
            return "word " * 120 + "the end"

        place.brain.think, place.brain.pace = think, 0.05
        await window.page.route_web_socket("**/*", connect)
        await window.page.reload()
        await window.sees(".composer")
        await window.say("go on")
        await window.hears("the end")
        await window.page.locator(".stop").wait_for(state="hidden")
        assert told
        assert await window.page.locator(".is-stopped").count() == 0
        assert await window.page.locator(".answer").count() == 1
        assert window.problems == []


@in_browser
async def test_a_hostile_answer_is_words(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (place, gateway, window):

        async def think(_: Ask) -> Answer:
            return HOSTILE

        place.brain.think, place.brain.pace = think, 0.005
        await window.say('<img src=x onerror="window.hacked=8">')
        await window.sees(".answer:not(.is-growing) .prose table")
        assert await window.page.evaluate("window.hacked") is None
        kinds = await window.page.evaluate(
            "[...new Set([...document.querySelectorAll('.prose *')].map((node) => node.tagName))].sort()"
        )
        assert set(kinds) <= {"P", "BR", "DIV", "SPAN", "BUTTON", "svg", "path", "PRE", "CODE", "TABLE", "THEAD"} | {
            "TBODY",
            "TR",
            "TH",
            "TD",
            "A",
        }
        links = await window.page.evaluate("[...document.querySelectorAll('.prose a')].map((a) => [a.href, a.rel])")
        assert links == [["https://evil.example/p.png", "noopener noreferrer nofollow"]] or all(
            href.startswith("https://evil.example") for href, _ in links
        )
        assert not [url for url in window.requested if not url.startswith(address(gateway))]
        assert "<script>window.hacked = 1</script>" in await window.page.inner_text(".entries")
        assert window.problems == []


@in_browser
async def test_code_is_copied_as_it_was_written(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (place, _, window):
        code = 'if a < b:\n    print("&amp;")'

        async def think(_: Ask) -> Answer:
            return f"Run this:\n\n```python\n{code}\n```"

        place.brain.think = think
        await window.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await window.say("code, please")
        await window.hears("Run this")
        await window.page.locator(".code .copy").click()
        await window.page.locator(".code .copy", has_text="Copied").wait_for()
        assert await window.page.evaluate("navigator.clipboard.readText()") == code
        await window.page.locator(".answer > footer .copy").click()
        await window.page.locator(".answer > footer .copy", has_text="Copied").wait_for()
        assert await window.page.evaluate("navigator.clipboard.readText()") == f"Run this:\n\n```python\n{code}\n```"


@in_browser
async def test_tools_are_cards_that_tell_what_was_asked_and_what_came(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (place, _, window):

        async def think(ask: Ask) -> Answer:
            if not ask.results:
                return Tools((("ls", {"path": "."}), ("read", {"path": "nothing-here.md"})))
            return "done looking"

        place.brain.think = think
        await window.say("look")
        await window.hears("done looking")
        await window.sees('.tool[data-state="done"]')
        await window.sees('.tool[data-state="failed"]')
        assert await window.page.locator(".tool").count() == 2
        await window.page.locator(".tool summary").first.click()
        assert "AGENTS.md" in await window.page.locator(".tool-body").first.inner_text()


@in_browser
async def test_a_failed_turn_tells_the_reason(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (place, _, window):

        async def think(_: Ask) -> Answer:
            return Error(400, "the model is out to lunch")

        place.brain.think = think
        await window.say("hello")
        await window.sees(".remark.is-error")
        assert "No answer came." in await window.page.inner_text(".remark.is-error")
        assert await window.page.locator(".bubble").all_inner_texts() == ["hello"]
        await window.page.locator(".stop").wait_for(state="hidden")
        told = await window.page.inner_text(".remark.is-error")
        await window.page.reload()
        await window.sees(".said + .remark.is-error")
        assert await window.page.locator(".remark.is-error").all_inner_texts() == [told]
        place.brain.think = echo
        await window.say("and now")
        await window.hears("echo: and now")
        assert await window.page.locator(".remark.is-error").all_inner_texts() == [told]
        assert window.problems == []


@in_browser
async def test_a_command_is_answered_beside_the_conversation(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (place, _, window):
        await window.say("/status")
        await window.sees(".remark .prose")
        assert "fake/model" in await window.page.inner_text(".remark")
        assert await window.page.inner_text(".remark .command") == "/status"
        assert not place.brain.asks


@in_browser
async def test_messages_sent_during_an_answer_wait_in_the_queue(tmp_path: Path) -> None:
    more = 'messages: { queue: { mode: "followup" } },'
    async with open_chat(tmp_path, more) as (place, _, window):
        gate = place.brain.hold("first")
        await window.say("first")
        await window.sees(".thinking")
        while not place.brain.asks:
            await asyncio.sleep(0.02)
        await window.say("second")
        await window.page.get_by_text("Waits in the queue").wait_for()
        gate.set()
        await window.hears("echo: second")
        assert await window.page.locator(".bubble").all_inner_texts() == ["first", "second"]
        assert await window.page.locator(".answer").count() == 2


@in_browser
async def test_what_a_stop_sets_aside_stays_to_be_sent_again(tmp_path: Path) -> None:
    more = 'messages: { queue: { mode: "followup" } },'
    async with open_chat(tmp_path, more) as (place, _, window):
        gate = place.brain.hold("first")
        await window.say("first")
        while not place.brain.asks:
            await asyncio.sleep(0.02)
        await window.say("second")
        await window.page.get_by_text("Waits in the queue").wait_for()
        await window.page.keyboard.press("Escape")
        gate.set()
        await window.page.get_by_text("Not answered: it was set aside").wait_for()
        await window.page.reload()
        await window.page.get_by_text("Not answered: it was set aside").wait_for()
        assert [ask.last for ask in place.brain.asks] == ["first"]
        await window.say("third")
        await window.hears("echo: third")
        assert await window.page.locator(".bubble").all_inner_texts() == ["first", "second", "third"]
        marks = window.page.locator(".is-stopped, .is-failed")
        assert [(await mark.get_attribute("class")).split()[-1] for mark in await marks.all()] == [
            "is-stopped",
            "is-failed",
        ]
        await window.page.get_by_role("button", name="Send again").click()
        await window.hears("echo: second")
        assert await window.page.locator(".bubble").all_inner_texts() == ["first", "third", "second"]
        assert await window.page.locator(".is-failed").count() == 0
        assert window.problems == []


@in_browser
async def test_what_happens_elsewhere_is_marked_in_the_list(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (place, gateway, window):
        await window.say("about lighthouses")
        await window.sees(".answer:not(.is-growing)")
        assert window.context.browser is not None
        other = await Web(window.context.browser).window(await login_link(gateway))
        await other.page.get_by_role("button", name="New conversation").first.click()
        await other.say("about harbours")
        await other.hears("echo: about harbours")
        unread = window.page.locator(".session.is-unread", has_text="about harbours")
        await unread.wait_for()
        assert (await window.page.title()).startswith("(1) ")
        await unread.click()
        await window.hears("echo: about harbours")
        assert await window.page.locator(".session.is-unread").count() == 0
        await window.page.get_by_label("Search sessions").fill("lighth")
        await window.page.locator(".session-title", has_text="harbours").wait_for(state="detached")
        assert await window.page.locator(".session-title").all_inner_texts() == ["about lighthouses"]
        await window.page.go_back()
        await window.hears("echo: about lighthouses")
        assert len(place.brain.asks) == 2
        assert window.problems == []


@in_browser
async def test_older_messages_come_when_somebody_scrolls_up(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, place.gateway() as gateway, browsers() as found:
        for number in range(150):
            params = {"sessionKey": "main", "message": f"note {number}."}
            await call_as_owner(gateway.plane.server.methods, "chat.inject", params)
        window = await found.window(await login_link(gateway))
        await window.hears("note 149.")
        assert await window.page.locator(".answer").count() == 60
        for wanted in (120, 150):
            await window.page.locator(".transcript").evaluate("(node) => node.scrollTo(0, 0)")
            await window.sees(".answer", wanted)
        texts = await window.page.locator(".answer .prose").all_inner_texts()
        assert texts == [f"note {number}." for number in range(150)]
        assert await window.page.get_by_role("button", name="Earlier messages").is_hidden()
        assert window.problems == []


@in_browser
async def test_a_lost_event_is_noticed_and_made_good(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, place.gateway() as gateway, browsers() as found:
        window = await found.window(await login_link(gateway))
        await window.sees(".composer")
        dropped: list[str] = []

        def connect(socket: WebSocketRoute) -> None:
            server = socket.connect_to_server()

            def pass_on(text: str | bytes) -> None:
                frame = json.loads(text)
                payload = frame.get("payload") or {}
                is_end = frame.get("event") == "chat" and payload.get("state") == "final"
                if is_end and not dropped:
                    dropped.append(str(text))
                    return
                socket.send(text)

            server.on_message(pass_on)

        await window.page.route_web_socket("**/*", connect)
        await window.page.reload()
        await window.sees(".composer")
        await window.say("is it lost?")
        await window.sees(".answer:not(.is-growing)")
        await window.page.locator(".stop").wait_for(state="hidden")
        assert dropped
        assert (await window.page.inner_text(".entries")).count("echo: is it lost?") == 1


@in_browser
async def test_a_message_whose_receipt_was_lost_counts_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, place.gateway() as gateway, browsers() as found:
        window = await found.window(await login_link(gateway))
        await window.sees(".composer")
        sent: list[dict[str, Any]] = []

        def connect(socket: WebSocketRoute) -> None:
            server = socket.connect_to_server()

            def to_server(text: str | bytes) -> None:
                frame = json.loads(text)
                if frame.get("method") == "chat.send":
                    sent.append(frame)
                server.send(text)

            async def to_page(text: str | bytes) -> None:
                frame = json.loads(text)
                if len(sent) == 1 and frame.get("type") == "res" and frame["id"] == sent[0]["id"]:
                    await socket.close()
                    return
                socket.send(text)

            socket.on_message(to_server)
            server.on_message(to_page)

        await window.page.route_web_socket("**/*", connect)
        await window.page.reload()
        await window.sees(".composer")
        await window.say("did it arrive?")
        await window.hears("echo: did it arrive?")
        while len(sent) < 2:
            await asyncio.sleep(0.05)
        await window.page.locator(".said footer", has_text="Sending").wait_for(state="detached")
        assert sent[0]["params"] == sent[1]["params"]
        assert [ask.last for ask in place.brain.asks] == ["did it arrive?"]
        assert await window.page.locator(".bubble").all_inner_texts() == ["did it arrive?"]
        assert await window.page.locator(".answer").count() == 1


@in_browser
async def test_a_second_tab_is_in_already_and_both_show_the_same(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (_, gateway, window):
        tab = await window.context.new_page()
        await tab.goto(address(gateway))
        await tab.get_by_role("textbox", name="Message").fill("from the second tab")
        await tab.keyboard.press("Enter")
        for page in (tab, window.page):
            await page.locator(".answer:not(.is-growing)", has_text="echo: from the second tab").wait_for()
            assert await page.locator(".bubble").all_inner_texts() == ["from the second tab"]
        assert len(await gateway.store.devices()) == 1


@in_browser
async def test_what_comes_of_a_message_after_one_has_gone_elsewhere_is_there_on_coming_back(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (place, _, window):
        gate = place.brain.hold("slow")
        await window.say("slow question")
        await window.sees(".thinking")
        await window.page.get_by_role("button", name="New conversation").first.click()
        await window.say("/status")
        await window.page.get_by_role("button", name="New conversation").first.click()
        await window.say("third")
        await window.hears("echo: third")
        gate.set()
        await window.page.locator(".session", has_text="slow question").click()
        await window.hears("echo: slow question")
        assert await window.page.locator(".bubble").all_inner_texts() == ["slow question"]
        await window.page.go_back()
        await window.hears("echo: third")
        await window.page.go_back()
        await window.sees(".remark .prose")
        assert await window.page.inner_text(".remark .command") == "/status"
        assert await window.page.locator(".is-failed").count() == 0
        assert window.problems == []


@in_browser
async def test_events_of_other_sessions_do_not_come_over_the_wire(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, place.gateway() as gateway, browsers() as found:
        window = await found.window(await login_link(gateway))
        await window.sees(".composer")
        heard: list[str] = []

        def connect(socket: WebSocketRoute) -> None:
            server = socket.connect_to_server()

            def pass_on(text: str | bytes) -> None:
                frame = json.loads(text)
                if frame.get("event") in ("chat", "agent"):
                    heard.append(frame["payload"]["sessionKey"])
                socket.send(text)

            server.on_message(pass_on)

        await window.page.route_web_socket("**/*", connect)
        await window.page.reload()
        await window.sees(".composer")
        other = await found.window(await login_link(gateway))
        await other.page.get_by_role("button", name="New conversation").first.click()
        await other.say("far away")
        await other.hears("echo: far away")
        await window.page.locator(".session.is-unread", has_text="far away").wait_for()
        assert heard == []
        await window.say("here")
        await window.hears("echo: here")
        assert len(set(heard)) == 1


@in_browser
async def test_a_long_list_of_sessions_comes_in_pages(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, place.gateway() as gateway, browsers() as found:
        for number in range(120):
            params = {"key": f"agent:main:old:{number}", "label": f"Old {number}"}
            await call_as_owner(gateway.plane.server.methods, "sessions.patch", params)
        window = await found.window(await login_link(gateway))
        await window.sees(".session", 100)
        assert await window.page.locator(".session").count() == 100
        await window.page.get_by_role("button", name="Older conversations").click()
        await window.sees(".session", 120)
        await window.page.get_by_role("button", name="Older conversations").wait_for(state="detached")
        assert await window.page.locator(".session.is-unread").count() == 0


@in_browser
async def test_on_a_phone_the_list_is_a_drawer(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, place.gateway() as gateway, browsers() as found:
        size = {"width": 390, "height": 844}
        window = await found.window(await login_link(gateway), viewport=size, has_touch=True, is_mobile=True)
        await window.sees(".composer")
        await window.page.get_by_role("textbox", name="Message").fill("hello")
        await window.page.get_by_role("button", name="Send").click()
        await window.sees(".answer:not(.is-growing)")
        assert not await window.page.locator(".session").is_visible()
        await window.page.get_by_role("button", name="Sessions").click()
        await window.page.locator(".session").wait_for(state="visible")
        await window.page.locator(".session").click()
        await window.page.locator(".session").wait_for(state="hidden")
        wide = await window.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= size["width"]
        assert window.problems == []


@in_browser
async def test_every_control_has_a_name_for_those_who_listen(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (_, _gateway, window):
        await window.say("hello")
        await window.sees(".answer:not(.is-growing)")
        nameless = await window.page.evaluate(
            """() => [...document.querySelectorAll("button, input, textarea, a")]
              .filter((node) => !(node.getAttribute("aria-label") || node.textContent.trim()))
              .map((node) => node.outerHTML)"""
        )
        assert nameless == []
        spoken = window.page.locator('.unseen[aria-live="polite"]')
        assert await spoken.text_content() == "echo: hello"
