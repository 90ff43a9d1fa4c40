"""One part of a delivery turned into one call of the Bot API, and its outcome into what the outbox acts on."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import structlog
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, LinkPreviewOptions, ReplyParameters
from telegram.error import BadRequest, ChatMigrated, TelegramError
from telegram.warnings import PTBUserWarning

from tidegate.adapters.base import Button, Outbound, Poll, TextPart
from tidegate.adapters.telegram.buttons import keyboard
from tidegate.adapters.telegram.failures import delivery_error
from tidegate.adapters.telegram.parse import GENERAL_TOPIC
from tidegate.adapters.telegram.uploads import prepare
from tidegate.errors import DeliveryRefused
from tidegate.events import Address

SEND_SECONDS = 30.0
MAX_QUESTION = 300
MIN_OPTIONS, MAX_OPTIONS = 2, 12
MAX_OPTION = 100
SHORTEST_POLL, LONGEST_POLL = 5, 600
MAX_MIGRATED = 1_000
"""Most groups remembered that became supergroups since the connection was made."""
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)

log = structlog.get_logger("telegram")

# The library advises its own method for polls; why it is not used stands there.
warnings.filterwarnings("ignore", "Please use 'Bot.send_poll'", PTBUserWarning)


class Sender:
    """Sends as one bot."""

    def __init__(self, bot: Bot, *, link_preview: bool, max_upload: int) -> None:
        self._max_upload = max_upload
        self._bot = bot
        self._preview = None if link_preview else _NO_PREVIEW
        self._migrated: dict[str, str] = {}

    async def send(self, part: Outbound) -> str:
        """Send a part and return the message id. Raises DeliveryError."""
        try:
            return await self._send_somewhere(part)
        except ValueError as error:
            raise DeliveryRefused(f"not an id that Telegram knows: {error}") from error

    async def _send_somewhere(self, part: Outbound) -> str:
        """Send a part to its place, or to where that place has moved."""
        try:
            return await self._send(part, part.address)
        except ChatMigrated as error:
            moved = self._moved(part.address, error)
        except TelegramError as error:
            if not _is_lost_private_topic(error, part.address):
                raise delivery_error(error) from error
            log.warning("topic.gone", lane=str(part.address))
            moved = Address(part.address.channel, part.address.account, part.address.chat)
        try:
            return await self._send(part, moved)
        except TelegramError as error:
            raise delivery_error(error) from error

    def chat(self, address: Address) -> int | str:
        """Return the chat to name to Telegram, which may have moved."""
        chat = self._migrated.get(address.chat, address.chat)
        try:
            return int(chat)
        except ValueError:
            return chat

    async def _send(self, part: Outbound, address: Address) -> str:
        if part.poll is not None:
            return await self._send_poll(part, address, part.poll)
        if part.file is not None and part.edit_of is None:
            return await self._send_file(part, address, part.file)
        if part.text is None:
            raise DeliveryRefused("nothing to send")
        try:
            return await self._send_text(part, address, part.text, is_markup=True)
        except BadRequest as error:
            if "can't parse entities" not in error.message.lower():
                raise
            log.warning("markup.refused", lane=str(address))
            return await self._send_text(part, address, part.text, is_markup=False)

    async def _send_text(self, part: Outbound, address: Address, text: TextPart, *, is_markup: bool) -> str:
        shown: dict[str, Any] = {
            "chat_id": self.chat(address),
            "text": text.body if is_markup else text.plain,
            "parse_mode": "HTML" if is_markup and text.body != text.plain else None,
            "link_preview_options": self._preview,
            "reply_markup": _markup(part.buttons),
            "read_timeout": SEND_SECONDS,
        }
        if part.edit_of is not None:
            return await self._edit(part.edit_of, shown)
        sent = await self._bot.send_message(
            **shown, message_thread_id=thread_of(address), reply_parameters=reply_of(part)
        )
        return str(sent.message_id)

    async def _send_file(self, part: Outbound, address: Address, file: Path) -> str:
        upload = await prepare(part, file, self._max_upload)
        shown: dict[str, Any] = {
            "chat_id": self.chat(address),
            "message_thread_id": thread_of(address),
            "reply_parameters": reply_of(part),
            "reply_markup": _markup(part.buttons),
        }
        return await upload.send(self._bot, shown)

    async def _send_poll(self, part: Outbound, address: Address, poll: Poll) -> str:
        """Send a poll. The limits are Telegram's (https://core.telegram.org/bots/api#sendpoll)."""
        if not 0 < len(poll.question) <= MAX_QUESTION:
            raise DeliveryRefused(f"the question of a poll has at most {MAX_QUESTION} characters")
        if not MIN_OPTIONS <= len(poll.options) <= MAX_OPTIONS:
            raise DeliveryRefused(f"a poll has {MIN_OPTIONS} to {MAX_OPTIONS} options")
        if any(not 0 < len(option) <= MAX_OPTION for option in poll.options):
            raise DeliveryRefused(f"an option of a poll has 1 to {MAX_OPTION} characters")
        if poll.seconds and not SHORTEST_POLL <= poll.seconds <= LONGEST_POLL:
            raise DeliveryRefused(f"a poll stays open for {SHORTEST_POLL} to {LONGEST_POLL} seconds, or without an end")
        asked = {
            "chat_id": self.chat(address),
            "question": poll.question,
            "options": [{"text": option} for option in poll.options],
            "is_anonymous": poll.anonymous,
            "allows_multiple_answers": poll.multiple,
            "open_period": poll.seconds or None,
            "message_thread_id": thread_of(address),
            "reply_parameters": reply_of(part),
        }
        # Read as plain data: the library refuses polls of servers that are older than itself, after they were sent.
        given = {name: value for name, value in asked.items() if value is not None}
        sent = await self._bot.do_api_request("send_poll", api_kwargs=given, read_timeout=SEND_SECONDS)
        return str(sent["message_id"])

    async def _edit(self, message_id: str, shown: dict[str, Any]) -> str:
        try:
            await self._bot.edit_message_text(**shown, message_id=int(message_id))
        except BadRequest as error:
            if "message is not modified" not in error.message.lower():
                raise
        return message_id

    def _moved(self, address: Address, error: ChatMigrated) -> Address:
        if len(self._migrated) < MAX_MIGRATED:
            self._migrated[address.chat] = str(error.new_chat_id)
        log.warning("chat.migrated", chat=address.chat, new_chat=str(error.new_chat_id))
        return Address(address.channel, address.account, str(error.new_chat_id), address.thread)


def thread_of(address: Address) -> int | None:
    """Return the topic to name when sending; the General topic must not be named."""
    if address.thread is None or address.thread == GENERAL_TOPIC:
        return None
    return int(address.thread)


def reply_of(part: Outbound) -> ReplyParameters | None:
    """Return the reference to the message that is answered; a deleted one does not stop the answer."""
    if part.reply_to is None or not part.reply_to.isdigit():
        return None
    return ReplyParameters(int(part.reply_to), allow_sending_without_reply=True)


def _markup(rows: tuple[tuple[Button, ...], ...]) -> InlineKeyboardMarkup | None:
    if not rows:
        return None
    return InlineKeyboardMarkup(
        [
            [InlineKeyboardButton(one["text"], callback_data=one["callback_data"]) for one in row]
            for row in keyboard(rows)
        ]
    )


def _is_lost_private_topic(error: TelegramError, address: Address) -> bool:
    """Tell whether a topic in a direct chat is gone; the chat itself is still with the same person."""
    is_private = not address.chat.startswith("-")
    return (
        is_private
        and address.thread is not None
        and isinstance(error, BadRequest)
        and "message thread not found" in error.message.lower()
    )
