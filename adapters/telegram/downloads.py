"""Content of files that people sent. See https://core.telegram.org/bots/api#getfile."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
from telegram import Bot
from telegram.error import BadRequest, InvalidToken, TelegramError

from tidegate.adapters.telegram.attachments import too_large
from tidegate.adapters.telegram.failures import adapter_error
from tidegate.adapters.telegram.request import CONNECT_SECONDS, SessionRequest
from tidegate.adapters.telegram.settings import Settings
from tidegate.errors import AdapterUnavailable, DeliveryRefused
from tidegate.events import Attachment

ATTEMPTS = 3
RETRY_SECONDS = 0.3
ASK_SECONDS = 15.0
FETCH_SECONDS = 300.0
CHUNK = 1 << 16


class Downloads:
    """Fetches files for one bot."""

    def __init__(
        self, http: aiohttp.ClientSession, request: SessionRequest, bot: Bot, settings: Settings, max_download: int
    ) -> None:
        self._http = http
        self._request = request
        self._base_url = bot.base_url
        self._base_file_url = bot.base_file_url
        self._account = settings.account
        self._proxy = settings.proxy
        self._roots = settings.file_roots
        self._max_download = max_download

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Return the content of a file; passing trouble is tried again.

        Raises:
            DeliveryRefused: Larger than either side's limit, or gone.
            AdapterUnavailable: Telegram could not be reached.
        """
        if not attachment.remote:
            raise DeliveryRefused(attachment.problem or "there is no file to fetch")
        _check_size(attachment.size, limit, self._max_download)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._fetch_once(attachment.remote, limit)
            except AdapterUnavailable as error:
                if attempt == ATTEMPTS or (error.retry_after or 0.0) > ASK_SECONDS:
                    raise
                await asyncio.sleep(error.retry_after or RETRY_SECONDS * attempt)
        raise AssertionError

    async def _fetch_once(self, file_id: str, limit: int) -> bytes:
        try:
            file = await self._request.call(f"{self._base_url}/getFile", {"file_id": file_id}, ASK_SECONDS)
        except BadRequest as error:
            if "too big" in error.message.lower():
                raise DeliveryRefused(
                    f"too large: Telegram hands bots no more than {self._max_download >> 20} MB"
                ) from error
            raise DeliveryRefused(f"Telegram no longer has the file ({error.message[:200]})") from error
        except InvalidToken as error:
            raise AdapterUnavailable("Telegram does not accept the bot") from error
        except TelegramError as error:
            raise AdapterUnavailable(str(adapter_error(error, self._account))) from error
        return await self._content(file, limit)

    async def _content(self, file: Mapping[str, Any], limit: int) -> bytes:
        size = file.get("file_size")
        _check_size(int(size) if size is not None else None, limit, self._max_download)
        path = str(file.get("file_path") or "")
        if not path:
            raise DeliveryRefused("Telegram does not hand out this file")
        if path.startswith("/"):
            return await asyncio.to_thread(self._read_local, Path(path), limit)
        return await self._download(f"{self._base_file_url}/{quote(path)}", limit)

    async def _download(self, url: str, limit: int) -> bytes:
        timeout = aiohttp.ClientTimeout(total=FETCH_SECONDS, sock_connect=CONNECT_SECONDS, sock_read=ASK_SECONDS)
        try:
            async with self._http.get(url, timeout=timeout, proxy=self._proxy, allow_redirects=False) as response:
                if response.status in (404, 410):
                    raise DeliveryRefused("Telegram no longer has the file")
                if response.status != 200:
                    raise AdapterUnavailable(f"the file could not be fetched (HTTP {response.status})")
                _check_size(response.content_length, limit, self._max_download)
                return await _read(response, limit)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            # The text of these errors may hold the address, and with it the token.
            raise AdapterUnavailable(f"the file could not be fetched ({type(error).__name__})") from None

    def _read_local(self, path: Path, limit: int) -> bytes:
        """Read a file of a Bot API server of our own, which names paths instead of handing out content."""
        real = path.resolve()
        if not any(real.is_relative_to(root.resolve()) for root in self._roots):
            raise DeliveryRefused(
                "the Bot API server named a file outside channels.telegram.trustedLocalFileRoots; add its folder there"
            )
        try:
            with real.open("rb") as opened:
                content = opened.read(limit + 1)
        except OSError as error:
            raise DeliveryRefused(f"the file cannot be read: {error.strerror}") from error
        _check_size(len(content), limit, self._max_download)
        return content


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    content = bytearray()
    async for part in response.content.iter_chunked(CHUNK):
        content += part
        if len(content) > limit:
            raise DeliveryRefused(f"too large: more than {limit / (1 << 20):.0f} MB")
    return bytes(content)


def _check_size(size: int | None, limit: int, platform: int) -> None:
    if size is None:
        return
    if size > platform:
        raise DeliveryRefused(too_large(size, platform))
    if size > limit:
        raise DeliveryRefused(f"too large: {size / (1 << 20):.1f} MB, the limit is {limit / (1 << 20):.0f} MB")
