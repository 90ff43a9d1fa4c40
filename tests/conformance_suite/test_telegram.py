"""Telegram keeps the contract of adapters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from conformance_suite.adapter_suite import AdapterSuite
from fakes.fake_telegram import FakeTelegram, Fault
from fakes.telegram_html import read_html, utf16
from tidegate.adapters.base import Adapter, AdapterHooks, TextPart
from tidegate.adapters.telegram.adapter import TelegramAdapter
from tidegate.adapters.telegram.settings import Settings
from tidegate.clock import SystemClock
from tidegate.errors import DeliveryDeferred, DeliveryError, DeliveryRefused, DeliveryUnavailable, DeliveryUnknown
from tidegate.events import Address


class TelegramWorld:
    """A Bot API server and somebody who writes to the bot."""

    def __init__(self, http: aiohttp.ClientSession, platform: FakeTelegram) -> None:
        self._http = http
        self._platform = platform
        self.address = Address("telegram", "default", "7")
        self._root = platform.base

    def adapter(self, hooks: AdapterHooks, account: str = "default") -> Adapter:
        settings = Settings(account, lambda: self._platform.token, self._platform.base)
        return TelegramAdapter(settings, self._http, SystemClock(), hooks)

    def say(self, text: str) -> None:
        self._platform.user_says(7, text)

    def shown(self) -> list[str]:
        return self._platform.texts(7)

    async def gone(self) -> None:
        await self._platform.stop()

    def fail_next(self, error: type[DeliveryError]) -> bool:
        send = "sendMessage"
        if error is DeliveryDeferred:
            self._platform.fail(send, 429, retry_after=3)
        elif error is DeliveryRefused:
            self._platform.fail(send, 403)
        elif error is DeliveryUnknown:
            self._platform.spoil(send, Fault(cut="after"))
        elif error is DeliveryUnavailable:
            self._platform.fail(send, 401)
        return True

    def length(self, text: TextPart) -> int:
        return utf16(read_html(text.body)[0])


class TestTelegram(AdapterSuite):
    accounts = ("default", "second")

    @asynccontextmanager
    async def world(self) -> AsyncIterator[TelegramWorld]:
        platform = FakeTelegram()
        await platform.start()
        try:
            async with aiohttp.ClientSession() as http:
                yield TelegramWorld(http, platform)
        finally:
            await platform.stop()
