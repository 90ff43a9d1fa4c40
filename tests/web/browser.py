"""A real browser in front of a real gateway, both in one test."""

from __future__ import annotations

import asyncio
import functools
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from harness.stage import Stage, stage
from tidegate.gateway.app import Gateway
from tidegate.gateway.plane.page_methods import new_login

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    # A name of another machine, as far as one machine has such a thing.
    "--host-resolver-rules=MAP gate.test 127.0.0.1",
]
LIMIT = 90.0
"""Seconds after which a test that waits for something that never comes fails; a busy machine makes browsers slow."""
PATIENCE = 20_000
"""Milliseconds until something that should be on the page has to be there."""
WATCH = """document.addEventListener("securitypolicyviolation",
    (event) => console.error(`CSP ${event.violatedDirective} ${event.blockedURI}`));"""


P = ParamSpec("P")


def in_browser(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a coroutine test that needs a browser; it is skipped where there is none."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def limited() -> None:
            async with asyncio.timeout(LIMIT):
                await test(*args, **kwargs)

        asyncio.run(limited())

    return pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium")(run)


@dataclass
class Window:
    """One browser with storage of its own, and what went wrong in it.

    Attributes:
        problems: Errors of the page and violations of its policy.
        requested: Every address that the page asked for.
        sockets: Every address to which it opened a WebSocket.
    """

    context: BrowserContext
    page: Page
    problems: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    sockets: list[str] = field(default_factory=list)

    async def say(self, text: str) -> None:
        """Type a message and send it."""
        await self.page.get_by_role("textbox", name="Message").fill(text)
        await self.page.keyboard.press("Enter")

    async def hears(self, text: str) -> None:
        """Wait until an answer with these words is there, and whole."""
        await self.page.locator(".answer:not(.is-growing) .prose", has_text=text).wait_for(timeout=PATIENCE)

    async def is_told(self, heading: str) -> None:
        """Wait until the page says something instead of the chat."""
        await self.page.get_by_role("heading", name=heading, exact=True).wait_for(timeout=PATIENCE)

    async def sees(self, selector: str, count: int = 1) -> None:
        """Wait until so many elements are there."""
        await self.page.locator(selector).nth(count - 1).wait_for(timeout=PATIENCE)


@dataclass
class Web:
    """Browsers, and where their page is."""

    browser: Browser

    async def window(self, address: str, **options: Any) -> Window:
        """Open the page in a browser of its own."""
        context = await self.browser.new_context(**options)
        context.set_default_timeout(PATIENCE)
        page = await context.new_page()
        window = Window(context, page)
        page.on("request", lambda request: window.requested.append(request.url))
        page.on("websocket", lambda socket: window.sockets.append(socket.url))
        page.on("pageerror", lambda error: window.problems.append(str(error)))
        page.on("console", lambda line: window.problems.append(line.text) if _is_problem(line) else None)
        await context.add_init_script(WATCH)
        await page.goto(address)
        return window


def _is_problem(line: Any) -> bool:
    # A socket that cannot be opened while the gateway is away is told by the browser itself.
    return line.type == "error" and "WebSocket connection to" not in line.text


def address(gateway: Gateway, port: int | None = None) -> str:
    """Return where the page is."""
    return f"http://127.0.0.1:{port or gateway.port}/"


async def login_link(gateway: Gateway) -> str:
    """Return a new link."""
    return f"{address(gateway)}#code={(await new_login(gateway))['code']}"


@asynccontextmanager
async def browsers() -> AsyncIterator[Web]:
    """Start a browser."""
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield Web(browser)
        finally:
            await browser.close()


@asynccontextmanager
async def open_chat(state_dir: Path, more: str = "") -> AsyncIterator[tuple[Stage, Gateway, Window]]:
    """Run a gateway, and a browser that is logged in."""
    async with stage(state_dir, more=more) as place, place.gateway() as gateway, browsers() as found:
        window = await found.window(await login_link(gateway))
        await window.sees(".composer")
        yield place, gateway, window
