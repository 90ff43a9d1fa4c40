"""Looking at a gateway elsewhere for as long as somebody looks: its status again and again, its log as it grows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.remote import harmless, needs, run, stay
from tidegate.gateway.cli.status import METHOD, WATCH_SECONDS
from tidegate.gateway.client.connection import Connection
from tidegate.gateway.client.dial import Kind
from tidegate.gateway.client.shape import fields, items

POLL_SECONDS = 1.0
MOST_LINES, MOST_BYTES = 5_000, 1_000_000

Row = dict[str, Any]


def watch_there(call: Call, show: Callable[[Row], None]) -> None:
    """Show the status every two seconds until interrupted, over as many connections as it takes."""

    async def work(line: Connection) -> None:
        while True:
            show(harmless(await line.call(METHOD)))
            await asyncio.sleep(WATCH_SECONDS)

    stay(call, Kind(needs(METHOD)), work)


def logs_there(call: Call, read: Callable[[Sequence[str]], list[Row]], show: Callable[[Row], None]) -> None:
    """Print the last lines of the log, and what comes where that is wanted."""
    log = _Log(call, read, show)
    if call.arguments.follow:
        stay(call, Kind(needs("logs.tail")), log.follow)
    else:
        run(call, Kind(needs("logs.tail")), log.last)


class _Log:
    def __init__(self, call: Call, read: Callable[[Sequence[str]], list[Row]], show: Callable[[Row], None]) -> None:
        self._lines = int(call.arguments.lines)
        self._read = read
        self._show = show
        self._cursor: int | None = None

    async def last(self, line: Connection) -> None:
        """Print the last lines."""
        page = fields(await line.call("logs.tail", {"limit": MOST_LINES, "maxBytes": MOST_BYTES}))
        self._cursor = _cursor(page)
        for event in self._read(_lines(page))[-self._lines :]:
            self._show(event)

    async def follow(self, line: Connection) -> None:
        """Print what comes, from where an earlier connection got to."""
        if self._cursor is None:
            await self.last(line)
        while True:
            asked = {"cursor": self._cursor, "limit": MOST_LINES, "maxBytes": MOST_BYTES}
            page = fields(await line.call("logs.tail", asked))
            lines = _lines(page)
            for event in self._read(lines):
                self._show(event)
            is_more = _cursor(page) != self._cursor and len(lines) >= MOST_LINES
            self._cursor = _cursor(page)
            if not is_more:
                await asyncio.sleep(POLL_SECONDS)


def _cursor(page: Row) -> int:
    cursor = page.get("cursor")
    return cursor if isinstance(cursor, int) and cursor >= 0 else 0


def _lines(page: Row) -> list[str]:
    return [line for line in items(page.get("lines")) if isinstance(line, str)]
