"""Models behind Anthropic's Messages API.

Source: https://docs.anthropic.com/en/api/messages-streaming and /en/docs/build-with-claude/prompt-caching
"""

from __future__ import annotations

import json
from typing import Any

import aiohttp

from tidegate.agent_runtime.messages import Message, Role, ToolCall, Usage
from tidegate.agent_runtime.models.anthropic_wire import PROVIDER_STATE, encode_request
from tidegate.agent_runtime.models.base import ModelReply, ModelRequest, OnText
from tidegate.agent_runtime.models.failures import failure_of_kind
from tidegate.agent_runtime.models.transport import (
    Endpoint,
    LoadBlob,
    ModelTransport,
    read_events,
    read_whole,
)
from tidegate.clock import Clock
from tidegate.errors import ModelError, ModelRefused, ModelUnavailable
from tidegate.events import clean_text

API_VERSION = "2023-06-01"
MAX_BLOCKS = 256
_STOPS = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
_ERROR_KINDS = {
    "overloaded_error": "overloaded",
    "rate_limit_error": "rate_limit",
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "billing",
    "not_found_error": "not_found",
    "invalid_request_error": "format",
    "request_too_large": "context_overflow",
    "timeout_error": "timeout",
}


class AnthropicMessages:
    """A provider that speaks the Messages API.

    Args:
        session: Shared with the rest of the gateway; not closed here.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: Endpoint,
        load_blob: LoadBlob | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._transport = ModelTransport(session, endpoint, clock)
        self._provider = endpoint.provider
        self._load_blob = load_blob
        self._headers = {"anthropic-version": API_VERSION}
        if endpoint.api_key:
            self._headers["x-api-key"] = endpoint.api_key

    async def complete(self, request: ModelRequest, on_text: OnText) -> ModelReply:
        """Stream one reply to `on_text` and return it whole.

        Raises:
            ModelError: See `ModelProvider.complete`.
        """
        body = await encode_request(request, self._load_blob)
        answer = _Answer(self._provider, request.model, on_text)
        async with self._transport.post("/messages", self._headers, body) as response:
            if response.content_type == "application/json":
                answer.take_whole(await read_whole(response, self._provider))
            else:
                async for data in read_events(response, self._provider):
                    if answer.take_event(data):
                        break
        return answer.reply()


class _Block:
    """A content block under way."""

    __slots__ = ("fields", "parts", "signature")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.parts: list[str] = []
        self.signature: list[str] = []

    @property
    def kind(self) -> str:
        return str(self.fields.get("type", ""))


class _Answer:
    """Puts the events of one answer together."""

    def __init__(self, provider: str, model: str, on_text: OnText) -> None:
        self._provider = provider
        self._model = model
        self._on_text = on_text
        self._blocks: dict[int, _Block] = {}
        self._usage = Usage()
        self._stop = ""
        self._is_whole = False

    def take_event(self, data: bytes) -> bool:
        """Take one event; True when it was the last one.

        Raises:
            ModelError: The event is an error, or not JSON.
        """
        event = self._parse(data)
        match event.get("type"):
            case "message_start":
                self._take_usage(_object(event.get("message")).get("usage"))
            case "content_block_start":
                self._start_block(event.get("index"), _object(event.get("content_block")))
            case "content_block_delta":
                self._take_delta(event.get("index"), _object(event.get("delta")))
            case "message_delta":
                self._stop = str(_object(event.get("delta")).get("stop_reason") or self._stop)
                self._take_usage(event.get("usage"))
            case "message_stop":
                self._is_whole = True
                return True
            case "error":
                raise self._failure(_object(event.get("error")))
        return False

    def take_whole(self, body: bytes) -> None:
        """Take an answer of a server that does not stream."""
        message = self._parse(body)
        if message.get("type") == "error":
            raise self._failure(_object(message.get("error")))
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            self._start_block(index, _object(block))
        self._take_usage(message.get("usage"))
        self._stop = str(message.get("stop_reason") or "")
        self._is_whole = True

    def _parse(self, data: bytes) -> dict[str, Any]:
        try:
            event = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ModelUnavailable(f"{self._provider}: the answer is not JSON", "server") from error
        if not isinstance(event, dict):
            raise ModelUnavailable(f"{self._provider}: the answer is not an object", "server")
        return event

    def _failure(self, error: dict[str, Any]) -> ModelError:
        kind = _ERROR_KINDS.get(str(error.get("type")), "server")
        return failure_of_kind(self._provider, kind, "an error inside the stream")

    def _take_usage(self, usage: Any) -> None:
        """Keep the newest counts; Anthropic counts cached tokens apart from the input."""
        counts = _object(usage)
        old = self._usage
        self._usage = Usage(
            _count(counts.get("input_tokens"), old.input),
            _count(counts.get("output_tokens"), old.output),
            _count(counts.get("cache_read_input_tokens"), old.cache_read),
            _count(counts.get("cache_creation_input_tokens"), old.cache_write),
        )

    def _start_block(self, index: Any, fields: dict[str, Any]) -> None:
        if not isinstance(index, int) or len(self._blocks) >= MAX_BLOCKS:
            raise ModelUnavailable(f"{self._provider}: the answer has no sensible blocks", "server")
        block = self._blocks[index] = _Block(fields)
        if block.kind == "text" and fields.get("text"):
            self._add_text(block, str(fields["text"]))

    def _take_delta(self, index: Any, delta: dict[str, Any]) -> None:
        block = self._blocks.get(index) if isinstance(index, int) else None
        if block is None:
            return
        match delta.get("type"):
            case "text_delta":
                self._add_text(block, str(delta.get("text", "")))
            case "input_json_delta":
                block.parts.append(str(delta.get("partial_json", "")))
            case "thinking_delta":
                block.parts.append(str(delta.get("thinking", "")))
            case "signature_delta":
                block.signature.append(str(delta.get("signature", "")))

    def _add_text(self, block: _Block, text: str) -> None:
        text = clean_text(text)
        if text:
            block.parts.append(text)
            self._on_text(text)

    def reply(self) -> ModelReply:
        """Return the whole answer.

        Raises:
            ModelUnavailable: The stream ended before the answer was whole.
            ModelRefused: The model declined.
        """
        if not self._is_whole and not self._stop:
            raise ModelUnavailable(f"{self._provider}: the answer was cut off", "server")
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        text = "".join("".join(block.parts) for block in blocks if block.kind == "text")
        calls = tuple(self._call(block) for block in blocks if block.kind == "tool_use")
        stop = _STOPS.get(self._stop, "end")
        if stop == "refusal" and not text:
            raise ModelRefused(f"{self._provider}: the model declined", "refused")
        message = Message(Role.ASSISTANT, text, tool_calls=calls, opaque=_opaque(blocks))
        return ModelReply(message, self._usage, stop, f"{self._provider}/{self._model}")

    def _call(self, block: _Block) -> ToolCall:
        arguments = "".join(block.parts)
        if not arguments and block.fields.get("input"):
            arguments = json.dumps(block.fields["input"], ensure_ascii=False)
        if not arguments and self._stop == "max_tokens":
            arguments = "{"  # cut off before its arguments: it must not pass for a call without any
        return ToolCall(
            clean_text(str(block.fields.get("id", ""))),
            clean_text(str(block.fields.get("name", ""))),
            clean_text(arguments),
        )


def _opaque(blocks: list[_Block]) -> str:
    """Return the thinking blocks, which must come back with the tool results they led to."""
    kept: list[dict[str, Any]] = []
    for block in blocks:
        if block.kind == "thinking":
            thinking = "".join(block.parts) or block.fields.get("thinking", "")
            signature = "".join(block.signature) or block.fields.get("signature", "")
            kept.append({"type": "thinking", "thinking": thinking, "signature": signature})
        elif block.kind == "redacted_thinking":
            kept.append(block.fields)
    if not kept:
        return ""
    return clean_text(json.dumps({"provider": PROVIDER_STATE, "blocks": kept}, separators=(",", ":")))


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any, old: int) -> int:
    return value if isinstance(value, int) and value >= 0 else old
