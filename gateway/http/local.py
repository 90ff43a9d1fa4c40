"""The local door: what the command line on this machine asks of a running gateway, over a private Unix socket.

Whoever can open the socket is the owner and holds every right on the control plane's methods.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import structlog
from aiohttp import WSMsgType, web

from tidegate import __version__
from tidegate.adapters.base import Outbound
from tidegate.adapters.terminal.adapter import ADDRESS, PERSON, TerminalHub
from tidegate.clock import Clock
from tidegate.config.load import Loaded
from tidegate.errors import DeliveryUnavailable, QueueFull, RoutingError, TidegateError
from tidegate.events import MessageEvent, Peer, PeerKind, Sender
from tidegate.gateway.bus import EventBus, Fact, Gap
from tidegate.gateway.control import Control
from tidegate.gateway.plane.contract import MethodTable
from tidegate.gateway.plane.owner import call_as_owner
from tidegate.gateway.ruleset import build_ruleset
from tidegate.routing.sessions import resolve_session

MAX_MESSAGE = 4 << 20
MAX_OUTGOING = 1_000
"""Frames that wait for a slow client; it is cut off then."""
TEXT_SECONDS = 0.05
"""Least time between two frames with pieces of an answer; what comes meanwhile is joined."""
MAX_TEXT = 200_000
"""Characters of one such frame."""
MAX_FACTS = 4_096

log = structlog.get_logger("local")


class LocalGateway(Protocol):
    """What the local door needs of the gateway."""

    control: Control
    hub: TerminalHub
    bus: EventBus
    clock: Clock
    loaded: Loaded


Serve = Callable[[web.Request], Awaitable[web.StreamResponse]]


def local_app(gateway: LocalGateway, methods: MethodTable, plane: Serve | None = None) -> web.Application:
    """Return the application: `POST /rpc/{method}` with JSON, `GET /chat` and `GET /plane` as WebSockets.

    Args:
        methods: What the owner may call; those that answer once, over `/rpc`.
        plane: Serves the control plane's protocol to the owner.
    """
    app = web.Application(client_max_size=MAX_MESSAGE)
    attached: set[_Chat] = set()

    async def rpc(request: web.Request) -> web.Response:
        try:
            arguments = json.loads(await request.read() or b"{}")
            if not isinstance(arguments, Mapping):
                raise ValueError("arguments are a JSON object")
            result = await call_as_owner(methods, request.match_info["method"], arguments)
        except (ValueError, TidegateError) as error:
            return _error(400, str(error))
        return web.json_response({"ok": True, "result": result})

    async def chat(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(heartbeat=30, max_msg_size=MAX_MESSAGE)
        await socket.prepare(request)
        await _Chat(gateway, socket, request.transport, attached).run()
        return socket

    app.router.add_post("/rpc/{method}", rpc)
    app.router.add_get("/chat", chat)
    if plane is not None:
        app.router.add_get("/plane", plane)
    return app


def _error(status: int, text: str) -> web.Response:
    return web.json_response({"ok": False, "error": text}, status=status)


def terminal_session(loaded: Loaded) -> str:
    """Return the key of the session that the terminal talks into, empty where no agent may answer it."""
    rules = build_ruleset(loaded)
    event = MessageEvent(ADDRESS, Peer(PeerKind.DIRECT, PERSON), Sender(PERSON), message_id="", text="")
    try:
        return resolve_session(event, rules.table, rules.resolve, is_owner=True).key
    except RoutingError:
        return ""


class _Chat:
    """One attached terminal.

    It is told `hello` first; then `accepted` or `refused` for what it sends, `fact` while a turn runs, `reply` for
    what is said to it, and `state` when it asks with `{"ask": "state"}` whether anything is still to come. All
    frames keep their order, so a state tells about every frame before it. `typed` is what was said in another
    window. Facts are those of turns that answer here, and of the configuration and the connections.

    Args:
        attached: All terminals, this one while it runs.
    """

    def __init__(
        self,
        gateway: LocalGateway,
        socket: web.WebSocketResponse,
        transport: asyncio.Transport | None,
        attached: set[_Chat],
    ) -> None:
        self._gateway = gateway
        self._socket = socket
        self._transport = transport
        self._attached = attached
        self._session = ""
        self._text: dict[str, Any] | None = None
        self._frames: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MAX_OUTGOING)
        self._too_slow = asyncio.Event()

    async def run(self) -> None:
        """Serve the client until it goes."""
        self._session = terminal_session(self._gateway.loaded)
        concerns = await self._gateway.control.concerns()
        self._put({"type": "hello", "version": __version__, "session": self._session, "concerns": concerns})
        self._attached.add(self)
        detach = self._gateway.hub.attach(self._show)
        try:
            async with asyncio.TaskGroup() as group:
                helpers = [
                    group.create_task(self._write(), name="terminal.write"),
                    group.create_task(self._watch(), name="terminal.watch"),
                    group.create_task(self._cut_off(), name="terminal.cut_off"),
                ]
                try:
                    await self._read()
                finally:
                    for helper in helpers:
                        helper.cancel()
        finally:
            self._attached.discard(self)
            detach()

    async def _read(self) -> None:
        async for frame in self._socket:
            if frame.type is not WSMsgType.TEXT:
                return
            await self._take(frame.data)

    async def _take(self, text: str) -> None:
        try:
            message = json.loads(text)
            if message.get("ask") == "state":
                self._put({"type": "state", "busy": await self._gateway.control.is_busy(self._session, ADDRESS)})
                return
            message_id, said = str(message["id"]), str(message["text"])
        except (ValueError, KeyError, TypeError, AttributeError):
            self._put({"type": "error", "text": "a message is an object with id and text"})
            return
        name = str(message.get("name", ""))[:64]
        try:
            await self._gateway.hub.submit(message_id, said, name, self._gateway.clock.now())
        except QueueFull as error:
            self._put({"type": "refused", "id": message_id, "text": str(error)})
            return
        self._put({"type": "accepted", "id": message_id})
        for other in self._attached - {self}:
            other._put({"type": "typed", "id": message_id, "text": said})

    async def _write(self) -> None:
        while True:
            frame = await self._frames.get()
            is_text = frame is self._text
            if is_text:
                self._text = None
            await self._socket.send_json(frame)
            if is_text:
                await asyncio.sleep(TEXT_SECONDS)

    async def _cut_off(self) -> None:
        """End the connection of a client that does not read; it may come back and goes on then."""
        await self._too_slow.wait()
        # A closing handshake would wait for the very client that does not read.
        if self._transport is not None:
            self._transport.abort()

    async def _watch(self) -> None:
        async for fact in self._gateway.bus.subscribe(MAX_FACTS):
            if not isinstance(fact, Gap):
                self._tell(fact)

    def _tell(self, fact: Fact) -> None:
        data = dict(fact.data or {})
        is_ours = data.get("lane") == str(ADDRESS)
        if not (is_ours or fact.name.startswith(("config.", "connection."))):
            return
        frame = {"type": "fact", "name": fact.name, "session": fact.session, "data": data}
        if fact.name != "run.text":
            self._put(frame)
        elif self._text is not None and self._text["data"].get("run") == data.get("run"):
            joined = self._text["data"]
            joined["text"] = (joined["text"] + str(data.get("text", "")))[-MAX_TEXT:]
        elif self._put(frame):
            self._text = frame

    def _show(self, part: Outbound) -> None:
        body = part.text.body if part.text is not None else ""
        file = {"file": str(part.file), "file_name": part.file_name} if part.file is not None else {}
        if not self._put({"type": "reply", "token": part.token, "text": body, **file}):
            raise DeliveryUnavailable("the attached terminal does not keep up")

    def _put(self, frame: dict[str, Any]) -> bool:
        """Queue a frame; False when a client is so slow that it is cut off. Facts give way before that."""
        if frame["type"] == "fact" and self._frames.qsize() >= MAX_OUTGOING // 2:
            return False
        self._text = None
        try:
            self._frames.put_nowait(frame)
        except asyncio.QueueFull:
            log.warning("terminal.too_slow")
            self._too_slow.set()
            return False
        return True
