"""Requests that change something run to their end, also when who asked for it has gone: only the answer is lost then.

What was begun half would stay so: a token revoked in the store whose sockets go on, a key that stands for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

import structlog

from tidegate.gateway.plane.frames import MAX_BUFFERED

MAX_LASTING = 8_192
"""Requests of all connections, also of those that ended, that may be carried out at a time: fewer than may wait for
the disk, and enough for thousands of clients that say something in the same moment."""
MAX_LASTING_CHARS = 4 * MAX_BUFFERED
"""Characters of their frames."""
DRAIN_SECONDS = 5.0
"""How long they may take to end when the gateway stops."""

log = structlog.get_logger("plane")


class Lasting:
    """Owns the tasks of such requests. Entered before connections are served, left after the last one ended.

    Args:
        drain: Seconds that are given to what still runs at the end.
    """

    def __init__(self, drain: float = DRAIN_SECONDS) -> None:
        self._drain = drain
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._chars = 0
        self._idle = asyncio.Event()

    @property
    def running(self) -> int:
        """Return how many requests are carried out."""
        return len(self._tasks)

    def has_room(self, chars: int) -> bool:
        """Return whether one more request of so many characters may begin."""
        is_full = len(self._tasks) >= MAX_LASTING or self._chars + chars > MAX_LASTING_CHARS
        return self._group is not None and not is_full

    def start(self, work: Coroutine[Any, Any, None], name: str, chars: int) -> None:
        """Carry a request out; asks for `has_room` before."""
        assert self._group is not None
        task = self._group.create_task(self._guarded(work), name=name)
        self._tasks.add(task)
        self._chars += chars
        task.add_done_callback(lambda done: self._ended(done, chars))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            # Named boundary: one request, whose failure must not end those of others.
            log.exception("plane.lasting_failed")

    def _ended(self, task: asyncio.Task[None], chars: int) -> None:
        self._tasks.discard(task)
        self._chars -= chars
        if not self._tasks:
            self._idle.set()

    async def __aenter__(self) -> Self:
        self._group = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        group = self._group
        assert group is not None
        try:
            async with asyncio.timeout(self._drain):
                while self._tasks:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            log.warning("plane.requests_cut", running=len(self._tasks))
        finally:
            self._group = None
            for task in self._tasks:
                task.cancel()
        # What ended the block is passed on as it is, not in a group of errors.
        await group.__aexit__(None, None, None)
