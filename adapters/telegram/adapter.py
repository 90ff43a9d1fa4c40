"""One Telegram bot as a channel account."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Self

import aiohttp
from telegram import Bot, BotCommand, ReactionTypeEmoji
from telegram.error import BadRequest, TelegramError

from tidegate.adapters.base import AdapterHooks, Capabilities, EventBatch, Outbound, TextPart
from tidegate.adapters.telegram.downloads import Downloads
from tidegate.adapters.telegram.failures import adapter_error, delivery_error
from tidegate.adapters.telegram.mentions import Me
from tidegate.adapters.telegram.parse import Reader
from tidegate.adapters.telegram.polling import Poller, wanted_updates
from tidegate.adapters.telegram.presses import PressAnswers
from tidegate.adapters.telegram.render import render_for
from tidegate.adapters.telegram.request import SessionRequest
from tidegate.adapters.telegram.sending import Sender
from tidegate.adapters.telegram.settings import CHANNEL, Settings
from tidegate.adapters.telegram.webhook import Webhook
from tidegate.clock import Clock
from tidegate.errors import AdapterConfigError, AdapterUnavailable, ConfigError, DeliveryUnavailable
from tidegate.events import Address, Attachment

TOKEN_SECONDS = 30.0
CALL_SECONDS = 10.0
EDIT_INTERVAL = 1.0
TYPING_INTERVAL = 4.0
"""Telegram shows it for five seconds."""
MAX_UPLOAD = 50 << 20
MAX_DOWNLOAD = 20 << 20
OWN_SERVER_LIMIT = 2000 << 20
MAX_COMMANDS = 100
MAX_DESCRIPTION = 256
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")


@dataclass(frozen=True, slots=True)
class _Connection:
    """What there is while a bot is connected."""

    bot: Bot
    updates: Poller | Webhook
    sender: Sender
    downloads: Downloads
    presses: PressAnswers


class TelegramAdapter:
    """The adapter of one bot. Entering it asks Telegram who the bot is, and nothing else."""

    channel = CHANNEL

    def __init__(self, settings: Settings, http: aiohttp.ClientSession, clock: Clock, hooks: AdapterHooks) -> None:
        self.account = settings.account
        self.username = ""
        self.capabilities = Capabilities(
            max_text=settings.text_limit,
            edit_interval=EDIT_INTERVAL,
            typing_interval=TYPING_INTERVAL,
            max_upload=OWN_SERVER_LIMIT if settings.own_server else MAX_UPLOAD,
            threads=True,
            reactions=True,
            polls=True,
            buttons=True,
            idempotent_send=False,
        )
        self._settings = settings
        self._http = http
        self._clock = clock
        self._hooks = hooks
        self._stack = AsyncExitStack()
        self._connection: _Connection | None = None

    async def __aenter__(self) -> Self:
        """Find the token and ask Telegram whose it is; with a webhook, listen and say where."""
        try:
            self._connection = await self._connect()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Forget the bot; the HTTP connections belong to the gateway."""
        self._connection = None
        await self._stack.aclose()

    async def events(self, cursor: str | None) -> AsyncGenerator[EventBatch, None]:
        """Yield what happens, by long polling or as Telegram pushes it."""
        connection = self._connected()
        async with aclosing(connection.updates.batches(cursor)) as batches:
            async for batch in batches:
                yield batch
                connection.presses.answer(batch.events)

    def render(self, markdown: str) -> Sequence[TextPart]:
        """Return Telegram messages for a Markdown text."""
        return render_for(self._settings, markdown)

    async def send(self, part: Outbound) -> str:
        """Send one part."""
        return await self._connected().sender.send(part)

    async def typing(self, address: Address) -> None:
        """Show that we write. Unlike for messages, the General topic is named here."""
        here = self._connected()
        chat, thread = here.sender.chat(address), int(address.thread) if address.thread else None
        await _done(here.bot.send_chat_action(chat, "typing", message_thread_id=thread, read_timeout=CALL_SECONDS))

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        """Set our reaction on a message, or remove it."""
        here = self._connected()
        reactions = [ReactionTypeEmoji(emoji)] if emoji else []
        await _done(
            here.bot.set_message_reaction(
                here.sender.chat(address), int(message_id), reactions, read_timeout=CALL_SECONDS
            )
        )

    async def delete(self, address: Address, message_id: str) -> None:
        """Delete one of our messages."""
        here = self._connected()
        await _done(
            here.bot.delete_message(here.sender.chat(address), int(message_id), read_timeout=CALL_SECONDS),
            unless="message to delete not found",
        )

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Return the content of a file that came with a message."""
        return await self._connected().downloads.fetch(attachment, limit)

    async def publish_commands(self, commands: Sequence[tuple[str, str]]) -> None:
        """Set the command menu, as far as Telegram takes it."""
        names = ((raw.lower().lstrip("/").replace("-", "_"), words.strip()) for raw, words in commands)
        menu = {
            name: BotCommand(name, (words or name)[:MAX_DESCRIPTION])
            for name, words in names
            if _COMMAND.fullmatch(name)
        }
        shown = list(menu.values())[:MAX_COMMANDS]
        await _done(self._connected().bot.set_my_commands(shown, read_timeout=CALL_SECONDS))

    async def _connect(self) -> _Connection:
        settings = self._settings
        if settings.proxy and not settings.proxy.startswith(("http://", "https://")):
            raise AdapterConfigError("channels.telegram.proxy must begin with http:// or https://")
        request = SessionRequest(self._http, settings.proxy)
        bot = Bot(
            await self._load_token(),
            base_url=f"{settings.api_root}/bot",
            base_file_url=f"{settings.api_root}/file/bot",
            request=request,
            get_updates_request=request,
        )
        try:
            user = await bot.get_me(read_timeout=CALL_SECONDS)
        except TelegramError as error:
            raise adapter_error(error, self.account) from error
        self.username = user.username or ""
        max_download = OWN_SERVER_LIMIT if settings.own_server else MAX_DOWNLOAD
        me = Me(str(user.id), self.username, bool(user.has_topics_enabled))
        reader = Reader(me, self.account, max_download)
        return _Connection(
            bot,
            await self._updates(bot, request, reader),
            Sender(bot, link_preview=settings.link_preview, max_upload=self.capabilities.max_upload),
            Downloads(self._http, request, bot, settings, max_download),
            await self._stack.enter_async_context(PressAnswers(bot)),
        )

    async def _updates(self, bot: Bot, request: SessionRequest, reader: Reader) -> Poller | Webhook:
        hook, kinds = self._settings.webhook, wanted_updates(reactions=self._settings.hears_reactions)
        if hook is None:
            return Poller(bot, request, reader, self._hooks, self._clock, kinds)
        return await self._stack.enter_async_context(Webhook(bot, reader, self._hooks, self._clock, hook, kinds))

    async def _load_token(self) -> str:
        try:
            async with asyncio.timeout(TOKEN_SECONDS):
                return await asyncio.to_thread(self._settings.token)
        except ConfigError as error:
            raise AdapterConfigError(str(error)) from error
        except TimeoutError as error:
            raise AdapterUnavailable("the bot token was not found in time") from error

    def _connected(self) -> _Connection:
        if self._connection is None:
            raise DeliveryUnavailable("the bot is not connected")
        return self._connection


async def _done(call: Awaitable[object], unless: str | None = None) -> None:
    """Await a call of the library. Raises DeliveryError, except for a refusal that says `unless`."""
    try:
        await call
    except BadRequest as error:
        if unless is None or unless not in error.message.lower():
            raise delivery_error(error) from error
    except TelegramError as error:
        raise delivery_error(error) from error
