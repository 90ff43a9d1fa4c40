"""One Telegram bot as a channel account."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from typing import Self

import aiohttp
import structlog
from telegram import Bot, BotCommand, ReactionTypeEmoji
from telegram.error import BadRequest, TelegramError

from tidegate.adapters.base import AdapterHooks, Capabilities, EventBatch, Outbound, TextPart
from tidegate.adapters.telegram.failures import adapter_error, delivery_error
from tidegate.adapters.telegram.mentions import Me
from tidegate.adapters.telegram.parse import Reader
from tidegate.adapters.telegram.polling import Poller, wanted_updates
from tidegate.adapters.telegram.render import render_for
from tidegate.adapters.telegram.request import SessionRequest
from tidegate.adapters.telegram.sending import Sender
from tidegate.adapters.telegram.settings import CHANNEL, Settings
from tidegate.clock import Clock
from tidegate.errors import AdapterConfigError, AdapterUnavailable, ConfigError, DeliveryUnavailable
from tidegate.events import Address

TOKEN_SECONDS = 30.0
CALL_SECONDS = 10.0
MAX_UPLOAD = 50 << 20
MAX_DOWNLOAD = 20 << 20
OWN_SERVER_LIMIT = 2000 << 20
MAX_COMMANDS = 100
MAX_DESCRIPTION = 256
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")

log = structlog.get_logger("telegram")


class TelegramAdapter:
    """The adapter of one bot. Entering it asks Telegram who the bot is; nothing else."""

    channel = CHANNEL

    def __init__(self, settings: Settings, http: aiohttp.ClientSession, clock: Clock, hooks: AdapterHooks) -> None:
        self.account = settings.account
        self.username = ""
        self.capabilities = Capabilities(
            max_text=settings.text_limit,
            edit_interval=1.0,
            typing_interval=4.0,
            max_upload=OWN_SERVER_LIMIT if settings.own_server else MAX_UPLOAD,
            threads=True,
            reactions=True,
            buttons=True,
            idempotent_send=False,
        )
        self._settings = settings
        self._http = http
        self._clock = clock
        self._hooks = hooks
        self._bot: Bot | None = None
        self._request: SessionRequest | None = None
        self._reader: Reader | None = None
        self._sender: Sender | None = None

    async def __aenter__(self) -> Self:
        """Find the token and ask Telegram whose it is."""
        settings = self._settings
        try:
            async with asyncio.timeout(TOKEN_SECONDS):
                token = await asyncio.to_thread(settings.token)
        except ConfigError as error:
            raise AdapterConfigError(str(error)) from error
        except TimeoutError as error:
            raise AdapterUnavailable("the bot token was not found in time") from error
        self._request = SessionRequest(self._http, settings.proxy)
        self._bot = Bot(
            token,
            base_url=f"{settings.api_root}/bot",
            base_file_url=f"{settings.api_root}/file/bot",
            request=self._request,
            get_updates_request=self._request,
        )
        try:
            user = await self._bot.get_me(read_timeout=CALL_SECONDS)
        except TelegramError as error:
            raise adapter_error(error, self.account) from error
        self.username = user.username or ""
        me = Me(str(user.id), self.username, bool(user.has_topics_enabled))
        self._reader = Reader(me, self.account, OWN_SERVER_LIMIT if settings.own_server else MAX_DOWNLOAD)
        self._sender = Sender(self._bot, link_preview=settings.link_preview)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Forget the bot; its connections belong to the gateway."""
        self._bot = self._request = self._reader = self._sender = None

    def events(self, cursor: str | None) -> AsyncIterator[EventBatch]:
        """Yield what happens, by long polling."""
        assert self._bot is not None
        assert self._request is not None
        assert self._reader is not None
        kinds = wanted_updates(reactions=self._settings.hears_reactions)
        return Poller(self._bot, self._request, self._reader, self._hooks, self._clock, kinds).batches(cursor)

    def render(self, markdown: str) -> Sequence[TextPart]:
        """Return Telegram messages for a Markdown text."""
        return render_for(self._settings, markdown)

    async def send(self, part: Outbound) -> str:
        """Send one part."""
        return await self._connected().send(part)

    async def typing(self, address: Address) -> None:
        """Show that we write; Telegram shows it for five seconds. The General topic may be named here."""
        sender = self._connected()
        assert self._bot is not None
        try:
            await self._bot.send_chat_action(
                sender.chat(address),
                "typing",
                message_thread_id=int(address.thread) if address.thread else None,
                read_timeout=CALL_SECONDS,
            )
        except TelegramError as error:
            raise delivery_error(error) from error

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        """Set our reaction on a message, or remove it."""
        sender = self._connected()
        assert self._bot is not None
        reactions = [ReactionTypeEmoji(emoji)] if emoji else []
        try:
            await self._bot.set_message_reaction(
                sender.chat(address), int(message_id), reactions, read_timeout=CALL_SECONDS
            )
        except TelegramError as error:
            raise delivery_error(error) from error

    async def delete(self, address: Address, message_id: str) -> None:
        """Delete one of our messages."""
        sender = self._connected()
        assert self._bot is not None
        try:
            await self._bot.delete_message(sender.chat(address), int(message_id), read_timeout=CALL_SECONDS)
        except BadRequest as error:
            if "message to delete not found" not in error.message.lower():
                raise delivery_error(error) from error
        except TelegramError as error:
            raise delivery_error(error) from error

    async def publish_commands(self, commands: Sequence[tuple[str, str]]) -> None:
        """Set the command menu, as far as Telegram takes it."""
        self._connected()
        assert self._bot is not None
        menu = [
            BotCommand(name, (words.strip() or name)[:MAX_DESCRIPTION])
            for name, words in ((raw.lower().lstrip("/").replace("-", "_"), words) for raw, words in commands)
            if _COMMAND.fullmatch(name)
        ]
        try:
            await self._bot.set_my_commands(menu[:MAX_COMMANDS], read_timeout=CALL_SECONDS)
        except TelegramError as error:
            raise delivery_error(error) from error

    def _connected(self) -> Sender:
        if self._sender is None:
            raise DeliveryUnavailable("the bot is not connected")
        return self._sender
