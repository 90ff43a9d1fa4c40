"""The list of sessions in a browser: what it leaves out, what can be done to a session, which one is which."""

from __future__ import annotations

from pathlib import Path

from harness.stage import stage
from tidegate.gateway.app import Gateway
from tidegate.gateway.plane.owner import call_as_owner
from tidegate.ids import new_id
from tidegate.sessions.model import SessionChange
from web.browser import Window, browsers, in_browser, login_link, open_chat


async def named(gateway: Gateway, key: str, label: str) -> None:
    """Make a session with a name."""
    await call_as_owner(gateway.plane.server.methods, "sessions.patch", {"key": key, "label": label})


async def titles(window: Window) -> list[str]:
    """Return what the sessions of the list are called."""
    return await window.page.locator(".session-title").all_inner_texts()


@in_browser
async def test_sessions_of_api_requests_are_listed_only_when_asked_for(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, place.gateway() as gateway, browsers() as found:
        await named(gateway, "agent:main:notes", "Notes")
        for number in range(3):
            change = SessionChange(settings={"label": f"Request {number}"})
            await gateway.store.change_session(f"agent:main:openai:{new_id()}", change, "main")
        window = await found.window(await login_link(gateway))
        await window.page.locator(".session", has_text="Notes").wait_for()
        assert await titles(window) == ["Notes"]
        await window.page.get_by_role("button", name="API calls").click()
        await window.sees(".session", 4)
        await window.page.reload()
        await window.sees(".session", 4)
        assert await window.page.locator(".session-kind", has_text="API").count() == 3
        await window.page.get_by_role("button", name="API calls").click()
        await window.page.locator(".session", has_text="Request 1").wait_for(state="detached")
        assert await titles(window) == ["Notes"]
        # One that comes meanwhile stays away too.
        await named(gateway, f"agent:main:openai:{new_id()}", "Request 4")
        await named(gateway, "agent:main:more", "More notes")
        await window.page.locator(".session", has_text="More notes").wait_for()
        assert "Request 4" not in await titles(window)
        assert window.problems == []


@in_browser
async def test_a_session_is_renamed_and_put_away_and_back(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (_, gateway, window):
        await named(gateway, "agent:main:notes", "Notes")
        row = window.page.locator(".session-row", has_text="Notes")
        answers = ["Better notes"]
        window.page.on("dialog", lambda dialog: dialog.accept(answers[0] if dialog.type == "prompt" else None))
        await row.hover()
        await row.get_by_role("button", name="More about Notes").click()
        await window.page.get_by_role("button", name="Rename").click()
        await window.page.locator(".session-title", has_text="Better notes").wait_for()
        await window.page.locator(".row-menu").wait_for(state="hidden")
        row = window.page.locator(".session-row", has_text="Better notes")
        await row.hover()
        await row.get_by_role("button", name="More about").click()
        await window.page.get_by_role("button", name="Archive", exact=True).click()
        await row.wait_for(state="detached")
        await window.page.get_by_role("button", name="Archived").click()
        await window.page.locator(".session-kind", has_text="archived").wait_for()
        await row.hover()
        await row.get_by_role("button", name="More about").click()
        await window.page.get_by_role("button", name="Put back on the list").click()
        await window.page.locator(".session-kind", has_text="archived").wait_for(state="detached")
        session = await gateway.store.session("agent:main:notes")
        assert session is not None
        assert dict(session.settings) == {"label": "Better notes"}
        assert window.problems == []


@in_browser
async def test_the_main_session_is_marked_and_equal_titles_are_told_apart(tmp_path: Path) -> None:
    async with open_chat(tmp_path) as (_, gateway, window):
        await window.say("the same words")
        await window.hears("echo")
        await named(gateway, "agent:main:one1", "the same words")
        await named(gateway, "agent:main:two2", "the same words")
        await window.sees(".session", 3)
        main = window.page.locator(".session", has=window.page.locator(".session-kind", has_text="main"))
        await main.locator(".session-title", has_text="the same words").wait_for()
        await window.page.locator(".session-title", has_text=" · ").nth(1).wait_for()
        assert await main.locator(".session-title").inner_text() == "the same words"
        assert len(set(await titles(window))) == 3
        assert "main" in await window.page.inner_text(".about")
        assert window.problems == []
