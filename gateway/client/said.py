"""Messages of a transcript as the gateway tells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def text_of(message: Any) -> str:
    """Return the text of a message, whatever else it holds."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "\n\n".join(part for part in parts if isinstance(part, str))


def last_answer(messages: Sequence[Any], asked: str) -> str:
    """Return what was said after somebody's last message with this text; empty when it is not there."""
    said: list[str] = []
    for message in reversed(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role == "assistant" and (text := text_of(message).strip()):
            said.append(text)
        elif role == "user":
            return "\n\n".join(reversed(said)) if asked.strip() in text_of(message) else ""
    return ""
