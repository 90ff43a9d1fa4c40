"""What waits to be written to one client: bounded, in order, with live text joined while the client is slow."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tidegate.gateway.plane.frames import MAX_BUFFERED, encode, event_text

MAX_FRAMES = 20_000
"""Frames that may wait for one client."""
MAX_BACKLOG = 268_435_456
"""Bytes that may wait for all clients together."""
FAIR_BYTES = 1_048_576
"""Bytes that may wait for one client however much waits for others."""
PACE_SECONDS = 0.075
"""How long live text is held back to be joined, while an earlier write is under way."""


class Backlog:
    """What waits for all clients together: many slow ones must not add up to all memory there is.

    Args:
        limit: Bytes; beyond them a client gets nothing more queued once it has more than `FAIR_BYTES` waiting.
    """

    def __init__(self, limit: int = MAX_BACKLOG) -> None:
        self.limit = limit
        self.bytes = 0


def delta_key(name: str, payload: Any) -> tuple[str, str, str] | None:
    """Return what a live piece of text belongs to, or None for an event that is not one.

    Later pieces of the same kind and run repeat the whole text so far, so several can become one.
    """
    if not isinstance(payload, Mapping):
        return None
    run = str(payload.get("runId", ""))
    if name == "chat" and payload.get("state") == "delta" and "deltaText" in payload and "replace" not in payload:
        return name, run, ""
    data = payload.get("data")
    if name == "agent" and payload.get("stream") in ("assistant", "thinking") and isinstance(data, Mapping):
        item = str(data.get("itemId", ""))
        return (name, run, f"{payload['stream']}:{item}") if "delta" in data else None
    return None


def join_deltas(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    """Return one piece of live text that stands for two."""
    if "deltaText" in newer:
        return {**newer, "deltaText": f"{older.get('deltaText', '')}{newer['deltaText']}"}
    data = {**newer["data"], "delta": f"{older['data'].get('delta', '')}{newer['data']['delta']}"}
    return {**newer, "data": data}


class Outgoing:
    """The frames of one connection.

    Events are numbered from 1 without a gap, except that an event which a slow client misses still takes its number:
    the client sees that something is missing.

    Args:
        overrun: Called once, when a frame that must not be lost finds no room.
    """

    def __init__(
        self,
        overrun: Callable[[], None],
        *,
        max_bytes: int = MAX_BUFFERED,
        backlog: Backlog | None = None,
        pace: float = PACE_SECONDS,
    ) -> None:
        self._backlog = backlog or Backlog()
        self._frames: deque[str] = deque()
        self._bytes = 0
        self._max_bytes = max_bytes
        self._pace = pace
        self._seq = 0
        self._held: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._numbers_held = True
        self._writing = False
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._overrun = overrun
        self._closed = False

    @property
    def waiting_bytes(self) -> int:
        """Return how much waits."""
        return self._bytes

    def put(self, text: str, *, droppable: bool = False) -> None:
        """Queue a frame behind all that was queued before. One too many ends the connection, or is dropped."""
        if self._held:
            self._release()
        self._put(text, droppable)

    def _put(self, text: str, droppable: bool = False) -> None:
        if self._closed:
            return
        # Characters are counted; the few bytes more of other scripts do not matter to a bound on memory.
        size = len(text)
        is_full = self._bytes + size > self._max_bytes or len(self._frames) >= MAX_FRAMES
        if is_full or (self._bytes > FAIR_BYTES and self._backlog.bytes + size > self._backlog.limit):
            if not droppable:
                self._closed = True
                self._overrun()
            return
        self._frames.append(text)
        self._bytes += size
        self._backlog.bytes += size
        self._wake.set()

    def put_event(
        self,
        name: str,
        payload: Any,
        payload_json: str,
        *,
        sequenced: bool = True,
        droppable: bool = False,
        state_version: Mapping[str, int] | None = None,
    ) -> None:
        """Queue an event. Live text may be held for a moment and joined with what comes next."""
        key = delta_key(name, payload)
        if key is not None and (self._writing or self._frames):
            held = self._held.get(key)
            self._held[key] = dict(payload) if held is None else join_deltas(held, payload)
            self._numbers_held = sequenced
            self._wake.set()
            return
        if self._held:
            self._release()
        self._put(event_text(name, payload_json, seq=self._next(sequenced), state_version=state_version), droppable)

    def _next(self, sequenced: bool) -> int | None:
        if not sequenced:
            return None
        self._seq += 1
        return self._seq

    def _release(self) -> None:
        held, self._held = self._held, {}
        for (name, _, _), payload in held.items():
            self._put(event_text(name, encode(payload), seq=self._next(self._numbers_held)))

    async def run(self, write: Callable[[str], Awaitable[None]]) -> None:
        """Write frames until cancelled."""
        while True:
            while not self._frames and not self._held:
                self._wake.clear()
                await self._wake.wait()
            self._writing = True
            try:
                while self._frames:
                    text = self._frames.popleft()
                    self._bytes -= len(text)
                    self._backlog.bytes -= len(text)
                    await write(text)
                if self._held:
                    await asyncio.sleep(self._pace)
                    self._release()
            finally:
                self._writing = False
            if not self._frames:
                self._idle.set()

    def shut(self) -> None:
        """Take nothing more and let go of what waits: the connection ends."""
        self._closed = True
        self._backlog.bytes -= self._bytes
        self._bytes = 0
        self._frames.clear()
        self._held.clear()
        self._idle.set()

    async def flush(self) -> None:
        """Wait until everything is written, or the connection ends."""
        while (self._frames or self._held or self._writing) and not self._closed:
            self._idle.clear()
            await self._idle.wait()
