"""Tells Telegram that a button press was taken, so that the button stops spinning."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Self

import structlog
from telegram import Bot
from telegram.error import TelegramError

from tidegate.events import EventKind, MessageEvent

ANSWER_SECONDS = 5.0
MAX_TASKS = 16
"""Most batches whose presses are being answered; beyond that the buttons stop spinning by themselves."""

log = structlog.get_logger("telegram")


class PressAnswers:
    """Answers presses beside the receiving of updates, which must not wait for it."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await self._group.__aexit__(None, None, None)

    def answer(self, events: Sequence[MessageEvent]) -> None:
        """Answer the presses among events that are stored; returns at once."""
        presses = [event.revision for event in events if event.kind is EventKind.BUTTON]
        if presses and len(self._tasks) < MAX_TASKS:
            task = self._group.create_task(self._answer(presses), name="telegram.presses")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, presses: Sequence[str]) -> None:
        for press in presses:
            try:
                await self._bot.answer_callback_query(press, read_timeout=ANSWER_SECONDS)
            except TelegramError as error:
                log.debug("press.not_answered", reason=error.message[:200])
