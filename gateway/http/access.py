"""Who may use the interfaces for programs: whoever shows the gateway's token or password is its operator."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from aiohttp import web

from tidegate.gateway.http.openai_wire import ApiError
from tidegate.gateway.plane.auth import Doorkeeper
from tidegate.gateway.plane.contract import RpcError
from tidegate.gateway.plane.peers import Peer

BODY_SECONDS = 60.0
"""How long a client may take to send its request."""
CHUNK = 1 << 16


class Access:
    """Checks requests with the same secrets and the same limits as the control plane.

    Args:
        peer: Tells where a request comes from.
    """

    def __init__(self, doorkeeper: Doorkeeper, peer: Callable[[web.Request], Peer]) -> None:
        self._doorkeeper = doorkeeper
        self._peer = peer

    async def check(self, request: web.Request) -> None:
        """Let the operator pass. Raises ApiError 401, or 429 after too many wrong secrets."""
        peer = self._peer(request)
        try:
            await self._doorkeeper.check_http(peer, request.headers.get("Authorization"), request.headers)
        except RpcError as error:
            if error.retry_after_ms is None:
                raise ApiError(401, "Unauthorized", "unauthorized") from error
            wait = {"Retry-After": str(math.ceil(error.retry_after_ms / 1000))}
            text = "Too many failed authentication attempts. Please try again later."
            raise ApiError(429, text, "rate_limited", wait) from error

    async def may_see(self, request: web.Request) -> bool:
        """Return whether a caller may see how the gateway stands: from this machine, or with the secret."""
        if self._peer(request).is_local:
            return True
        if not request.headers.get("Authorization"):
            return False
        try:
            await self.check(request)
        except ApiError:
            return False
        return True


async def read_limited(request: web.Request, limit: int) -> bytes:
    """Return the body of a request. Raises ApiError 413 when it is too long, 408 when it takes too long."""
    too_long = ApiError(413, f"The body is longer than {limit} bytes.")
    if (request.content_length or 0) > limit:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.content.iter_chunked(CHUNK):
                body += chunk
                if len(body) > limit:
                    raise too_long
    except TimeoutError as error:
        raise ApiError(408, "The body did not come in time.") from error
    return bytes(body)
