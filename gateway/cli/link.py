"""The chat's wire: a WebSocket over the gateway's socket that comes back when the gateway does."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator
from typing import Any, Protocol

import aiohttp

from tidegate.gateway.site import Site
from tidegate.ids import new_id

RETRY_SECONDS = 0.25
CONNECT_SECONDS = 5.0
CLOSE_SECONDS = 1.0
MAX_FRAME = 8 << 20
MAX_UNSENT = 100
"""Messages that wait while the gateway is away."""
MAX_SHOWN = 1_000
"""Replies that are remembered, so that none is shown twice."""

Frame = dict[str, Any]


class Link(Protocol):
    """What a chat needs of its wire."""

    @property
    def unconfirmed(self) -> int:
        """How many messages the gateway has not confirmed yet."""
        ...

    async def send(self, text: str) -> str:
        """Send a message now or once the gateway is back; returns why not, or nothing."""
        ...

    async def ask_state(self) -> None:
        """Ask whether anything is still to come; a `state` frame answers."""
        ...

    def frames(self) -> AsyncGenerator[Frame, None]:
        """Yield frames; `{"type": "lost"}` says that the connection broke or cannot be made.

        Whoever stops reading closes it: a connection hangs on it.
        """
        ...


class ChatLink:
    """Sends what is typed and yields what comes.

    A message goes again after a reconnection until the gateway confirmed that it is stored; the gateway knows it
    by its id, so it counts once.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._unsent: OrderedDict[str, str] = OrderedDict()
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._shown: deque[str] = deque(maxlen=MAX_SHOWN)

    @property
    def unconfirmed(self) -> int:
        """How many messages the gateway has not confirmed yet."""
        return len(self._unsent)

    async def send(self, text: str) -> str:
        """Send a message now or once the gateway is back; returns why not, or nothing."""
        if len(self._unsent) >= MAX_UNSENT:
            return "too many messages wait for the gateway"
        message_id = str(new_id())
        self._unsent[message_id] = text
        await self._put({"id": message_id, "text": text})
        return ""

    async def ask_state(self) -> None:
        """Ask whether anything is still to come; a `state` frame answers."""
        await self._put({"ask": "state"})

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """Yield frames for ever; `{"type": "lost"}` says that the connection broke or cannot be made."""
        connector = aiohttp.UnixConnector(path=str(self._site.socket))
        async with aiohttp.ClientSession(connector=connector) as http:
            while True:
                try:
                    async with asyncio.timeout(CONNECT_SECONDS):
                        self._socket = await http.ws_connect(
                            "http://localhost/chat", max_msg_size=MAX_FRAME, heartbeat=30
                        )
                    for message_id, text in list(self._unsent.items()):
                        await self._put({"id": message_id, "text": text})
                    async with contextlib.aclosing(self._receive(self._socket)) as received:
                        async for frame in received:
                            yield frame
                except (aiohttp.ClientError, OSError, TimeoutError):
                    pass
                finally:
                    self._socket = None
                yield {"type": "lost"}
                await asyncio.sleep(RETRY_SECONDS)

    async def _receive(self, socket: aiohttp.ClientWebSocketResponse) -> AsyncGenerator[Frame, None]:
        try:
            async for message in socket:
                if message.type is not aiohttp.WSMsgType.TEXT:
                    return
                frame = message.json()
                if frame.get("type") in ("accepted", "refused"):
                    self._unsent.pop(str(frame.get("id")), None)
                if frame.get("type") == "reply" and self._is_repeat(str(frame.get("token", ""))):
                    continue
                yield frame
        finally:
            # A failure to close must not take the place of a cancellation that is under way.
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await socket.close()

    def _is_repeat(self, token: str) -> bool:
        """Tell whether a reply was shown before; the gateway may say it again when it is not sure that we got it."""
        if token in self._shown:
            return True
        self._shown.append(token)
        return False

    async def _put(self, frame: Frame) -> None:
        if self._socket is None or self._socket.closed:
            return
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._socket.send_json(frame)
        except (aiohttp.ClientError, OSError, TimeoutError):
            # The reader sees the broken connection as well and makes another; the message goes again then.
            return
