"""Holds back what a socket sends before it is authenticated, so that nobody unknown can fill our memory."""

from __future__ import annotations

from typing import Any

from aiohttp import WebSocketError, WSCloseCode, web

from tidegate.gateway.plane.frames import MAX_BEFORE_AUTH

OVERHEAD = 1024
"""Bytes for frame headers and a few control frames on top of the one frame that may come."""


class Gate:
    """Stands between a socket and the WebSocket parser until `open` is called.

    The parser's own limit is fixed when the socket opens and is the large one for authenticated clients; it collects
    a whole message before anybody sees it. So the bytes are counted here.
    """

    def __init__(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        protocol: Any = request.protocol
        self._protocol = protocol
        self._parser = protocol._payload_parser
        self._reader: Any = socket._reader
        self._left = MAX_BEFORE_AUTH + OVERHEAD
        protocol._payload_parser = self

    def open(self) -> None:
        """Let everything through from now on."""
        if self._protocol._payload_parser is self:
            self._protocol._payload_parser = self._parser

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take bytes from the socket, as the parser would."""
        if self._left < 0:
            return False, b""
        self._left -= len(data)
        if self._left < 0:
            self._reader.set_exception(WebSocketError(WSCloseCode.MESSAGE_TOO_BIG, ""))
            return False, b""
        fed: tuple[bool, bytes] = self._parser.feed_data(data)
        return fed

    def feed_eof(self) -> None:
        """Take the end of the socket, as the parser would."""
        self._parser.feed_eof()
