"""The one interface to language models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tidegate.agent_runtime.messages import Message, Usage


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as the model sees it; `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model.

    Attributes:
        model: The provider's own model id, without the provider's name.
        system: The stable system prompt, then its volatile tail (see `context.py`).
        messages: A valid transcript.
        thinking: off, minimal, low, medium, high or xhigh.
    """

    model: str
    system: tuple[str, str]
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    max_output_tokens: int | None = None
    thinking: str = "off"


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A complete model message.

    Attributes:
        stop: end, tool_calls, length or refusal.
        model: `provider/model` that answered.
        fallback_from: The `provider/model` asked first, when it could not answer; else empty.
    """

    message: Message
    usage: Usage
    stop: str
    model: str = ""
    fallback_from: str = ""


OnText = Callable[[str], None]
"""Takes more visible text of the message under way; returns at once."""


class ModelProvider(Protocol):
    """A family of models behind one address and key."""

    async def complete(self, request: ModelRequest, on_text: OnText) -> ModelReply:
        """Stream one reply to `on_text` and return it whole.

        Raises:
            ModelUnavailable: Another model or a later try may work.
            ModelRefused: It will not.
            ContextTooLong: The transcript must shrink first.
        """
        ...
