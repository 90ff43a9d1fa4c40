"""One HTTP server on one port, and the same application kind on a Unix socket for the local command line."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from tidegate.errors import ConfigError
from tidegate.gateway.http.idle import KEEPALIVE_SECONDS, end_silent

MAX_BODY = 1 << 20
"""Bytes that a request body may hold before its route says otherwise."""
SHUTDOWN_SECONDS = 2.0


class PortTaken(ConfigError):
    """The address cannot be listened on; says what to change."""


@asynccontextmanager
async def serve(app: web.Application, listener: socket.socket) -> AsyncIterator[int]:
    """Serve `app` on an address that was taken with `bind`, and yield the port in use."""
    runner = web.AppRunner(
        app,
        access_log=None,
        shutdown_timeout=SHUTDOWN_SECONDS,
        handle_signals=False,
        keepalive_timeout=KEEPALIVE_SECONDS,
    )
    await runner.setup()
    assert runner.server is not None
    try:
        site = web.SockSite(runner, listener)
        await site.start()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(end_silent(runner.server), name="http.silent")
            try:
                yield listener.getsockname()[1]
            finally:
                watching.cancel()
    finally:
        await runner.cleanup()


def bind(host: str, port: int) -> socket.socket:
    """Take a TCP port (0 picks one), on which connections wait until it is served.

    Raises:
        PortTaken: The address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # At once, because two who only bind can both have a port.
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise PortTaken(
            f"gateway.port: cannot listen on {host}:{port}: {error.strerror or error}. "
            "Set gateway.port or pass --port with a free one."
        ) from error
    listener.setblocking(False)
    return listener


@asynccontextmanager
async def serve_unix(app: web.Application, path: Path) -> AsyncIterator[None]:
    """Serve `app` on a Unix socket that only this user can open."""
    path.unlink(missing_ok=True)  # noqa: ASYNC240 - one quick call at start
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS, handle_signals=False)
    await runner.setup()
    before = os.umask(0o177)
    try:
        site = web.UnixSite(runner, str(path))
        await site.start()
    finally:
        os.umask(before)
    try:
        yield
    finally:
        await runner.cleanup()
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - one quick call at the end
