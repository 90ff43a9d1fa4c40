"""One client after its handshake: requests in, responses and events out.

What it asked to read or waits for ends with it; what it asked to change does not, see `lasting.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import structlog
from aiohttp import WSMsgType, web

from tidegate.errors import TidegateError
from tidegate.gateway.plane.contract import Call, Caller, Code, Method, MethodTable, Role, RpcError, Scope, Waiting
from tidegate.gateway.plane.frames import (
    CLOSE_POLICY,
    MAX_BUFFERED,
    RequestFrame,
    close_reason,
    echo_id,
    failure,
    parse_json,
    read_request,
    response,
    validate,
)
from tidegate.gateway.plane.lasting import Lasting
from tidegate.gateway.plane.limits import WriteBudget
from tidegate.gateway.plane.outgoing import Backlog, Outgoing

MAX_REQUESTS = 256
"""Requests of one connection that may be under way at a time."""
MAX_WRONG_ROLE = 10
BUSY = "The server is busy. Please try again in a moment."

log = structlog.get_logger("plane")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of the protocol; tests shorten them."""

    handshake: float = 15.0
    ping: float = 25.0
    pong: float = 25.0
    tick: float = 30.0
    health: float = 60.0
    close: float = 2.0
    write: float = 60.0


class _Ended(Exception):
    """The connection is over; cancels what its task group runs."""


