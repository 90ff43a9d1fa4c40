"""Published attacks on pages of gateways, tried on ours in a real browser; each names its advisory where it has one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from harness.stage import stage
from tidegate.gateway.web.files import FOLDER
from web.browser import address, browsers, in_browser, login_link


@asynccontextmanager
async def other_site(page: str) -> AsyncIterator[str]:
    """Serve a page of somebody else's; yields its address."""

    async def serve(_: web.Request) -> web.Response:
        return web.Response(text=page, content_type="text/html")

    app = web.Application()
    app.router.add_get("/", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


@in_browser
async def test_cve_2026_25253_no_link_makes_the_page_talk_to_another_gateway(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, place.gateway() as gateway, browsers() as found:
        evil = "?gatewayUrl=ws://127.0.0.1:9/&url=ws://127.0.0.1:9/&token=theirs&session=main"
        window = await found.window(address(gateway) + evil + "#code=" + (await login_link(gateway))[-32:])
        await window.sees(".composer")
        own = f"ws://127.0.0.1:{gateway.port}/"
        assert set(window.sockets) == {own}
        assert not [url for url in window.requested if not url.startswith(address(gateway))]
        assert window.problems == []


@in_browser
async def test_cve_2026_41335_before_login_there_are_static_files_only(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, place.gateway() as gateway, browsers() as found:
        window = await found.window(address(gateway))
        await window.is_told("Who is there?")
        names = {url.removeprefix(address(gateway)).removeprefix("assets/") for url in window.requested}
        assert names <= {"", *(path.name for path in FOLDER.iterdir())}
        text = await window.page.content()
        assert str(tmp_path) not in text
        assert "main" not in await window.page.inner_text("#app")


@in_browser
async def test_no_other_page_can_frame_ours_or_read_it(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, place.gateway() as gateway, browsers() as found:
        ours = address(gateway)
        async with other_site(f'<iframe src="{ours}"></iframe><img src="{ours}assets/icon.svg">') as theirs:
            window = await found.window(await login_link(gateway))
            await window.sees(".composer")
            page = await window.context.new_page()
            await page.goto(theirs)
            await page.wait_for_load_state("networkidle")
            assert page.frames[1].url.startswith("chrome-error:")
            assert await page.evaluate("document.querySelector('img').naturalWidth") == 0
            refused = await page.evaluate(f"fetch('{ours}').then(() => 'read', () => 'refused')")
            assert refused == "refused"
            socket = await page.evaluate(
                f"""new Promise((resolve) => {{
                  const socket = new WebSocket('{ours}'.replace('http', 'ws'));
                  socket.onopen = () => resolve('open');
                  socket.onerror = () => resolve('refused');
                }})"""
            )
            assert socket == "refused"
