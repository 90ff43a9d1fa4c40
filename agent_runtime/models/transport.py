"""One streamed HTTP call of a model server: deadlines, bounds, and errors as our own classes."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import aiohttp

from tidegate.agent_runtime.models.failures import failure_of_kind, failure_of_status, unreachable
from tidegate.clock import SECOND, Clock, SystemClock
from tidegate.errors import ModelUnavailable

IDLE_CLOUD = 120.0
"""Seconds without a byte after which a server on the internet is given up."""
IDLE_LOCAL = 300.0
"""The same for a server on this machine, which may be loading a model."""
TOTAL = 1800.0
CONNECT = 20.0
END_SECONDS = 0.1
"""Seconds to wait for a stream to end after its last event."""
MAX_LINE_BYTES = 4 * 1024 * 1024
MAX_ANSWER_BYTES = 32 * 1024 * 1024
FAIR_LINES = 32
MAX_ERROR_BYTES = 16_000

LoadBlob = Callable[[str], Awaitable[bytes]]
"""Loads the content of a blob; raises LookupError or OSError when it is gone."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a provider's models are reached, and with which key.

    Attributes:
        base_url: Without a slash at its end; the API's paths are appended.
        headers: Further headers of every request.
        idle: Seconds without a byte; 0 chooses by whether the server is local.
        total: Seconds for one whole answer.
    """

    provider: str
    base_url: str
    api_key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    idle: float = 0.0
    total: float = TOTAL

    @property
    def idle_seconds(self) -> float:
        """Return the idle deadline in use."""
        return self.idle or (IDLE_LOCAL if is_local(self.base_url) else IDLE_CLOUD)


def is_local(url: str) -> bool:
    """Tell whether `url` names this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


class ModelTransport:
    """Posts requests to one endpoint over a shared session."""

    def __init__(self, session: aiohttp.ClientSession, endpoint: Endpoint, clock: Clock | None = None) -> None:
        self.endpoint = endpoint
        self._session = session
        self._clock = clock or SystemClock()
        self._timeout = aiohttp.ClientTimeout(
            total=endpoint.total, sock_connect=CONNECT, sock_read=endpoint.idle_seconds
        )

    @asynccontextmanager
    async def post(self, path: str, headers: Mapping[str, str], body: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        """Post `body` and yield the good answer, not read yet.

        Redirects are not followed: the key is for this server only.

        Raises:
            ModelError: The server could not be reached, answered an error, or fell silent.
        """
        provider = self.endpoint.provider
        sent = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            **headers,
            **self.endpoint.headers,
        }
        url = self.endpoint.base_url + path
        try:
            async with self._session.post(
                url, data=body, headers=sent, timeout=self._timeout, allow_redirects=False
            ) as response:
                if response.status != 200:
                    problem = await response.content.read(MAX_ERROR_BYTES)
                    now = self._clock.now() / SECOND
                    raise failure_of_status(provider, response.status, response.headers, problem, now)
                yield response
                await _read_end(response)
        except TimeoutError as error:
            raise failure_of_kind(provider, "timeout", "no answer in time") from error
        except (aiohttp.ClientError, OSError) as error:
            raise unreachable(provider, error) from error


async def _read_end(response: aiohttp.ClientResponse) -> None:
    """Wait a moment for the end of a body whose last event was read: only then is the connection kept."""
    with suppress(TimeoutError, aiohttp.ClientError, OSError):  # the answer is whole already
        async with asyncio.timeout(END_SECONDS):
            while not response.content.at_eof():
                await response.content.readany()


async def read_events(response: aiohttp.ClientResponse, provider: str) -> AsyncIterator[bytes]:
    """Yield the data of each server-sent event, undecoded.

    Understands what the HTML standard asks for (section 9.2.6) as far as model servers use it: LF and CRLF,
    comments, data over several lines, an event at the end without an empty line. Field names other than
    `data` are passed over.

    Raises:
        ModelUnavailable: A line or the whole stream is longer than we take.
    """
    rest: list[bytes] = []
    data: list[bytes] = []
    total = line_bytes = 0
    async for chunk in response.content.iter_any():
        total += len(chunk)
        line_bytes += len(chunk)
        if total > MAX_ANSWER_BYTES or line_bytes > MAX_LINE_BYTES:
            raise ModelUnavailable(f"{provider}: the answer does not end", "server")
        rest.append(chunk)
        if b"\n" not in chunk:
            continue
        lines = (b"".join(rest) if len(rest) > 1 else chunk).split(b"\n")
        rest = [lines.pop()]
        line_bytes = len(rest[0])
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[5:])
            elif data and not line.strip():
                yield data[0] if len(data) == 1 else b"\n".join(data)
                data.clear()
        if len(lines) > FAIR_LINES:
            # A server that sends faster than we read must not keep everybody else waiting.
            await asyncio.sleep(0)
    last = b"".join(rest)
    if last.startswith(b"data:"):
        data.append(last[5:])
    if data:
        yield b"\n".join(data)


async def read_whole(response: aiohttp.ClientResponse, provider: str) -> bytes:
    """Return a body that is not a stream.

    Raises:
        ModelUnavailable: It is longer than we take.
    """
    parts: list[bytes] = []
    total = 0
    async for chunk in response.content.iter_any():
        total += len(chunk)
        if total > MAX_ANSWER_BYTES:
            raise ModelUnavailable(f"{provider}: the answer does not end", "server")
        parts.append(chunk)
    return b"".join(parts)
