"""The control plane on the gateway's port: any path that asks for a WebSocket, next to the HTTP routes."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import structlog
from aiohttp import WSMsgType, web

from tidegate.clock import Clock
from tidegate.errors import TidegateError
from tidegate.gateway.plane.auth import AuthSettings, Doorkeeper
from tidegate.gateway.plane.connection import Connection, Timing
from tidegate.gateway.plane.contract import Caller, Code, MethodTable, PlaneEvent, Role, RpcError
from tidegate.gateway.plane.frames import (
    CLOSE_BUSY,
    CLOSE_OK,
    CLOSE_POLICY,
    CLOSE_RESTART,
    CLOSE_TOO_BIG,
    MAX_BEFORE_AUTH,
    MAX_BUFFERED,
    MAX_PAYLOAD,
    close_reason,
    encode,
    event_text,
    failure,
    looks_like_request,
    parse_json,
    read_request,
    response,
)
from tidegate.gateway.plane.gate import Gate
from tidegate.gateway.plane.handshake import Admitted, Devices, Handshake, Refused
from tidegate.gateway.plane.hello import HelloParts, PlaneFacts, hello
from tidegate.gateway.plane.hub import Hub
from tidegate.gateway.plane.lasting import Lasting
from tidegate.gateway.plane.limits import WriteBudget
from tidegate.gateway.plane.outgoing import Backlog
from tidegate.gateway.plane.peers import Peer, host_is_ours, origin_is_allowed, peer_of

MAX_STRANGERS = 1_000
"""Sockets that may be open without having finished their handshake."""
MAX_FROM_ONE = 250
"""The same from one address, so that one cannot keep all others out."""
FLUSH_SECONDS = 1.0
FIRST_MUST_BE_CONNECT = "invalid handshake: first request must be connect"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
log = structlog.get_logger("plane")


class NodeArrivals(Protocol):
    """Who hears of nodes."""

    async def joined(self, connection: Connection) -> None:
        """Take a node in. Raises TidegateError when that cannot be noted; its connection ends then."""
        ...


class PlaneServer:
    """Takes connections, lets them in, and serves them until it stops.

    Attributes:
        lasting: Carries out what changes something; has to be entered before connections come.

    Args:
        capabilities: Names for `features.capabilities`; only what is implemented.
        nodes: Hears of each node after its hello-ok is queued.
        max_buffered: Bytes that may wait for one client.
    """

    def __init__(
        self,
        methods: MethodTable,
        hub: Hub,
        facts: PlaneFacts,
        doorkeeper: Doorkeeper,
        devices: Devices,
        clock: Clock,
        *,
        capabilities: Sequence[str] = (),
        nodes: NodeArrivals | None = None,
        timing: Timing | None = None,
        max_buffered: int = MAX_BUFFERED,
    ) -> None:
        self.hub = hub
        self._nodes = nodes
        self.methods = methods
        self.lasting = Lasting()
        self._facts = facts
        self._doorkeeper = doorkeeper
        self._handshake = Handshake(doorkeeper, devices, clock)
        self._clock = clock
        self._capabilities = tuple(capabilities)
        self._timing = timing or Timing()
        self._max_buffered = max_buffered
        self._budget = WriteBudget(clock)
        self._backlog = Backlog()
        self._boot = str(uuid.uuid4())
        self._started = clock.monotonic()
        self._strangers: Counter[str] = Counter()
        self._stopping = False

    def attach(self, app: web.Application) -> None:
        """Check every request of an application, and take those that ask for a WebSocket."""
        app.middlewares.append(self._middleware())
        app.on_shutdown.append(self._on_shutdown)

    async def run(self) -> None:
        """Send ticks and health until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick(), name="plane.tick")
            group.create_task(self._tell_health(), name="plane.health")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._timing.tick)
            self.hub.publish(PlaneEvent("tick", {"ts": self._clock.now() // 1000}))

    async def _tell_health(self) -> None:
        while True:
            try:
                self.hub.set_health(await self._facts.health())
            except TidegateError as error:
                log.warning("plane.health_unknown", reason=str(error))
            await asyncio.sleep(self._timing.health)

    def use_auth(self, settings: AuthSettings) -> None:
        """Go on with other settings at once; connections that a changed secret let in end."""
        if self._doorkeeper.use(settings):
            self.hub.close_operators_by_secret()

    def peer(self, request: web.Request) -> Peer:
        """Return where a request comes from."""
        name = request.transport.get_extra_info("peername") if request.transport is not None else None
        address = str(name[0]) if isinstance(name, tuple) and name else ""
        return peer_of(address, request.headers, self._doorkeeper.settings.trusted_proxies)

    def _middleware(self) -> Any:
        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            settings = self._doorkeeper.settings
            host, origin = request.headers.get("Host"), request.headers.get("Origin")
            if not host_is_ours(host, settings.allowed_origins, settings.bind_host):
                raise web.HTTPForbidden(text="host not allowed (name it in gateway.controlUi.allowedOrigins)\n")
            if origin is not None and not origin_is_allowed(origin, host, settings.allowed_origins):
                raise web.HTTPForbidden(text="origin not allowed (name it in gateway.controlUi.allowedOrigins)\n")
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await self._socket(request)
            return await handler(request)

        return guard

    async def serve_owner(self, request: web.Request) -> web.StreamResponse:
        """Serve a WebSocket of the owner, who came through the private socket of the state directory."""
        return await self._socket(request, is_owner=True)

    async def _socket(self, request: web.Request, *, is_owner: bool = False) -> web.StreamResponse:
        # Nobody can fill the door of the owner: others do not come to it.
        source = "" if is_owner else self.peer(request).neighbourhood
        is_full = self._strangers.total() >= MAX_STRANGERS or self._strangers[source] >= MAX_FROM_ONE
        if (source and is_full) or self._stopping:
            raise web.HTTPServiceUnavailable(text="too many connections wait for their handshake\n")
        # Compression stays off: the protocol's gateways never accept it.
        socket = web.WebSocketResponse(
            autoping=False, max_msg_size=MAX_PAYLOAD, compress=False, timeout=self._timing.close
        )
        with self._counted(source):
            try:
                await socket.prepare(request)
            except ConnectionError:
                return socket
            gate = Gate(request, socket)
            connection = await self._let_in(request, socket, is_owner)
        if connection is None:
            return socket
        gate.open()
        try:
            if connection.caller.role is Role.NODE and self._nodes is not None:
                await self._arrived(connection)
            await connection.run()
        finally:
            self.hub.remove(connection)
        return socket

    @contextmanager
    def _counted(self, source: str) -> Iterator[None]:
        """Count a connection as a stranger's until it is known."""
        if not source:
            yield
            return
        self._strangers[source] += 1
        try:
            yield
        finally:
            self._strangers[source] -= 1
            if not self._strangers[source]:
                del self._strangers[source]

    async def _arrived(self, connection: Connection) -> None:
        assert self._nodes is not None
        try:
            await self._nodes.joined(connection)
        except TidegateError as error:
            log.warning("plane.node_not_noted", reason=str(error))
            connection.close(CLOSE_BUSY, "gateway cannot check nodes now; retry shortly")

    async def _let_in(self, request: web.Request, socket: web.WebSocketResponse, is_owner: bool) -> Connection | None:
        """Return the connection after its hello-ok is queued, or None when it was refused."""
        frame_id: str | None = None
        try:
            async with asyncio.timeout(self._timing.handshake):
                nonce = str(uuid.uuid4())
                challenge = {"nonce": nonce, "ts": self._clock.now() // 1000}
                await socket.send_str(event_text("connect.challenge", encode(challenge)))
                data = await self._first_frame(socket)
                frame_id = str(data["id"]) if looks_like_request(data) else None
                peer = Peer("owner", True) if is_owner else self.peer(request)
                admitted = await self._admit(data, peer, request, None if is_owner else nonce)
        except Refused as refusal:
            await self._refuse(socket, refusal, frame_id, "owner" if is_owner else self.peer(request).ip)
            return None
        except (TimeoutError, ConnectionError):
            await socket.close(code=CLOSE_OK)
            return None
        assert frame_id is not None
        return self._welcome(request, socket, admitted, peer, frame_id)

    async def _first_frame(self, socket: web.WebSocketResponse) -> Any:
        """Return the first JSON value. Raises Refused when what came is none."""
        while True:
            message = await socket.receive()
            if message.type is WSMsgType.PING:
                await socket.pong(message.data)
            elif message.type is not WSMsgType.PONG:
                break
        if message.type is not WSMsgType.TEXT:
            raise Refused(None, CLOSE_OK, "")
        if len(message.data.encode("utf-8", "replace")) > MAX_BEFORE_AUTH:
            raise Refused(None, CLOSE_TOO_BIG, "")
        try:
            return parse_json(message.data)
        except ValueError:
            raise Refused(None, CLOSE_OK, "") from None

    async def _admit(self, data: Any, peer: Peer, request: web.Request, nonce: str | None) -> Admitted:
        """Return what a client may do; without a nonce it is the owner, who proves nothing."""
        try:
            frame = read_request(data)
        except RpcError as error:
            raise Refused(None, CLOSE_POLICY, "invalid request frame") from error
        if frame.method != "connect":
            raise Refused(RpcError(Code.INVALID_REQUEST, FIRST_MUST_BE_CONNECT))
        if self._stopping:
            raise Refused(RpcError(Code.UNAVAILABLE, "gateway is stopping", retryable=True), CLOSE_BUSY)
        if nonce is None:
            return self._handshake.admit_owner(frame)
        try:
            return await self._handshake.admit(frame, peer, request.headers, nonce)
        except TidegateError as error:
            log.warning("plane.cannot_admit", reason=str(error))
            unavailable = RpcError(Code.UNAVAILABLE, "gateway cannot check devices now; retry shortly", retryable=True)
            raise Refused(unavailable, CLOSE_BUSY) from error

    async def _refuse(
        self, socket: web.WebSocketResponse, refusal: Refused, frame_id: str | None, address: str
    ) -> None:
        code = refusal.error.details.get("code") if refusal.error and refusal.error.details else None
        log.info("plane.refused", address=address, code=code, reason=refusal.reason)
        try:
            async with asyncio.timeout(self._timing.close * 2):
                if refusal.error is not None and frame_id is not None:
                    await socket.send_str(failure(frame_id, refusal.error))
                await socket.close(code=refusal.code, message=close_reason(refusal.reason))
        except (TimeoutError, ConnectionError):
            log.debug("plane.refused_gone")

    def _welcome(
        self, request: web.Request, socket: web.WebSocketResponse, admitted: Admitted, peer: Peer, frame_id: str
    ) -> Connection:
        grant = admitted.grant
        caller = Caller(
            str(uuid.uuid4()),
            admitted.role,
            grant.scopes,
            admitted.client,
            frozenset(admitted.params.caps),
            grant.method,
            admitted.device,
            peer.is_local,
            tuple(admitted.params.commands) if admitted.role is Role.NODE else (),
        )
        connection = Connection(
            socket,
            caller,
            self.methods,
            self._budget,
            self._timing,
            self.lasting,
            budget_key=caller.device or f"{caller.client.id}@{peer.neighbourhood}",
            transport=request.transport,
            max_buffered=self._max_buffered,
            backlog=self._backlog,
        )
        parts = HelloParts(
            self.hub,
            self._facts,
            self.methods,
            self._capabilities,
            self._boot,
            self._doorkeeper.settings.mode,
            int((self._clock.monotonic() - self._started) * 1000),
            int(self._timing.tick * 1000),
        )
        connection.out.put(response(frame_id, hello(parts, caller, grant)))
        self.hub.add(connection)
        return connection

    async def _on_shutdown(self, _: web.Application) -> None:
        await self.stop("gateway stopping")

    async def stop(self, reason: str) -> None:
        """Tell everybody that the gateway goes, and close. New connections are refused from now on."""
        self._stopping = True
        self.hub.publish(PlaneEvent("shutdown", {"reason": reason}))
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                for connection in self.hub.connections:
                    await connection.out.flush()
        except TimeoutError:
            log.info("plane.unread_at_stop")
        for connection in self.hub.connections:
            connection.close(CLOSE_RESTART, "service restart")
