"""Files that we send, each by the method that shows it best and within Telegram's limits.

Limits: https://core.telegram.org/bots/api#sending-files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from telegram import Bot, InputFile, Message
from telegram.error import BadRequest, Forbidden

from tidegate.adapters.base import Outbound, TextPart
from tidegate.adapters.markdown.split import utf16
from tidegate.errors import DeliveryRefused

MAX_PHOTO = 10 << 20
MAX_CAPTION = 1024
"""UTF-16 units of a caption, counted without markup."""
BASE_SECONDS = 30.0
SLOWEST = 100_000
"""Bytes a second below which an upload is given up."""
MAX_SECONDS = 590.0

log = structlog.get_logger("telegram")


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that may be sent."""

    path: Path
    name: str
    kind: str
    size: int
    caption: TextPart | None

    async def send(self, bot: Bot, shown: dict[str, Any]) -> str:
        """Send it and return the message id; as a plain document when Telegram does not take it as what it is.

        Raises:
            TelegramError: As the library raises it.
        """
        kind, is_markup = self.kind, True
        while True:
            try:
                return await self._send_as(kind, bot, shown, is_markup=is_markup)
            except (BadRequest, Forbidden) as error:
                words = error.message.lower()
                if is_markup and "can't parse entities" in words:
                    is_markup = False
                elif kind != "document" and _is_about_the_kind(words):
                    log.info("file.sent_as_document", kind=kind, reason=error.message[:200])
                    kind = "document"
                else:
                    raise

    async def _send_as(self, kind: str, bot: Bot, shown: dict[str, Any], *, is_markup: bool) -> str:
        caption = self.caption
        asked = dict(shown)
        if caption is not None:
            asked["caption"] = caption.body if is_markup else caption.plain
            asked["parse_mode"] = "HTML" if is_markup and caption.body != caption.plain else None
        try:
            file = await asyncio.to_thread(self.path.open, "rb")
        except OSError as error:
            raise DeliveryRefused(f"the file {self.name} cannot be read: {error.strerror}") from error
        try:
            content = InputFile(file, filename=self.name, read_file_handle=False)
            seconds = min(MAX_SECONDS, BASE_SECONDS + self.size / SLOWEST)
            sent = await _methods(bot)[kind](**asked, **{kind: content}, read_timeout=seconds)
        finally:
            file.close()
        return str(sent.message_id)


async def prepare(part: Outbound, path: Path, max_upload: int) -> Upload:
    """Return the upload of a part.

    Raises:
        DeliveryRefused: The file is gone or too large, or its caption is too long; nothing was sent.
    """
    name = part.file_name or path.name
    try:
        size = (await asyncio.to_thread(path.stat)).st_size
    except OSError as error:
        raise DeliveryRefused(f"the file {name} cannot be read: {error.strerror}") from error
    if size > max_upload:
        raise DeliveryRefused(
            f"the file {name} is too large: {size / (1 << 20):.1f} MB, Telegram takes {max_upload >> 20} MB from a bot"
        )
    if not size:
        raise DeliveryRefused(f"the file {name} is empty; Telegram takes no empty files")
    if part.text is not None and utf16(part.text.plain) > MAX_CAPTION:
        raise DeliveryRefused(f"the caption of {name} is longer than {MAX_CAPTION} characters; send it as text")
    return Upload(path, name, _kind(part.file_kind, name, size), size, part.text)


def _kind(kind: str, name: str, size: int) -> str:
    if kind == "image":
        if name.lower().endswith(".gif"):
            return "animation"
        return "photo" if size <= MAX_PHOTO else "document"
    return kind if kind in ("audio", "voice", "video") else "document"


def _methods(bot: Bot) -> dict[str, Callable[..., Awaitable[Message]]]:
    return {
        "photo": bot.send_photo,
        "animation": bot.send_animation,
        "audio": bot.send_audio,
        "voice": bot.send_voice,
        "video": bot.send_video,
        "document": bot.send_document,
    }


def _is_about_the_kind(words: str) -> bool:
    """Tell whether Telegram refused the form of a file rather than the message."""
    signs = (
        "photo_",
        "image_process",
        "voice_messages_forbidden",
        "wrong file type",
        "wrong type",
        "too big for a photo",
    )
    return any(sign in words for sign in signs)
