"""One connection to a gateway: requests with deadlines, events with gaps told, and an end that everybody hears of."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import aiohttp

from tidegate.gateway.client.errors import ClientError, Refused, Unanswered, Unreachable
from tidegate.gateway.client.refusals import refused

CALL_SECONDS = 30.0
SEND_SECONDS = 10.0
MAX_EVENTS = 4_000
"""Events that wait for somebody who reads them; then all are dropped, and a gap is told."""
MAX_OPEN = 200
"""Requests without an answer."""
SILENT_TICKS = 2.5
"""Ticks of the gateway that may fail to come before the line counts as dead."""
MAX_TICK_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Event:
    """Something the gateway told."""

    name: str
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Gap:
    """Events were missed: what is shown has to be asked for again."""

    missed: int


class Pending:
    """A request that was sent. It may be answered twice."""

    def __init__(self, number: str, method: str) -> None:
        self.number = number
        self.method = method
        self._answers: asyncio.Queue[Any] = asyncio.Queue(2)

    def put(self, answer: Any) -> None:
        """Take an answer; a third one is nothing that anybody waits for."""
        if not self._answers.full():
            self._answers.put_nowait(answer)

    async def answer(self, seconds: float | None = CALL_SECONDS) -> Any:
        """Return the next answer.

        Raises:
            Refused: The gateway said no; Forbidden, or Unanswered when the time is up.
            Unreachable: The connection broke: nobody knows whether the gateway carried it out.
        """
        try:
            async with asyncio.timeout(seconds):
                answer = await self._answers.get()
        except TimeoutError:
            raise Unanswered(f"the gateway did not answer {self.method} within {seconds:g} s") from None
        if isinstance(answer, ClientError):
            raise answer
        return answer


class Connection:
    """A connection that is through its handshake.

    Attributes:
        hello: The payload of hello-ok.
        name: What people call the gateway.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, hello: dict[str, Any], name: str) -> None:
        self.hello = hello
        self.name = name
        self._socket = socket
        self._open: dict[str, Pending] = {}
        self._number = 0
        self._events: deque[Event | Gap] = deque()
        self._news = asyncio.Event()
        self._seq = 0
        self._lost: ClientError | None = None
        policy = hello.get("policy")
        tick = policy.get("tickIntervalMs") if isinstance(policy, dict) else None
        seconds = tick / 1000 if isinstance(tick, int) and tick > 0 else 30.0
        self._silence = min(seconds, MAX_TICK_SECONDS) * SILENT_TICKS

    @property
    def scopes(self) -> tuple[str, ...]:
        """Return what this connection may do."""
        auth = self.hello.get("auth")
        scopes = auth.get("scopes") if isinstance(auth, dict) else None
        return tuple(map(str, scopes)) if isinstance(scopes, list) else ()

    async def call(self, method: str, params: dict[str, Any] | None = None, *, seconds: float = CALL_SECONDS) -> Any:
        """Return the answer to a request. Raises as `Pending.answer` does."""
        pending = await self.send(method, params)
        try:
            return await pending.answer(seconds)
        finally:
            self.done(pending)

    async def send(self, method: str, params: dict[str, Any] | None = None) -> Pending:
        """Send a request whose answers are waited for by the caller, who says `done` at the end.

        Raises:
            Unreachable: The connection broke.
            Refused: Too many requests wait for an answer.
        """
        if self._lost is not None:
            raise self._lost
        if len(self._open) >= MAX_OPEN:
            raise Refused("too many requests wait for an answer of the gateway")
        self._number += 1
        pending = Pending(str(self._number), method)
        self._open[pending.number] = pending
        frame = {"type": "req", "id": pending.number, "method": method, "params": params or {}}
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._socket.send_str(json.dumps(frame))
        except (TimeoutError, OSError, aiohttp.ClientError) as error:
            self.done(pending)
            raise self._end(f"the connection to {self.name} broke") from error
        return pending

    def done(self, pending: Pending) -> None:
        """Forget a request; an answer that comes later is nobody's."""
        self._open.pop(pending.number, None)

    def tell(self, event: Event) -> None:
        """Put something of our own behind what the gateway has told so far."""
        self._put(event)

    async def events(self) -> AsyncGenerator[Event | Gap, None]:
        """Yield what the gateway tells, in order, until the connection ends.

        Raises:
            Unreachable: It ended.
        """
        while True:
            while self._events:
                yield self._events.popleft()
            if self._lost is not None:
                raise self._lost
            self._news.clear()
            await self._news.wait()

    async def read(self) -> None:
        """Take what comes until the connection ends; the one who made the connection runs this."""
        while self._lost is None:
            try:
                async with asyncio.timeout(self._silence):
                    message = await self._socket.receive()
            except TimeoutError:
                self._end(f"{self.name} has been silent for {self._silence:.0f} s")
                return
            if message.type is aiohttp.WSMsgType.TEXT:
                self._take(message.data)
            elif message.type is not aiohttp.WSMsgType.BINARY:
                self._end(self._farewell(message))
                return

    def _farewell(self, message: aiohttp.WSMessage) -> str:
        reason = str(message.extra or "") if message.type is aiohttp.WSMsgType.CLOSE else ""
        if self._socket.close_code == 1012:
            return f"{self.name} restarts or stops"
        return f"{self.name} closed the connection" + (f": {reason}" if reason else "")

    def _end(self, text: str) -> ClientError:
        if self._lost is None:
            self._lost = Unreachable(text)
            for pending in self._open.values():
                pending.put(self._lost)
            self._news.set()
        return self._lost

    def _take(self, text: str) -> None:
        try:
            frame = json.loads(text)
        except (ValueError, RecursionError):
            return
        if not isinstance(frame, dict):
            return
        if frame.get("type") == "res":
            pending = self._open.get(str(frame.get("id")))
            if pending is not None:
                pending.put(frame.get("payload") if frame.get("ok") is True else refused(frame.get("error")))
        elif frame.get("type") == "event" and isinstance(frame.get("event"), str):
            self._tell(frame)

    def _tell(self, frame: dict[str, Any]) -> None:
        seq = frame.get("seq")
        if isinstance(seq, int):
            if seq > self._seq + 1 and self._seq:
                self._put(Gap(seq - self._seq - 1))
            self._seq = seq
        payload = frame.get("payload")
        if frame["event"] != "tick":
            self._put(Event(frame["event"], payload if isinstance(payload, dict) else {"value": payload}))

    def _put(self, item: Event | Gap) -> None:
        if len(self._events) >= MAX_EVENTS:
            missed = len(self._events)
            self._events.clear()
            self._events.append(Gap(missed))
        self._events.append(item)
        self._news.set()