class Connection:
    """A client.

    Attributes:
        subscriptions: Sessions whose events a client with the cap `session-scoped-events` asked for.
        watches_sessions: It asked for changes of the session list.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse,
        caller: Caller,
        methods: MethodTable,
        budget: WriteBudget,
        timing: Timing,
        lasting: Lasting,
        *,
        budget_key: str,
        transport: asyncio.Transport | None,
        max_buffered: int = MAX_BUFFERED,
        backlog: Backlog | None = None,
    ) -> None:
        self.caller = caller
        self.out = Outgoing(self._too_slow, max_bytes=max_buffered, backlog=backlog)
        self.subscriptions: set[str] = set()
        self.watches_sessions = False
        self._socket = socket
        self._methods = methods
        self._budget = budget
        self._budget_key = budget_key
        self._timing = timing
        self._lasting = lasting
        self._transport = transport
        self._group: asyncio.TaskGroup | None = None
        self._running = 0
        self._running_bytes = 0
        self._wrong_role = 0
        self._ponged = asyncio.Event()
        self._close: tuple[int, str] | None = None
        self._closing = asyncio.Event()

    @property
    def id(self) -> str:
        """Return the id of the connection."""
        return self.caller.connection

    def close(self, code: int, reason: str) -> None:
        """End the connection; a client whose rights ended gets nothing more, whatever waits."""
        if self._close is None:
            self._close = (code, reason)
            self.out.shut()
            self._closing.set()

    def _too_slow(self) -> None:
        log.warning("plane.slow_consumer", connection=self.id, client=self.caller.client.id)
        self.close(CLOSE_POLICY, "slow consumer")

    async def run(self) -> None:
        """Serve the client until one side ends it."""
        try:
            async with asyncio.TaskGroup() as self._group:
                start = self._group.create_task
                start(self.out.run(self._write), name="plane.write")
                start(self._ping(), name="plane.ping")
                start(self._end_when_told(), name="plane.end")
                start(self._read(), name="plane.read")
        except* (_Ended, ConnectionError):
            pass
        finally:
            self.out.shut()

    async def _write(self, text: str) -> None:
        try:
            async with asyncio.timeout(self._timing.write):
                await self._socket.send_str(text)
        except TimeoutError:
            log.warning("plane.stuck_write", connection=self.id, client=self.caller.client.id)
            self._abort()
            raise _Ended from None

    async def _end_when_told(self) -> None:
        await self._closing.wait()
        assert self._close is not None
        code, reason = self._close
        try:
            async with asyncio.timeout(self._timing.close):
                await self._socket.close(code=code, message=close_reason(reason))
        except TimeoutError:
            self._abort()
        raise _Ended

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(self._timing.ping)
            self._ponged.clear()
            try:
                async with asyncio.timeout(self._timing.pong):
                    await self._socket.ping()
                    await self._ponged.wait()
            except TimeoutError:
                log.info("plane.half_open", connection=self.id, client=self.caller.client.id)
                self._abort()
                raise _Ended from None

    async def _read(self) -> None:
        while True:
            message = await self._socket.receive()
            if message.type is WSMsgType.TEXT:
                self._take(message.data)
            elif message.type is WSMsgType.PING:
                await self._socket.pong(message.data)
            elif message.type is WSMsgType.PONG:
                self._ponged.set()
            elif message.type is not WSMsgType.BINARY:
                raise _Ended

    def _take(self, text: str) -> None:
        try:
            data = parse_json(text)
        except ValueError:
            return
        try:
            frame = read_request(data)
        except RpcError as error:
            self.out.put(failure(echo_id(data), error))
            return
        if self._running >= MAX_REQUESTS or self._running_bytes + len(text) > MAX_BUFFERED:
            self.out.put(failure(frame.id, RpcError(Code.UNAVAILABLE, BUSY, retryable=True)))
            return
        method = self._methods.get(frame.method)
        lasts, name = method is not None and method.lasts, f"plane.{frame.method[:40]}"
        if lasts and not self._lasting.has_room(len(text)):
            self.out.put(failure(frame.id, RpcError(Code.UNAVAILABLE, BUSY, retryable=True)))
            return
        assert self._group is not None
        self._running += 1
        self._running_bytes += len(text)
        if lasts:
            self._lasting.start(self._serve(frame, len(text)), name, len(text))
        else:
            self._group.create_task(self._serve(frame, len(text)), name=name)

    async def _serve(self, frame: RequestFrame, size: int) -> None:
        """Carry a request out; what it only waits for then is left to the connection."""
        waiting: Waiting | None = None
        try:
            waiting = await self._reply(frame, self._answer(frame))
        finally:
            if waiting is None or not self._start(self._wait(frame, size, waiting), "plane.waiting"):
                self._done(size)

    async def _wait(self, frame: RequestFrame, size: int, waiting: Waiting) -> None:
        try:
            await self._reply(frame, waiting.answer())
        finally:
            self._done(size)

    def _done(self, size: int) -> None:
        self._running -= 1
        self._running_bytes -= size

    async def _reply(self, frame: RequestFrame, work: Awaitable[Any]) -> Waiting | None:
        """Send what comes of a request, or return what it waits for."""
        try:
            answer = await work
            if isinstance(answer, Waiting):
                return answer
            self.out.put(response(frame.id, answer))
        except RpcError as error:
            self.out.put(failure(frame.id, error))
        except TidegateError as error:
            self.out.put(failure(frame.id, RpcError(Code.UNAVAILABLE, f"Error: {error}")))
        except Exception:
            # Named boundary: one request. The client learns that it failed, the log why.
            log.exception("plane.method_failed", method=frame.method)
            self.out.put(failure(frame.id, RpcError(Code.UNAVAILABLE, "Error: internal error; see the gateway's log")))
        return None

    async def _answer(self, frame: RequestFrame) -> Any:
        method = self._permitted(frame)
        raw = {} if frame.params is None else frame.params
        if method.precheck is not None:
            method.precheck(raw)
        params = validate(method.params, raw, method.name)
        if callable(method.scope):
            self._need(method.scope(params))
        if method.write_budget:
            self._budget.spend(self._budget_key, method.name)
        return await method.handler(
            Call(frame.id, method.name, params, self.caller, self._later(frame.id), self._spawn)
        )

    def _permitted(self, frame: RequestFrame) -> Method:
        """Return the method if this caller may call it. An unknown one is charged with admin, save to a node.

        A node can hold no scope; it asks for methods of newer gateways, and stops when it hears that there is none.
        """
        method = self._methods.get(frame.method)
        if method is None:
            if self.caller.role is not Role.NODE:
                self._need(Scope.ADMIN)
            raise RpcError(Code.INVALID_REQUEST, f"unknown method: {frame.method}")
        if self.caller.role not in method.roles:
            self._wrong_role += 1
            if self._wrong_role > MAX_WRONG_ROLE:
                self.close(CLOSE_POLICY, "repeated unauthorized calls")
            raise RpcError(Code.INVALID_REQUEST, f"unauthorized role: {self.caller.role.value}")
        self._wrong_role = 0
        if isinstance(method.scope, Scope):
            self._need(method.scope)
        return method

    def _need(self, scope: Scope) -> None:
        if self.caller.role is Role.NODE and scope is not Scope.ADMIN:
            return
        if not self.caller.may(scope):
            raise missing_scope(scope)

    def _later(self, request_id: str) -> Callable[[Any], None]:
        sent = False

        def later(payload: Any) -> None:
            nonlocal sent
            if sent:
                raise ValueError("a request has two responses at most")
            sent = True
            if isinstance(payload, RpcError):
                self.out.put(failure(request_id, payload))
            else:
                self.out.put(response(request_id, payload))

        return later

    def _spawn(self, work: Awaitable[None]) -> None:
        if not self._start(self._guarded(work), "plane.spawned") and isinstance(work, Coroutine):
            work.close()

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> bool:
        """Run something that ends with the connection; False when that has ended already."""
        assert self._group is not None
        try:
            self._group.create_task(work, name=name)
        except RuntimeError:
            # The group takes no more: the client went while its request was carried out.
            work.close()
            return False
        return True

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception:
            # Named boundary: what a request left running must not end the connection.
            log.exception("plane.spawned_failed", connection=self.id)


def missing_scope(scope: Scope) -> RpcError:
    """Return the refusal of a caller that lacks a scope."""
    details = {"code": "MISSING_SCOPE", "missingScope": scope.value, "requiredScopes": [scope.value]}
    return RpcError(Code.FORBIDDEN, f"missing scope: {scope.value}", details)
