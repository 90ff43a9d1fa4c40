"""A raw client of the control plane, and a plane to talk to: the real server on a free port."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from Crypto.Signature import eddsa

from tidegate.clock import Clock, SystemClock
from tidegate.gateway.plane.auth import AuthSettings, Doorkeeper
from tidegate.gateway.plane.connection import Timing
from tidegate.gateway.plane.contract import Method, MethodTable
from tidegate.gateway.plane.core_methods import core_methods
from tidegate.gateway.plane.device_methods import device_methods
from tidegate.gateway.plane.devices import DeviceBook
from tidegate.gateway.plane.hub import Hub
from tidegate.gateway.plane.identity import Statement
from tidegate.gateway.plane.limits import AttemptLimiter, AttemptRules
from tidegate.gateway.plane.node_commands import NodeRules
from tidegate.gateway.plane.node_invokes import Invokes
from tidegate.gateway.plane.node_methods import node_methods
from tidegate.gateway.plane.nodes import NodeBook
from tidegate.gateway.plane.server import PlaneServer
from tidegate.sessions.memory.store import MemoryStore

TOKEN = "golden-token-0123456789abcdef-golden"
ALL = [
    "operator.admin",
    "operator.read",
    "operator.write",
    "operator.approvals",
    "operator.pairing",
    "operator.questions",
    "operator.talk.secrets",
]
QUICK = AttemptRules(local_delay=0.001, local_delay_max=0.002)


class PlainFacts:
    """A gateway with one agent and nothing to tell."""

    async def health(self) -> dict[str, Any]:
        """Return a snapshot."""
        return {"ok": True, "ts": 1, "channels": {}}

    async def status(self) -> dict[str, Any]:
        """Return a summary."""
        return {"runtimeVersion": "1"}

    def session_defaults(self) -> dict[str, Any]:
        """Return the defaults."""
        return {"defaultAgentId": "main", "mainKey": "main", "mainSessionKey": "agent:main:main"}

    def config_hash(self) -> str | None:
        """Return a hash."""
        return "sha256:v1:0"

    def places(self) -> Mapping[str, str]:
        """Return places that only an admin may know."""
        return {"configPath": "/secret/place/config", "stateDir": "/secret/place"}


@dataclass
class Plane:
    """A running control plane."""

    url: str
    server: PlaneServer
    hub: Hub
    book: DeviceBook
    doorkeeper: Doorkeeper
    store: MemoryStore
    http: aiohttp.ClientSession
    sockets: list[RawClient] = field(default_factory=list)

    async def open(self, *, headers: Mapping[str, str] | None = None, path: str = "/") -> RawClient:
        """Open a socket and take the challenge."""
        socket = await self.http.ws_connect(
            self.url + path, headers=headers, autoping=True, max_msg_size=0, autoclose=False
        )
        client = RawClient(socket)
        self.sockets.append(client)
        client.challenge = (await client.frame())["payload"]
        return client

    async def connect(self, scopes: Iterable[str] = ALL, **fields: Any) -> RawClient:
        """Return an operator on this machine: the command line with the shared token."""
        client = await self.open(headers=fields.pop("headers", None))
        answer = await client.say_connect(connect_params(scopes=list(scopes), **fields))
        assert answer["ok"], answer
        client.hello = answer["payload"]
        return client


class RawClient:
    """A socket that can send anything."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.challenge: dict[str, Any] = {}
        self.hello: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.close: tuple[int, str] | None = None
        self._number = 0

    async def frame(self) -> dict[str, Any]:
        """Return the next frame. Raises ConnectionError when the socket closes; `close` tells how."""
        message = await self.socket.receive(timeout=15)
        if message.type is aiohttp.WSMsgType.TEXT:
            frame: dict[str, Any] = json.loads(message.data)
            return frame
        code = message.data if message.type is aiohttp.WSMsgType.CLOSE else self.socket.close_code
        self.close = (code or 0, message.extra or "")
        await self.socket.close()
        raise ConnectionError(f"closed {self.close}")

    async def until_closed(self) -> tuple[int, str]:
        """Read until the server closes; returns code and reason."""
        try:
            while True:
                frame = await self.frame()
                if frame["type"] == "event":
                    self.events.append(frame)
        except ConnectionError:
            assert self.close is not None
            return self.close

    async def answer(self, request_id: str) -> dict[str, Any]:
        """Return the response with an id; events on the way are kept."""
        while True:
            frame = await self.frame()
            if frame["type"] == "res" and frame["id"] == request_id:
                return frame
            self.events.append(frame)

    async def event(self, name: str) -> dict[str, Any]:
        """Return the next event of a name."""
        for frame in self.events:
            if frame.get("event") == name:
                self.events.remove(frame)
                return frame
        while True:
            frame = await self.frame()
            if frame.get("event") == name:
                return frame
            self.events.append(frame)

    async def call(self, method: str, params: Any = None) -> dict[str, Any]:
        """Send a request and return its first response."""
        self._number += 1
        request_id = f"r{self._number}"
        await self.socket.send_json({"type": "req", "id": request_id, "method": method, "params": params or {}})
        return await self.answer(request_id)

    async def say_connect(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send `connect` and return the answer."""
        await self.socket.send_json({"type": "req", "id": "c", "method": "connect", "params": params})
        return await self.answer("c")

    async def connect_device(self, key: Key, **fields: Any) -> dict[str, Any]:
        """Send `connect` with a signed device block."""
        return await self.say_connect(key.sign(connect_params(**fields), self.challenge["nonce"], self.challenge["ts"]))


class Key:
    """The key pair of a device, from a seed of one repeated byte."""

    def __init__(self, seed: int) -> None:
        self._key = eddsa.import_private_key(bytes([seed]) * 32)
        raw = self._key.public_key().export_key(format="raw")
        self.public = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
        self.id = hashlib.sha256(raw).hexdigest()

    def sign(self, params: Mapping[str, Any], nonce: str, at: int, *, version: str = "v3") -> dict[str, Any]:
        """Return connect parameters with a device block over a nonce."""
        client, auth = params["client"], params.get("auth") or {}
        statement = Statement(
            self.id,
            client["id"],
            client["mode"],
            params.get("role", "operator"),
            params.get("scopes", []),
            at,
            auth.get("token") or auth.get("deviceToken") or auth.get("bootstrapToken") or "",
            nonce,
            client["platform"],
            client.get("deviceFamily", ""),
        )
        signature = eddsa.new(self._key, "rfc8032").sign(statement.text(version).encode())
        device = {
            "id": self.id,
            "publicKey": self.public,
            "signature": base64.urlsafe_b64encode(signature).rstrip(b"=").decode(),
            "signedAt": at,
            "nonce": nonce,
        }
        return {**params, "device": device}


def connect_params(
    *,
    client: str = "cli",
    mode: str = "cli",
    scopes: Sequence[str] = ("operator.read",),
    role: str = "operator",
    auth: Mapping[str, str] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return connect parameters of a client."""
    return {
        "minProtocol": 4,
        "maxProtocol": 4,
        "client": {"id": client, "version": "1", "platform": "linux", "mode": mode, **fields.pop("about", {})},
        "role": role,
        "scopes": list(scopes),
        "auth": {"token": TOKEN} if auth is None else dict(auth),
        **fields,
    }


@asynccontextmanager
async def plane(
    state_dir: Path,
    *extra: Method,
    settings: AuthSettings | None = None,
    timing: Timing | None = None,
    clock: Clock | None = None,
    store: MemoryStore | None = None,
    max_buffered: int = 52_428_800,
    loopback_only: bool = True,
    node_rules: NodeRules | None = None,
) -> AsyncIterator[Plane]:
    """Run a control plane for the length of the block."""
    time = clock or SystemClock()
    settings = settings or AuthSettings("token", TOKEN, rules=QUICK)
    hub = Hub(time)
    held = store or MemoryStore(time)
    await held.open()
    doorkeeper = Doorkeeper(settings, AttemptLimiter(time, settings.rules, held))
    await doorkeeper.limiter.load()
    book = DeviceBook(held, hub, doorkeeper, time, state_dir, loopback_only=loopback_only)
    facts = PlainFacts()
    rules = node_rules or NodeRules()
    nodes = NodeBook(held, hub, time, lambda: rules)
    of_nodes = node_methods(nodes, Invokes(held, hub, nodes))
    table = MethodTable([*core_methods(hub, facts), *device_methods(book), *of_nodes, *extra])
    server = PlaneServer(
        table,
        hub,
        facts,
        doorkeeper,
        book,
        time,
        nodes=nodes,
        timing=timing or Timing(close=0.3),
        max_buffered=max_buffered,
    )
    app = web.Application()
    server.attach(app)
    app.router.add_get("/healthz", _ok)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with server.lasting, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        running = Plane(f"http://127.0.0.1:{port}", server, hub, book, doorkeeper, held, http)
        try:
            yield running
        finally:
            for client in running.sockets:
                await client.socket.close()
            await runner.cleanup()


async def _ok(_: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


def with_rules(settings: AuthSettings, **rules: Any) -> AuthSettings:
    """Return settings with other limits."""
    return replace(settings, rules=replace(settings.rules, **rules))
