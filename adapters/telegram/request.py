"""python-telegram-bot's requests on the gateway's own HTTP session, telling apart what reached Telegram."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import BytesPayload, Payload, get_payload
from telegram._utils.defaultvalue import DefaultValue
from telegram.error import BadRequest, NetworkError
from telegram.request import BaseRequest, RequestData

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 30.0
"""Deadline of a call that names none of its own."""
MAX_ANSWER = 16 << 20
"""Bytes of one answer; a hundred updates are far below."""
DEFAULT_WAIT = 5.0
"""Seconds to wait after a 429 that does not say how long."""
MAX_WAIT = 7 * 86400.0
_KNOWN = frozenset({400, 401, 403, 404, 409})


class NotReached(NetworkError):
    """Nothing of the request was written, so Telegram did nothing."""


class NoAnswer(NetworkError):
    """The request was written, at least in part, and no whole answer came."""


class AskedToWait(NetworkError):
    """Telegram did nothing and asked to wait (429).

    Attributes:
        seconds: As Telegram stated it.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Telegram asked to wait {seconds:g} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class _Parameters:
    """As much of the library's `RequestData` as a request without files needs."""

    parameters: Mapping[str, Any]
    contains_files: bool = False


class _Body(BytesPayload):
    """A request body that knows whether any of it was written."""

    written = False

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        try:
            await super().write_with_length(writer, content_length)
        except aiohttp.ClientConnectionResetError:
            raise
        except BaseException:
            self.written = True
            raise
        self.written = True


class _Upload(aiohttp.MultipartWriter):
    """A form with files that knows whether all of it was written; half a form is no request."""

    written = False

    def __init__(self, data: RequestData) -> None:
        super().__init__("form-data")
        for name, value in data.json_parameters.items():
            self._add(get_payload(value, content_type="text/plain"), {"name": name})
        for name, (filename, content, mime) in data.multipart_data.items():
            self._add(get_payload(content, content_type=mime), {"name": name, "filename": filename})

    def _add(self, field: Payload, names: dict[str, Any]) -> None:
        field.set_content_disposition("form-data", **names)
        field.headers.popall("Content-Length", None)
        self.append_payload(field)

    async def write(self, writer: AbstractStreamWriter, close_boundary: bool = True) -> None:
        await super().write(writer, close_boundary)
        self.written = True


class SessionRequest(BaseRequest):
    """Requests of one bot over a shared session, which stays open when the bot is shut down.

    Raises `NotReached` and `NoAnswer` besides the library's own errors; no error text holds the token.
    """

    __slots__ = ("_http", "_proxy", "_timeouts")

    def __init__(self, http: aiohttp.ClientSession, proxy: str | None = None) -> None:
        self._http = http
        self._proxy = proxy
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}

    @property
    def read_timeout(self) -> float:
        """Seconds that a call may take unless it says otherwise."""
        return ANSWER_SECONDS

    async def initialize(self) -> None:
        """Nothing to open: the session belongs to the gateway."""

    async def shutdown(self) -> None:
        """Nothing to close: the session belongs to the gateway."""

    async def call(self, url: str, parameters: Mapping[str, Any], seconds: float) -> Any:
        """Make one call and return its result as it came, without building the library's objects."""
        return await self.post(url, cast("RequestData", _Parameters(parameters)), read_timeout=seconds)

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: Any = BaseRequest.DEFAULT_NONE,
        write_timeout: Any = BaseRequest.DEFAULT_NONE,
        connect_timeout: Any = BaseRequest.DEFAULT_NONE,
        pool_timeout: Any = BaseRequest.DEFAULT_NONE,
    ) -> tuple[int, bytes]:
        """Send one request; see `BaseRequest.do_request`. The read timeout covers the whole call."""
        del write_timeout, connect_timeout, pool_timeout
        seconds = ANSWER_SECONDS if isinstance(read_timeout, DefaultValue) or not read_timeout else float(read_timeout)
        body: _Body | _Upload
        if request_data is not None and request_data.contains_files:
            body = _Upload(request_data)
        else:
            parameters = request_data.parameters if request_data is not None else {}
            body = _Body(json.dumps(parameters).encode(), content_type="application/json")
        try:
            async with self._http.request(
                method,
                url,
                data=body,
                timeout=self._timeout(seconds),
                proxy=self._proxy,
                allow_redirects=False,
            ) as response:
                status = response.status
                payload = await _read_bounded(response)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
            raise NotReached(f"Telegram cannot be reached ({_words(error)})") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if not body.written:
                raise NotReached(f"Telegram cannot be reached ({_words(error)})") from None
            raise NoAnswer(f"no answer from Telegram ({_words(error)})") from None
        _refuse_odd(status, payload)
        return status, payload

    @staticmethod
    def parse_json_payload(payload: bytes) -> Any:
        """Return the parsed answer; unlike the library's own, never writes a broken one to the log."""
        try:
            parsed = json.loads(payload)
        except ValueError:
            raise NoAnswer("Telegram's answer was no JSON") from None
        if not isinstance(parsed, dict) or (parsed.get("ok") and "result" not in parsed):
            raise NoAnswer("Telegram's answer was no Bot API answer")
        return parsed

    def _timeout(self, seconds: float) -> aiohttp.ClientTimeout:
        found = self._timeouts.get(seconds)
        if found is None:
            found = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
            if len(self._timeouts) < 16:
                self._timeouts[seconds] = found
        return found


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    length = response.content_length
    if length is not None and length <= MAX_ANSWER:
        return await response.read()
    parts, size = [], 0
    async for part in response.content.iter_chunked(1 << 16):
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER:
            raise NoAnswer("Telegram's answer was too large")
    return b"".join(parts)


def _refuse_odd(status: int, payload: bytes) -> None:
    """Turn answers that the library would take for network trouble into what they are."""
    if status == 429:
        raise AskedToWait(_wait_stated(payload))
    if 400 <= status < 500 and status not in _KNOWN:
        raise BadRequest(f"HTTP {status}")
    if status >= 500 or 300 <= status < 400:
        raise NoAnswer(f"HTTP {status}")


def _wait_stated(payload: bytes) -> float:
    try:
        stated = float(json.loads(payload)["parameters"]["retry_after"])
    except (ValueError, KeyError, TypeError):
        return DEFAULT_WAIT
    return stated if 0 < stated < MAX_WAIT else DEFAULT_WAIT


def _words(error: BaseException) -> str:
    """Name an error without its text where that may hold the address, and with it the token."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{error.host}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, TimeoutError):
        return "timeout"
    return type(error).__name__
