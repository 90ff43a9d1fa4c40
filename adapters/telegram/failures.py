"""What Telegram's refusals mean to the rest of Tidegate."""

from __future__ import annotations

import re

from telegram.error import BadRequest, ChatMigrated, Conflict, Forbidden, InvalidToken, TelegramError

from tidegate.adapters.telegram.request import AskedToWait, NotReached
from tidegate.errors import (
    AdapterConfigError,
    AdapterConflict,
    AdapterError,
    AdapterUnavailable,
    DeliveryDeferred,
    DeliveryError,
    DeliveryRefused,
    DeliveryUnavailable,
    DeliveryUnknown,
)

MAX_WORDS = 300


def _without_quotes(text: str) -> str:
    """Return Telegram's words without what they quote: that may be a piece of the message."""
    return re.sub(r'"[^"]*"?', '"…"', text)


def delivery_error(error: TelegramError) -> DeliveryError:
    """Return what a failed call means for the part that was to be delivered."""
    words = _without_quotes(error.message)[:MAX_WORDS]
    if isinstance(error, AskedToWait):
        return DeliveryDeferred(words, error.seconds)
    if isinstance(error, NotReached):
        return DeliveryUnavailable(words)
    if isinstance(error, InvalidToken | Conflict):
        return DeliveryUnavailable(f"Telegram does not accept the bot: {words}")
    if isinstance(error, BadRequest | Forbidden | ChatMigrated):
        return DeliveryRefused(words)
    return DeliveryUnknown(words)


def adapter_error(error: TelegramError, account: str) -> AdapterError:
    """Return what a failed call means for the connection."""
    words = error.message[:MAX_WORDS]
    if isinstance(error, InvalidToken):
        return AdapterConfigError(
            f"Telegram rejected the token of the bot '{account}' ({words}). It was revoked or mistyped, or apiRoot is "
            "wrong: take a new token from @BotFather, change the configuration and reload."
        )
    if isinstance(error, Conflict):
        return AdapterConflict(
            f"another program receives the updates of the bot '{account}' ({words}). Stop it, or give each its own bot."
        )
    if isinstance(error, AskedToWait):
        return AdapterUnavailable(words, error.seconds)
    return AdapterUnavailable(words)
