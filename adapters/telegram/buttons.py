"""Buttons under a message, without any memory of our own.

Telegram gives back at most 64 bytes with a press (https://core.telegram.org/bots/api#inlinekeyboardbutton). A value
that fits is sent as it is. A longer one is replaced by its digest, and a press on it counts as its label, which
Telegram shows us again together with the press.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.adapters.base import Button

MAX_DATA = 64
"""Bytes that come back with a press."""
MAX_BUTTONS = 100
MAX_ROW = 8
_LONG = "\u2026:"
"""Begins the data of a button whose value is too long."""


def keyboard(rows: Sequence[Sequence[Button]]) -> list[list[dict[str, str]]]:
    """Return the rows of an inline keyboard."""
    shown: list[list[dict[str, str]]] = []
    left = MAX_BUTTONS
    for row in rows:
        for start in range(0, len(row), MAX_ROW):
            buttons = row[start : start + MAX_ROW][:left]
            left -= len(buttons)
            if buttons:
                shown.append([{"text": one.label or one.value, "callback_data": data_of(one)} for one in buttons])
    return shown


def data_of(button: Button) -> str:
    """Return what comes back when a button is pressed."""
    value = button.value or button.label
    if len(value.encode()) <= MAX_DATA and not value.startswith(_LONG):
        return value
    return _LONG + hashlib.sha256(value.encode()).hexdigest()[:32]


def pressed_value(data: str, markup: Mapping[str, Any] | None) -> str:
    """Return the value of a pressed button, given the keyboard that it belonged to."""
    if not data.startswith(_LONG):
        return data
    for row in (markup or {}).get("inline_keyboard", ()):
        for button in row:
            if button.get("callback_data") == data:
                return str(button.get("text", ""))
    return data
