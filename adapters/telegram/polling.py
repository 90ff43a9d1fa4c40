"""Receives updates by long polling. An update is confirmed only by asking for the ones after it."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from telegram import Bot
from telegram.error import Conflict, TelegramError

from tidegate.adapters.base import AdapterHooks, EventBatch
from tidegate.adapters.telegram.failures import adapter_error
from tidegate.adapters.telegram.parse import Reader
from tidegate.adapters.telegram.request import SessionRequest
from tidegate.clock import SECOND, Clock
from tidegate.errors import AdapterUnavailable
from tidegate.events import MessageEvent

POLL_SECONDS = 30
"""How long Telegram holds a poll that has nothing to tell."""
POLL_SLACK = 15.0
"""Seconds beyond that after which a poll counts as dead."""
HASTE_SECONDS = 1.0
"""A server that answers sooner without updates does not hold polls; it is not asked more often than this."""
LIMIT = 100
KEPT_SECONDS = 3 * 86400
"""Telegram keeps updates for one day, and may number anew after a quiet week; an older cursor says nothing."""

log = structlog.get_logger("telegram")


def wanted_updates(*, reactions: bool) -> list[str]:
    """Return the kinds of updates to ask for."""
    kinds = ["message", "edited_message", "channel_post", "edited_channel_post", "callback_query"]
    return [*kinds, "message_reaction"] if reactions else kinds


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where polling goes on: the next update's id, whose updates they are, and since when that is so."""

    offset: int
    bot: str
    since: int

    def __str__(self) -> str:
        return f"{self.offset}@{self.bot}/{self.since}"

    @classmethod
    def parse(cls, text: str | None, bot: str, now: int) -> Cursor | None:
        """Return a stored cursor, or None when it says nothing about the updates that wait for this bot now."""
        offset, _, rest = (text or "").partition("@")
        owner, _, since = rest.partition("/")
        if not (offset.isascii() and offset.isdigit()):
            return None
        found = cls(int(offset), owner or bot, int(since) if since.isascii() and since.isdigit() else now)
        return found if found.bot == bot and now - found.since < KEPT_SECONDS else None


def read_updates(reader: Reader, updates: list[Mapping[str, Any]], now: int) -> list[MessageEvent]:
    """Return the events of updates. One that cannot be read is logged and passed over, so that it blocks no other.

    This is the named boundary at which a malformed update stops.
    """
    events = []
    for update in updates:
        try:
            event = reader.read(update, now)
        except Exception as error:  # noqa: BLE001 - the boundary; a traceback would show what people wrote
            kinds = sorted(str(key) for key in update) if isinstance(update, Mapping) else [type(update).__name__]
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__} at {place.name}:{place.lineno}"
            log.warning("update.unreadable", account=reader.account, kinds=kinds[:4], error=where)
            continue
        if event is not None:
            events.append(event)
    return events


class Poller:
    """Polls for one bot."""

    def __init__(
        self, bot: Bot, request: SessionRequest, reader: Reader, hooks: AdapterHooks, clock: Clock, kinds: list[str]
    ) -> None:
        self._bot = bot
        self._request = request
        self._reader = reader
        self._hooks = hooks
        self._clock = clock
        self._url = f"{bot.base_url}/getUpdates"
        self._kinds = kinds

    async def batches(self, stored: str | None) -> AsyncGenerator[EventBatch, None]:
        """Yield batches. The first poll does not wait, so that a working connection shows at once."""
        cursor = Cursor.parse(stored, self._reader.me.id, self._now())
        wait = 0
        while True:
            began = self._clock.monotonic()
            updates = await self._poll(cursor.offset if cursor else None, wait)
            self._hooks.alive()
            if wait and not updates and self._clock.monotonic() - began < HASTE_SECONDS:
                await asyncio.sleep(HASTE_SECONDS)
            wait = POLL_SECONDS
            if cursor is not None:
                self._hooks.confirmed(str(cursor))
                # What was before it is now forgotten by Telegram, and numbers may start anew after a quiet week.
                cursor = None
            if not updates:
                continue
            last = max(_update_id(update) for update in updates)
            if last < 0:
                raise AdapterUnavailable("Telegram's updates have no ids")
            events = read_updates(self._reader, updates, self._clock.now())
            cursor = Cursor(last + 1, self._reader.me.id, self._now())
            yield EventBatch(events, str(cursor))

    def _now(self) -> int:
        return self._clock.now() // SECOND

    async def _poll(self, offset: int | None, wait: int) -> list[Mapping[str, Any]]:
        try:
            return await self._get_updates(offset, wait)
        except Conflict as error:
            if "webhook" not in error.message:
                raise adapter_error(error, self._reader.account) from error
            log.warning("webhook.removed", account=self._reader.account)
        except TelegramError as error:
            raise adapter_error(error, self._reader.account) from error
        try:
            await self._bot.delete_webhook(drop_pending_updates=False)
            return await self._get_updates(offset, wait)
        except TelegramError as error:
            raise adapter_error(error, self._reader.account) from error

    async def _get_updates(self, offset: int | None, wait: int) -> list[Mapping[str, Any]]:
        data: dict[str, Any] = {"timeout": wait, "limit": LIMIT, "allowed_updates": self._kinds}
        if offset is not None:
            data["offset"] = offset
        found = await self._request.call(self._url, data, wait + POLL_SLACK)
        return list(found) if isinstance(found, list) else []


def _update_id(update: Mapping[str, Any]) -> int:
    try:
        return int(update["update_id"])
    except (KeyError, TypeError, ValueError):
        return -1
