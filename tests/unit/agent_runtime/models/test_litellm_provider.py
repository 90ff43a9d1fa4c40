"""The litellm wrapper against a stand-in for the library, which is too heavy for this suite."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import pytest

from tidegate.agent_runtime.messages import Message, Role
from tidegate.agent_runtime.models.base import ModelReply, ModelRequest
from tidegate.agent_runtime.models.litellm_provider import LiteLLM
from tidegate.errors import ContextTooLong, ModelUnavailable

REQUEST = ModelRequest("bedrock/claude", ("be brief", ""), (Message(Role.USER, "hi"),))


class Chunk:
    """What litellm streams: an object that can say itself as JSON."""

    def __init__(self, content: str | None, finish: str | None = None) -> None:
        choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
        self._data = {"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}

    def model_dump_json(self) -> str:
        return json.dumps(self._data)


class OpenAIError(Exception):
    """Stands for the base of litellm's errors."""

    def __init__(self, message: str, status_code: int | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code


def ask(monkeypatch: pytest.MonkeyPatch, *items: Chunk | OpenAIError) -> tuple[ModelReply, list[str], dict[str, Any]]:
    sent: dict[str, Any] = {}

    async def stream() -> AsyncIterator[Chunk]:
        for item in items:
            if isinstance(item, OpenAIError):
                raise item
            yield item

    async def acompletion(**body: Any) -> AsyncIterator[Chunk]:
        sent.update(body)
        return stream()

    litellm, openai = ModuleType("litellm"), ModuleType("openai")
    litellm.acompletion = acompletion  # type: ignore[attr-defined]
    openai.OpenAIError = OpenAIError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "litellm", litellm)
    monkeypatch.setitem(sys.modules, "openai", openai)
    pieces: list[str] = []
    reply = asyncio.run(LiteLLM("bedrock", "k").complete(REQUEST, pieces.append))
    return reply, pieces, sent


def test_text_streams_and_comes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    reply, pieces, sent = ask(monkeypatch, Chunk("Hel"), Chunk("lo"), Chunk(None, "stop"))
    assert (reply.message.text, pieces, reply.usage.input) == ("Hello", ["Hel", "lo"], 5)
    assert (sent["model"], sent["api_key"], sent["stream"]) == ("bedrock/claude", "k", True)


@pytest.mark.parametrize(
    ("error", "kind"),
    [(OpenAIError("slow", 429), "rate_limit"), (OpenAIError("refused"), "network"), (OpenAIError("x", 500), "server")],
)
def test_failures_become_typed_errors(monkeypatch: pytest.MonkeyPatch, error: OpenAIError, kind: str) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        ask(monkeypatch, Chunk("Hel"), error)
    assert caught.value.kind == kind


def test_a_prompt_that_is_too_long_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ContextTooLong):
        ask(monkeypatch, OpenAIError("prompt is too long", 400))
