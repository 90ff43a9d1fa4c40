"""A Telegram bot that is connected to the stand-in of its platform."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from fakes.fake_telegram import FakeTelegram
from tidegate.adapters.base import AdapterHooks
from tidegate.adapters.telegram.adapter import TelegramAdapter
from tidegate.adapters.telegram.settings import Settings
from tidegate.clock import Clock, SystemClock


@dataclass
class Told:
    """What the adapter told the core."""

    alive: int = 0
    confirmed: list[str] = field(default_factory=list)

    def hooks(self) -> AdapterHooks:
        """Return what is handed to the adapter."""

        def alive() -> None:
            self.alive += 1

        return AdapterHooks(alive, self.confirmed.append)


def given_token(token: str) -> Callable[[], str]:
    """Return what looks up a token."""
    return lambda: token


@asynccontextmanager
async def connected(
    platform: FakeTelegram, told: Told | None = None, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[TelegramAdapter]:
    """Connect a bot to a platform that is running."""
    wanted: dict[str, Any] = {"account": "default", "token": given_token(platform.token), "api_root": platform.base}
    async with aiohttp.ClientSession() as http:
        adapter = TelegramAdapter(
            Settings(**{**wanted, **settings}), http, clock or SystemClock(), (told or Told()).hooks()
        )
        async with adapter:
            yield adapter
