"""Waiting for an answer over HTTP: whole, or written as it grows, until it ends or nobody waits any more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog
from aiohttp import web

from tidegate.agent_runtime.messages import ToolCall
from tidegate.clock import Clock
from tidegate.errors import StoreError
from tidegate.gateway.http.answers import Answer
from tidegate.gateway.http.openai_shapes import ChatShape, ResponsesShape, Tokens
from tidegate.gateway.http.openai_wire import ApiError
from tidegate.sessions.model import SessionChange
from tidegate.sessions.store import Store
from tidegate.sessions.wakeups import STOPPED, Wakeups

MAX_WAIT_SECONDS = 3600.0
"""Longest wait for an answer; the turn itself goes on after that."""
TICK_SECONDS = 1.0
"""How often a waiting request looks whether its client is still there."""
IDLE_TICKS = 5
KEEP_ALIVE_TICKS = 15
"""Ticks without text after which a stream says that it lives, so that no proxy cuts it off."""
PIECE_SECONDS = 0.05
"""Least time between two pieces of a stream; what comes meanwhile is joined."""
WRITE_SECONDS = 60.0
KEEP_ALIVE = b": keep-alive\n\n"
ONCE = {"x-should-retry": "false"}
"""Tells clients not to repeat a request that already made a turn."""

Shape = ChatShape | ResponsesShape
log = structlog.get_logger("http")


class WaitedGateway(Protocol):
    """What waiting needs of the gateway."""

    store: Store
    clock: Clock


class Waiting:
    """One request that waits for its answer.

    Args:
        calls: What is handed to the client; grows while the run goes on.
        passing: Nobody else can look at the session.
    """

    def __init__(
        self,
        request: web.Request,
        gateway: WaitedGateway,
        wakeups: Wakeups,
        session: str,
        answer: Answer,
        calls: Sequence[ToolCall] = (),
        *,
        passing: bool = False,
    ) -> None:
        self.request = request
        self.answer = answer
        self.calls = calls
        self.quiet_ticks = 0
        self._gateway = gateway
        self._wakeups = wakeups
        self._session = session
        self._passing = passing
        self._began = gateway.clock.monotonic()
        self._idle = 0

    async def more(self) -> None:
        """Wait until something is new, or for a tick.

        Raises:
            ApiError: Nobody waits for the answer any more, or none will come.
        """
        if await self.answer.changed(TICK_SECONDS):
            self.quiet_ticks = 0
            return
        self.quiet_ticks += 1
        transport = self.request.transport
        if transport is None or transport.is_closing():
            await self.give_up()
            raise ApiError(400, "The client went away.", "api_error")
        if self.quiet_ticks % IDLE_TICKS == 0:
            await self._check_idle()
        if self._gateway.clock.monotonic() - self._began > MAX_WAIT_SECONDS:
            raise ApiError(504, "The answer did not come in time.", "api_error", ONCE)

    async def _check_idle(self) -> None:
        """Find out that the message was set aside: its session has nothing to do, twice in a row."""
        session = await self._gateway.store.session(self._session)
        is_idle = session is not None and not session.waiting and not session.running
        self._idle = self._idle + 1 if is_idle else 0
        if self._idle > 1 and not self.answer.state:
            raise ApiError(500, "The message was set aside.", "api_error", ONCE)

    async def give_up(self) -> None:
        """End the turn of a session that nobody else can look at."""
        if not self._passing or self.answer.state:
            return
        changed = await self._gateway.store.change_session(self._session, SessionChange(stop=True))
        if changed is not None and changed.stopped:
            self._wakeups.announce(STOPPED, [changed.stopped])
        log.info("request.given_up", session=self._session)


async def stream(waiting: Waiting, shape: Shape) -> web.StreamResponse:
    """Write the answer as it grows."""
    response = web.StreamResponse(
        headers={
            "Content-Type": "text/event-stream; charset=utf-8",
            "Cache-Control": "no-cache",
            "X-Accel-Buffering": "no",
        }
    )
    await response.prepare(waiting.request)
    try:
        try:
            await _write(response, *shape.begin())
            written = await _pieces(waiting, shape, response)
            await _write(response, *shape.end(written, tokens_of(waiting.answer), waiting.calls))
        except ApiError as error:
            await _write(response, *shape.failed(error))
        except StoreError:
            log.exception("request.failed", path=waiting.request.path)
            await _write(response, *shape.failed(ApiError(503, "the store cannot be used", "api_error")))
    except (ConnectionError, TimeoutError):
        # The head is sent: there is nothing left to say to a client that is gone or does not read.
        await waiting.give_up()
    return response


async def _pieces(waiting: Waiting, shape: Shape, response: web.StreamResponse) -> str:
    """Write the text as it grows; returns all of it."""
    answer, written = waiting.answer, ""
    while not answer.state:
        await waiting.more()
        shown = answer.visible()
        if shown.startswith(written) and len(shown) > len(written):
            await _write(response, *shape.piece(shown[len(written) :]))
            written = shown
            await asyncio.sleep(PIECE_SECONDS)
        elif waiting.quiet_ticks and waiting.quiet_ticks % KEEP_ALIVE_TICKS == 0:
            await _write(response, KEEP_ALIVE)
    check(answer)
    rest = "" if waiting.calls else _rest(written, answer)
    if rest:
        await _write(response, *shape.piece(rest))
    return written + rest


def _rest(written: str, answer: Answer) -> str:
    """Return what is still to be written once the whole answer is known."""
    for whole in ("\n\n".join(text for text in (answer.said, answer.text) if text), answer.text):
        if whole.startswith(written):
            return whole[len(written) :]
    return ""


async def _write(response: web.StreamResponse, *chunks: bytes) -> None:
    async with asyncio.timeout(WRITE_SECONDS):
        await response.write(b"".join(chunks))


def check(answer: Answer) -> None:
    """Raise ApiError when no answer came of it."""
    if answer.state == "stopped":
        raise ApiError(500, "The answer was stopped.", "api_error", ONCE)
    if answer.state == "failed":
        is_limit = answer.kind == "rate_limit"
        text = answer.reason or answer.text or "internal error"
        raise ApiError(429 if is_limit else 500, text, "rate_limit_error" if is_limit else "api_error", ONCE)


def tokens_of(answer: Answer) -> Tokens:
    """Return what the run used."""
    return Tokens(answer.tokens_in, answer.tokens_out)
