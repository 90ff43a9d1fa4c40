"""Connecting: socket, challenge, proof, hello. A secret goes only to the address that was named, never elsewhere.

The handshake is that of OpenClaw's gateway protocol, version 4; the proof is its signature of version 3.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from socket import gethostname
from types import SimpleNamespace
from typing import Any

import aiohttp

from tidegate import __version__
from tidegate.errors import TidegateError
from tidegate.gateway.client.address import GatewayAddress
from tidegate.gateway.client.connection import Connection
from tidegate.gateway.client.errors import Denied, NotAGateway, NotPaired, Unreachable, WrongSecret
from tidegate.gateway.client.identity import DeviceKey, Identity, StoredToken
from tidegate.gateway.client.refusals import denied, unreachable
from tidegate.gateway.plane.identity import USER_AT_HOST, Statement

CONNECT_SECONDS = 10.0
HANDSHAKE_SECONDS = 20.0
"""A wrong secret is answered late on purpose, so this is more than a connection takes."""
CLOSE_SECONDS = 1.0
MAX_FRAME = 26_214_400
PROTOCOL = 4
SCOPE_MISMATCH = "AUTH_SCOPE_MISMATCH"
LOCAL = "the gateway on this machine"


@dataclass(frozen=True, slots=True)
class Secret:
    """What somebody gave us to come in with."""

    token: str = field(default="", repr=False)
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Door:
    """Where to connect: an address elsewhere with what we prove ourselves by, or the private socket of this machine.

    Attributes:
        socket: The private socket; the address counts for nothing then.
        identity: Our key and tokens, for an address.
        shows_token: Our own token is shown where no secret was given.
    """

    address: GatewayAddress | None = None
    socket: Path | None = None
    identity: Identity | None = None
    secret: Secret = Secret()
    shows_token: bool = True

    @property
    def name(self) -> str:
        """What people call the gateway."""
        return self.address.url.rstrip("/") if self.address is not None else LOCAL


@dataclass(frozen=True, slots=True)
class Kind:
    """What we are to the gateway.

    Attributes:
        scopes: What is needed; a new device asks for these.
        helpful: What is asked for besides where this device holds it already; nobody is asked to give it.
    """

    scopes: tuple[str, ...]
    helpful: tuple[str, ...] = ()
    id: str = "cli"
    mode: str = "cli"
    caps: tuple[str, ...] = ()
    display_name: str = ""


@asynccontextmanager
async def connected(door: Door, kind: Kind) -> AsyncIterator[Connection]:
    """Connect, for the length of the block.

    Raises:
        ClientError: It is not possible; the text says what to do. In the block, what the connection's methods raise.
        BadIdentity: Our stored identity cannot be used.
    """
    failure: TidegateError | OSError | GeneratorExit | None = None
    async with _session(door) as http:
        socket, hello = await _come_in(http, door, kind)
        connection = Connection(socket, hello, door.name)
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(connection.read(), name="client.read")
            try:
                yield connection
            except (TidegateError, OSError, GeneratorExit) as error:
                # Out of the group as it is: a group would wrap it.
                failure = error
            finally:
                reading.cancel()
                await _close(socket)
    if failure is not None:
        raise failure


@asynccontextmanager
async def _session(door: Door) -> AsyncIterator[aiohttp.ClientSession]:
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_refuse_redirect)
    if door.address is None:
        connector: aiohttp.BaseConnector = aiohttp.UnixConnector(str(door.socket))
    else:
        # A context of its own, so that what the environment says about certificates now is what counts.
        encrypted = door.address.is_encrypted
        connector = aiohttp.TCPConnector(limit=1, ssl=ssl.create_default_context() if encrypted else True)
    async with aiohttp.ClientSession(
        connector=connector, trace_configs=[trace], cookie_jar=aiohttp.DummyCookieJar()
    ) as http:
        yield http


async def _refuse_redirect(
    _: aiohttp.ClientSession, __: SimpleNamespace, params: aiohttp.TraceRequestRedirectParams
) -> None:
    target = params.response.headers.get("Location", "")
    raise NotAGateway(f"that address sends us on to {target}; name it with --url if you trust it")


async def _come_in(
    http: aiohttp.ClientSession, door: Door, kind: Kind
) -> tuple[aiohttp.ClientWebSocketResponse, dict[str, Any]]:
    """Return a socket that is through its handshake, with as much of what is asked for as this device holds."""
    kept = _kept(door)
    wide = _widened(kind, kept, shows_secret=bool(door.secret.token or door.secret.password))
    if wide != kind:
        try:
            return await _proven(http, door, wide, kept)
        except NotPaired:
            # It held more once; whoever approves it now gives what is needed.
            pass
        except Denied as error:
            if error.code != SCOPE_MISMATCH:
                raise
    try:
        return await _proven(http, door, kind, kept)
    except Denied as error:
        if error.code != SCOPE_MISMATCH or kept is None:
            raise
        # Inside, with what the token does reach, more can be asked for.
        return await _shake_hands(http, door, replace(kind, scopes=kept.scopes), Secret(), kept)


async def _proven(
    http: aiohttp.ClientSession, door: Door, kind: Kind, kept: StoredToken | None
) -> tuple[aiohttp.ClientWebSocketResponse, dict[str, Any]]:
    """Shake hands; our own token is tried where the secret does not fit."""
    try:
        return await _shake_hands(http, door, kind, door.secret, kept)
    except WrongSecret as error:
        if not error.try_device_token or kept is None:
            raise
        return await _shake_hands(http, door, kind, Secret(), kept)


def _widened(kind: Kind, kept: StoredToken | None, *, shows_secret: bool) -> Kind:
    """Return what to ask for first.

    With its own token alone a device is given no more than it holds, so asking tells; a secret of the gateway would
    turn the question into a request, or into the right itself.
    """
    if kept is None:
        return kind
    helpful = (scope for scope in kind.helpful if not shows_secret or scope in kept.scopes)
    return replace(kind, scopes=tuple(dict.fromkeys((*kind.scopes, *helpful))))


def _kept(door: Door) -> StoredToken | None:
    if door.address is None or door.identity is None or not door.shows_token:
        return None
    return door.identity.token(door.address.url)


async def _shake_hands(
    http: aiohttp.ClientSession, door: Door, kind: Kind, secret: Secret, kept: StoredToken | None
) -> tuple[aiohttp.ClientWebSocketResponse, dict[str, Any]]:
    socket = await _open(http, door)
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            challenge = await _challenge(socket, door)
            params = _params(door, kind, secret, kept, challenge)
            frame = {"type": "req", "id": "connect", "method": "connect", "params": params}
            await socket.send_str(json.dumps(frame))
            hello = await _hello(socket, door)
    except TimeoutError:
        await _close(socket)
        raise Unreachable(f"{door.name} opened a socket and said nothing; try again") from None
    except (aiohttp.ClientError, OSError) as error:
        await _close(socket)
        raise unreachable(error, door.name, _host(door)) from error
    except BaseException:
        await _close(socket)
        raise
    _keep(door, kind, hello)
    return socket, hello


async def _open(http: aiohttp.ClientSession, door: Door) -> aiohttp.ClientWebSocketResponse:
    url = "http://localhost/plane" if door.address is None else door.address.url
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await http.ws_connect(url, max_msg_size=MAX_FRAME, compress=0)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise unreachable(error, door.name, _host(door)) from error


def _host(door: Door) -> str:
    return door.address.host if door.address is not None else "localhost"


async def _frame(socket: aiohttp.ClientWebSocketResponse, door: Door) -> dict[str, Any]:
    message = await socket.receive()
    if message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSING):
        raise Unreachable(
            f"{door.name} closed the connection before it let us in: {message.extra or 'no reason given'}"
        )
    try:
        frame = json.loads(message.data) if message.type is aiohttp.WSMsgType.TEXT else None
    except (ValueError, RecursionError):
        frame = None
    if not isinstance(frame, dict):
        raise NotAGateway(f"what answers on {door.name} is no gateway; check --url")
    return frame


async def _challenge(socket: aiohttp.ClientWebSocketResponse, door: Door) -> tuple[str, int]:
    frame = await _frame(socket, door)
    payload = frame.get("payload")
    if frame.get("event") == "connect.challenge" and isinstance(payload, dict):
        nonce, at = payload.get("nonce"), payload.get("ts")
        if isinstance(nonce, str) and nonce and isinstance(at, int) and at >= 0:
            return nonce, at
    raise NotAGateway(f"what answers on {door.name} is no gateway; check --url")


async def _hello(socket: aiohttp.ClientWebSocketResponse, door: Door) -> dict[str, Any]:
    while True:
        frame = await _frame(socket, door)
        if frame.get("type") != "res" or frame.get("id") != "connect":
            continue
        payload, error = frame.get("payload"), frame.get("error")
        if frame.get("ok") is True and isinstance(payload, dict) and payload.get("protocol") == PROTOCOL:
            return payload
        if isinstance(error, Mapping):
            raise denied(error, door.name)
        raise NotAGateway(f"{door.name} greets in a way that this program does not know; use the same version on both")


def _params(
    door: Door, kind: Kind, secret: Secret, kept: StoredToken | None, challenge: tuple[str, int]
) -> dict[str, Any]:
    auth = {name: value for name, value in (("token", secret.token), ("password", secret.password)) if value}
    if not auth and kept is not None:
        auth = {"deviceToken": kept.token}
    client = {"id": kind.id, "version": __version__, "platform": sys.platform, "mode": kind.mode}
    if kind.display_name:
        client["displayName"] = kind.display_name
    if door.address is not None and (name := who_here()):
        # Not as a display name: agents are told that one as the name of who speaks.
        client["instanceId"] = name
    params: dict[str, Any] = {
        "minProtocol": PROTOCOL,
        "maxProtocol": PROTOCOL,
        "client": client,
        "role": "operator",
        "scopes": list(kind.scopes),
        "caps": list(kind.caps),
        "auth": auth,
        "userAgent": f"tidegate/{__version__}",
    }
    if door.address is not None and door.identity is not None:
        params["device"] = _proof(door.identity.key(), params, challenge)
    return params


def who_here() -> str:
    """Return `user@host`, by which people tell their devices apart; empty where this machine has no such names."""
    try:
        name = f"{getpass.getuser()}@{gethostname().partition('.')[0]}"
    except (KeyError, OSError):
        return ""
    return name if USER_AT_HOST.fullmatch(name) else ""


def _proof(key: DeviceKey, params: Mapping[str, Any], challenge: tuple[str, int]) -> dict[str, Any]:
    nonce, at = challenge
    client, auth = params["client"], params["auth"]
    statement = Statement(
        key.id,
        client["id"],
        client["mode"],
        params["role"],
        params["scopes"],
        at,
        auth.get("token") or auth.get("deviceToken") or "",
        nonce,
        client["platform"],
    )
    return {"id": key.id, "publicKey": key.public, "signature": key.sign(statement), "signedAt": at, "nonce": nonce}


def _keep(door: Door, kind: Kind, hello: Mapping[str, Any]) -> None:
    """Remember the token that the gateway gives with every hello, and what it reaches."""
    auth = hello.get("auth")
    token = auth.get("deviceToken") if isinstance(auth, Mapping) else None
    if door.address is None or door.identity is None or not isinstance(token, str) or not token:
        return
    before = door.identity.token(door.address.url)
    known = before.scopes if before is not None and before.token == token else ()
    door.identity.keep(door.address.url, StoredToken(token, tuple(dict.fromkeys((*known, *kind.scopes)))))


async def _close(socket: aiohttp.ClientWebSocketResponse) -> None:
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await socket.close()
    except (TimeoutError, OSError, aiohttp.ClientError):
        return
