"""Connections that ask nothing do not stay; those of clients do."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from fakes.event_loop import on_loop
from tidegate.gateway.http import idle
from tidegate.gateway.http.idle import allow_descriptors, end_silent, tell_accept_failures_once

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def served(patience: float, most: int = 100) -> AsyncIterator[int]:
    """Serve one page; yields the port."""

    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/", hello)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    assert runner.server is not None
    async with asyncio.TaskGroup() as group:
        task = group.create_task(end_silent(runner.server, patience=patience, look=0.01, most=most))
        try:
            yield runner.addresses[0][1]
        finally:
            task.cancel()
            await runner.cleanup()


async def ended(line: Line) -> bytes:
    """Return what came until the other end closed the connection."""
    async with asyncio.timeout(10):
        try:
            return await line[0].read()
        except ConnectionError:
            return b""
        finally:
            line[1].close()


@on_loop
async def test_a_connection_that_asks_nothing_is_ended_however_it_begins() -> None:
    async with served(patience=0.05) as port:
        for begun in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX: "):
            line = await asyncio.open_connection("127.0.0.1", port)
            line[1].write(begun)
            assert await ended(line) == b""


@on_loop
async def test_a_connection_that_asked_once_stays() -> None:
    async with served(patience=0.05) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
            # Others come and are ended; this one is not.
            assert await ended(await asyncio.open_connection("127.0.0.1", port)) == b""
        writer.close()


@on_loop
async def test_of_too_many_the_oldest_are_ended_at_once() -> None:
    async with served(patience=60, most=3) as port:
        lines = []
        for _ in range(5):
            lines.append(await asyncio.open_connection("127.0.0.1", port))
            await asyncio.sleep(0.03)
        assert [await ended(line) for line in lines[:2]] == [b"", b""]
        lines[4][1].write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await ended(lines[4])).endswith(b"hello")


def test_as_many_files_are_allowed_as_the_machine_lets_us_have(monkeypatch: pytest.MonkeyPatch) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        allow_descriptors()
        hard = idle.DESCRIPTORS if before[1] == resource.RLIM_INFINITY else before[1]
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(idle.DESCRIPTORS, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@on_loop
async def test_a_failure_to_accept_is_told_once() -> None:
    loop = asyncio.get_running_loop()
    told: list[str] = []
    tell_accept_failures_once(loop, told.append)
    try:
        for _ in range(500):
            loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": OSError(24)})
    finally:
        loop.set_exception_handler(None)
    assert told == ["24"]
