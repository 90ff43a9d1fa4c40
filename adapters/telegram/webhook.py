"""Receives updates that Telegram pushes. It hears 200 only once an update is stored (see #setwebhook)."""

from __future__ import annotations

import asyncio
import errno
import hmac
import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Self

import structlog
from aiohttp import web
from telegram import Bot
from telegram.error import TelegramError

from tidegate.adapters.base import AdapterHooks, EventBatch
from tidegate.adapters.telegram.failures import adapter_error
from tidegate.adapters.telegram.parse import Reader
from tidegate.adapters.telegram.polling import LIMIT, read_updates
from tidegate.adapters.telegram.settings import WebhookSettings
from tidegate.clock import Clock
from tidegate.errors import AdapterConfigError, AdapterConflict, AdapterUnavailable, ConfigError

MAX_BODY = 1 << 20
MAX_WAITING = 256
"""Most updates that wait to be stored; more are answered 503 and come again."""
STORED_SECONDS = 30.0
"""Longest wait for an update to be stored."""
CHECK_SECONDS = 45.0
"""Without updates, Telegram is asked so often whether the webhook still stands; the answer is the proof of life."""
CALL_SECONDS = 15.0
SECRET_SECONDS = 30.0
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")
_HEADER = "X-Telegram-Bot-Api-Secret-Token"

log = structlog.get_logger("telegram")

_Waiting = tuple[Mapping[str, Any], asyncio.Future[bool]]


class Webhook:
    """Listens for one bot.

    Attributes:
        port: Where it listens, once it does.
    """

    def __init__(
        self,
        bot: Bot,
        reader: Reader,
        hooks: AdapterHooks,
        clock: Clock,
        settings: WebhookSettings,
        kinds: list[str],
    ) -> None:
        self._bot = bot
        self._reader = reader
        self._hooks = hooks
        self._clock = clock
        self._settings = settings
        self._kinds = kinds
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue(MAX_WAITING)
        self._secret = b""
        self.port = settings.port

    async def __aenter__(self) -> Self:
        """Listen, then tell Telegram where. Raises AdapterError."""
        self._secret = (await self._load_secret()).encode()
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_post(self._settings.path, self._receive)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            await self._listen()
            await self._announce()
        except BaseException:
            await self._runner.cleanup()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Listen no more. Telegram keeps what comes until the next start, so the webhook stays set."""
        while not self._queue.empty():
            _answer([self._queue.get_nowait()], is_stored=False)
        await self._runner.cleanup()

    async def batches(self, cursor: str | None) -> AsyncGenerator[EventBatch, None]:
        """Yield batches; each is acknowledged when the next one is asked for. There is no cursor."""
        del cursor
        self._hooks.alive()
        while True:
            waiting = await self._next()
            if not waiting:
                await self._check()
                continue
            self._hooks.alive()
            events = read_updates(self._reader, [update for update, _ in waiting], self._clock.now())
            try:
                yield EventBatch(events)
            except BaseException:
                _answer(waiting, is_stored=False)
                raise
            _answer(waiting, is_stored=True)

    async def _next(self) -> list[_Waiting]:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                waiting = [await self._queue.get()]
        except TimeoutError:
            return []
        while len(waiting) < LIMIT and not self._queue.empty():
            waiting.append(self._queue.get_nowait())
        return [one for one in waiting if not one[1].done()]

    async def _listen(self) -> None:
        site = web.TCPSite(self._runner, self._settings.host, self._settings.port)
        try:
            await site.start()
        except OSError as error:
            raise self._cannot_listen(error) from error
        self.port = int(self._runner.addresses[0][1])

    async def _load_secret(self) -> str:
        try:
            async with asyncio.timeout(SECRET_SECONDS):
                secret = await asyncio.to_thread(self._settings.secret)
        except ConfigError as error:
            raise AdapterConfigError(str(error)) from error
        except TimeoutError as error:
            raise AdapterUnavailable("the webhook secret was not found in time") from error
        if not _SECRET.fullmatch(secret):
            raise AdapterConfigError(
                "channels.telegram.webhookSecret must be 1-256 letters, digits, _ and -; generate a new one"
            )
        return secret

    def _cannot_listen(self, error: OSError) -> Exception:
        where = f"{self._settings.host}:{self._settings.port}"
        if error.errno == errno.EADDRINUSE:
            return AdapterUnavailable(f"{where} is in use; give each bot a webhookPort of its own")
        return AdapterConfigError(
            f"cannot listen on {where} for updates ({error.strerror}); change webhookHost or webhookPort"
        )

    async def _announce(self) -> None:
        """Tell Telegram where we listen. One connection keeps the updates in their order."""
        certificate = self._settings.certificate
        try:
            await self._bot.set_webhook(
                self._settings.url,
                certificate=await asyncio.to_thread(certificate.read_bytes) if certificate else None,
                secret_token=self._secret.decode(),
                allowed_updates=self._kinds,
                max_connections=1,
                read_timeout=CALL_SECONDS,
            )
        except TelegramError as error:
            raise adapter_error(error, self._reader.account) from error
        except OSError as error:
            raise AdapterConfigError(f"webhookCertPath cannot be read: {error.strerror}") from error

    async def _check(self) -> None:
        try:
            info = await self._bot.get_webhook_info(read_timeout=CALL_SECONDS)
        except TelegramError as error:
            raise adapter_error(error, self._reader.account) from error
        if info.url != self._settings.url:
            raise AdapterConflict("another program changed where this bot's updates go; give each its own bot")
        if info.last_error_message and info.pending_update_count:
            log.warning("webhook.failing", account=self._reader.account, reason=info.last_error_message[:200])
        self._hooks.alive()

    async def _receive(self, request: web.Request) -> web.Response:
        given = request.headers.get(_HEADER, "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._secret):
            return web.Response(status=403)
        try:
            update = json.loads(await request.read())
        except ValueError:
            return web.Response(status=400)
        if not isinstance(update, dict):
            return web.Response(status=400)
        stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait((update, stored))
            async with asyncio.timeout(STORED_SECONDS):
                is_stored = await stored
        except (asyncio.QueueFull, TimeoutError):
            is_stored = False
        return web.Response(status=200 if is_stored else 503)


def _answer(waiting: Sequence[_Waiting], *, is_stored: bool) -> None:
    for _, stored in waiting:
        if not stored.done():
            stored.set_result(is_stored)
