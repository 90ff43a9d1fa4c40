"""A model that says what a test tells it to say, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from tidegate.agent_runtime.messages import Message, Role, ToolCall, Usage
from tidegate.agent_runtime.models.base import ModelReply, ModelRequest, OnText

Step = ModelReply | Exception | Callable[[ModelRequest], ModelReply]


def say(text: str, *, stop: str = "end", usage: Usage | None = None) -> ModelReply:
    """Return a reply that ends a turn."""
    return ModelReply(Message(Role.ASSISTANT, text), usage or Usage(10, 5), stop, "scripted/model")


def ask_for(*calls: ToolCall, text: str = "") -> ModelReply:
    """Return a reply that asks for tools."""
    message = Message(Role.ASSISTANT, text, tool_calls=calls)
    return ModelReply(message, Usage(10, 5), "tool_calls", "scripted/model")


class ScriptedModel:
    """Plays its steps one a call; the last one repeats when `repeat_last` is set.

    Attributes:
        requests: Every request so far, for a test to look at.
    """

    def __init__(self, steps: Iterable[Step], *, repeat_last: bool = False) -> None:
        self._steps = list(steps)
        self._repeat_last = repeat_last
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, on_text: OnText) -> ModelReply:
        """Play the next step.

        Raises:
            AssertionError: The script is at its end.
        """
        self.requests.append(request)
        await asyncio.sleep(0)
        if not self._steps:
            raise AssertionError("the script of this model is at its end")
        keep = self._repeat_last and len(self._steps) == 1
        step = self._steps[0] if keep else self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        reply = step if isinstance(step, ModelReply) else step(request)
        if reply.message.text:
            on_text(reply.message.text)
        return reply
