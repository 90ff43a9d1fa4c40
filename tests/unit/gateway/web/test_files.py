"""The files of the page: what is sent, with which headers, and that nothing else is."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from fakes.event_loop import on_loop
from tidegate.gateway.http.headers import READ, add_common_headers, add_route
from tidegate.gateway.web.files import CONTENT_POLICY, FOLDER, HEADERS, POLICY_NAME, PageFiles

SCRIPTS = sorted(FOLDER.glob("*.js"))


@asynccontextmanager
async def served(folder: Path = FOLDER) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """Serve the files as the gateway does."""
    files = PageFiles(folder)

    async def page(request: web.Request) -> web.Response:
        return await files.answer(request, request.match_info.get("name", "index.html"))

    app = web.Application()
    add_common_headers(app)
    for path in ("/", "/assets/{name}"):
        add_route(app, path, page, *READ)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with aiohttp.ClientSession() as http:
            yield http, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@on_loop
async def test_the_page_comes_with_the_strict_policy() -> None:
    async with served() as (http, url), http.get(f"{url}/") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert "Server" not in answer.headers
    policy = dict(part.partition(" ")[::2] for part in CONTENT_POLICY.split("; "))
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert policy["trusted-types"] == POLICY_NAME
    assert "unsafe" not in CONTENT_POLICY


@on_loop
async def test_every_file_has_its_type_and_is_sent_once_only() -> None:
    kinds = {
        ".js": "text/javascript",
        ".css": "text/css",
        ".svg": "image/svg+xml",
        ".html": "text/html",
        ".webmanifest": "application/manifest+json",
    }
    async with served() as (http, url):
        for path in FOLDER.iterdir():
            async with http.get(f"{url}/assets/{path.name}") as answer:
                assert answer.status == 200, path.name
                assert answer.content_type == kinds[path.suffix]
                assert await answer.read() == path.read_bytes()
                tag = answer.headers["ETag"]
            async with http.get(f"{url}/assets/{path.name}", headers={"If-None-Match": tag}) as again:
                assert again.status == 304
                assert await again.read() == b""
                assert again.headers["Content-Security-Policy"] == CONTENT_POLICY
            async with http.get(f"{url}/assets/{path.name}", headers={"If-None-Match": '"other"'}) as changed:
                assert changed.status == 200


@on_loop
async def test_the_head_of_a_file_has_no_body() -> None:
    async with served() as (http, url), http.head(f"{url}/assets/main.js") as answer:
        assert answer.status == 200
        assert int(answer.headers["Content-Length"]) == (FOLDER / "main.js").stat().st_size
        assert await answer.read() == b""


@on_loop
async def test_nothing_else_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("page")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path.parent / "outside.js").write_text("outside")
    async with served(tmp_path) as (http, url):
        for name in ("none.js", "secret.txt", "..%2Foutside.js", "%2e%2e%2foutside.js", "a/b.js", "", "%00.js"):
            async with http.get(f"{url}/assets/{name}") as answer:
                assert answer.status == 404, name
        for method in ("POST", "PUT", "DELETE"):
            async with http.request(method, f"{url}/assets/index.html") as answer:
                assert answer.status == 405


def test_the_page_holds_nothing_that_its_policy_forbids() -> None:
    page = (FOLDER / "index.html").read_text()
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]* src=)|javascript:|https?://", page)
    for script in SCRIPTS:
        text = script.read_text()
        assert not re.search(
            r"\beval\(|new Function|document\.write|insertAdjacentHTML|\.style\s*=|https?://(?!www\.w3)", text
        )
        # Our own renderer's HTML, in one place.
        assert text.count(".innerHTML =") == (1 if script.name == "dom.js" else 0), script.name
    for sheet in FOLDER.glob("*.css"):
        assert not re.search(r"@import|url\(", sheet.read_text()), sheet.name


def test_every_module_that_is_imported_is_there_and_every_one_is_used() -> None:
    imported = {name for script in SCRIPTS for name in re.findall(r'from "\./([\w-]+\.js)"', script.read_text())}
    assert imported | {"main.js"} == {script.name for script in SCRIPTS}


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
def test_every_script_is_well_formed(tmp_path: Path) -> None:
    for script in SCRIPTS:
        # Under this name every version of node takes it for a module.
        module = tmp_path / f"{script.stem}.mjs"
        module.write_bytes(script.read_bytes())
        done = subprocess.run(["node", "--check", str(module)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


def test_a_start_reads_no_code_of_the_page() -> None:
    code = (
        "import sys, tidegate.gateway.lifecycle\n"
        "late = {'tidegate.gateway.web', 'tidegate.adapters.markdown', 'webbrowser'}\n"
        "assert not late & set(sys.modules), late & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", timeout=60)
    assert done.returncode == 0, done.stderr
