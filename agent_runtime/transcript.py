"""How messages are written to the store and read back."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from tidegate.agent_runtime.messages import Image, Message, Role, ToolCall

DECODED_KEPT = 2048
"""Decoded messages kept at hand: every turn of a conversation reads the same ones again."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_ROLES = {"u": Role.USER, "a": Role.ASSISTANT, "t": Role.TOOL}
_LETTERS = {role: letter for letter, role in _ROLES.items()}


def encode_message(message: Message) -> str:
    """Return a message as compact JSON without the fields that are empty."""
    data: dict[str, Any] = {"r": _LETTERS[message.role], "t": message.text}
    if message.images:
        data["g"] = [[image.blob, image.mime] for image in message.images]
    if message.tool_calls:
        data["c"] = [[call.id, call.name, call.arguments] for call in message.tool_calls]
    if message.tool_call_id:
        data["i"] = message.tool_call_id
    if message.is_error:
        data["e"] = 1
    if message.opaque:
        data["o"] = message.opaque
    return _encode(data)


@lru_cache(maxsize=DECODED_KEPT)
def decode_message(body: str) -> Message:
    """Return the message that `encode_message` wrote. Messages are frozen, so the same one may be handed out again."""
    data = json.loads(body)
    return Message(
        role=_ROLES[data["r"]],
        text=data["t"],
        images=tuple(Image(blob, mime) for blob, mime in data.get("g", ())),
        tool_calls=tuple(ToolCall(*call) for call in data.get("c", ())),
        tool_call_id=data.get("i", ""),
        is_error=bool(data.get("e")),
        opaque=data.get("o", ""),
    )
