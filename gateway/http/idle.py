"""Ends TCP connections on which nobody asks anything, so that strangers cannot use up what is needed for clients."""

from __future__ import annotations

import asyncio
import resource
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

FIRST_REQUEST_SECONDS = 15.0
"""How long a connection may take to send the head of its first request."""
LOOK_SECONDS = 1.0
KEEPALIVE_SECONDS = 75.0
"""How long a connection stays open after an answer; proxies keep theirs for about a minute."""
MAX_SILENT = 250
"""Connections of one address that have asked nothing yet."""
DESCRIPTORS = 65_536
"""Open files that the process may have, where the machine allows it. systemd's usual limit is 1,024."""
TELL_SECONDS = 60.0
"""A failure to accept is logged once in this time: it comes with every attempt."""

log = structlog.get_logger("http")
Address = Callable[[RequestHandler], str]


def address_of(handler: RequestHandler) -> str:
    """Return the address of the other end."""
    name = handler.transport.get_extra_info("peername") if handler.transport is not None else None
    return str(name[0]) if isinstance(name, tuple) and name else ""


async def end_silent(
    server: web.Server,
    *,
    patience: float = FIRST_REQUEST_SECONDS,
    look: float = LOOK_SECONDS,
    most: int = MAX_SILENT,
) -> None:
    """End connections that ask nothing for too long, and the oldest of an address that has too many, until cancelled.

    Args:
        patience: Seconds that a connection may be silent.
        look: Seconds between two looks.
        most: Silent connections of one address.
    """
    loop, since = asyncio.get_running_loop(), dict[RequestHandler, float]()
    while True:
        now = loop.time()
        # The class has no other word for "its first request has not come" (aiohttp 3, `web_protocol.py`).
        silent = [handler for handler in server.connections if not handler._request_count]
        since = {handler: since.get(handler, now) for handler in silent}
        of_address = defaultdict[str, list[RequestHandler]](list)
        for handler in sorted(silent, key=since.__getitem__):
            of_address[address_of(handler)].append(handler)
        for address, handlers in of_address.items():
            late = [handler for handler in handlers if now - since[handler] >= patience]
            too_many = handlers[: max(0, len(handlers) - most)]
            for handler in {*late, *too_many}:
                if handler.transport is not None:
                    handler.transport.abort()
            if too_many:
                log.warning("http.silent_connections", address=address, ended=len(too_many))
        await asyncio.sleep(look)


def allow_descriptors() -> None:
    """Let this process open as many files as the machine allows, up to what a gateway may need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def log_accept_failure(reason: str) -> None:
    """Log that no connection can be taken."""
    log.error("http.cannot_accept", reason=reason)


def tell_accept_failures_once(
    loop: asyncio.AbstractEventLoop, tell: Callable[[str], None] = log_accept_failure
) -> None:
    """Tell that no connection can be taken at most once a minute; asyncio says so for each that waits."""
    told_at = -TELL_SECONDS

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal told_at
        if "socket.accept()" not in str(context.get("message", "")):
            loop.default_exception_handler(context)
            return
        if loop.time() - told_at >= TELL_SECONDS:
            told_at = loop.time()
            tell(str(context.get("exception") or context["message"]))

    loop.set_exception_handler(handle)
