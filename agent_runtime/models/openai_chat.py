"""Models behind OpenAI's Chat Completions API or a server that speaks it.

Source: https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

import json
from typing import Any

import aiohttp

from tidegate.agent_runtime.messages import Message, Role, ToolCall, Usage
from tidegate.agent_runtime.models.base import ModelReply, ModelRequest, OnText
from tidegate.agent_runtime.models.failures import failure_of_event
from tidegate.agent_runtime.models.openai_wire import Dialect, encode_request
from tidegate.agent_runtime.models.repair import calls_in_text
from tidegate.agent_runtime.models.transport import (
    Endpoint,
    LoadBlob,
    ModelTransport,
    read_events,
    read_whole,
)
from tidegate.agent_runtime.models.visible import VisibleText
from tidegate.clock import Clock
from tidegate.errors import ModelRefused, ModelUnavailable
from tidegate.events import clean_text

MAX_CALLS = 128
_STOPS = {
    "stop": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
}


class OpenAIChat:
    """A provider that speaks Chat Completions.

    Args:
        session: Shared with the rest of the gateway; not closed here.
        load_blob: Loads pictures; without it they are replaced by a note.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: Endpoint,
        load_blob: LoadBlob | None = None,
        dialect: Dialect | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._transport = ModelTransport(session, endpoint, clock)
        self._provider = endpoint.provider
        self._load_blob = load_blob
        self._dialect = dialect or Dialect()
        self._headers = {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}

    async def complete(self, request: ModelRequest, on_text: OnText) -> ModelReply:
        """Stream one reply to `on_text` and return it whole.

        Raises:
            ModelError: See `ModelProvider.complete`.
        """
        body = await encode_request(request, self._provider, self._dialect, self._load_blob)
        answer = StreamedAnswer(self._provider, request, on_text)
        async with self._transport.post("/chat/completions", self._headers, body) as response:
            if response.content_type == "application/json":
                answer.take_whole(await read_whole(response, self._provider))
            else:
                async for data in read_events(response, self._provider):
                    if answer.take_event(data):
                        break
        return answer.reply()


class _Call:
    """A tool call under way."""

    __slots__ = ("arguments", "extra", "id", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.extra: Any = None


class StreamedAnswer:
    """Puts the pieces of one streamed answer together."""

    def __init__(self, provider: str, request: ModelRequest, on_text: OnText) -> None:
        self._provider = provider
        self._request = request
        self._visible = VisibleText(on_text, hold_calls=bool(request.tools))
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._finish = ""
        self._usage = Usage()
        self._reasoning: list[str] = []
        self._reasoning_details: list[Any] = []
        self._saw_choice = False
        self._is_whole = False
        self._half_character = ""

    def take_event(self, data: bytes) -> bool:
        """Take one event; True when it was the last one.

        Raises:
            ModelError: The event is an error, or not JSON.
        """
        data = data.strip()
        if data == b"[DONE]":
            self._is_whole = True
            return True
        self._take_chunk(self._parse(data), "delta")
        return False

    def take_whole(self, body: bytes) -> None:
        """Take an answer of a server that does not stream."""
        self._is_whole = True
        self._take_chunk(self._parse(body), "message")

    def _parse(self, data: bytes) -> dict[str, Any]:
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ModelUnavailable(f"{self._provider}: the answer is not JSON", "server") from error
        if not isinstance(chunk, dict):
            raise ModelUnavailable(f"{self._provider}: the answer is not an object", "server")
        return chunk

    def _take_chunk(self, chunk: dict[str, Any], part: str) -> None:
        if chunk.get("error"):
            raise failure_of_event(self._provider, chunk["error"])
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._usage = _usage(usage)
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return
        self._saw_choice = True
        choice = choices[0]
        delta = choice.get(part)
        if isinstance(delta, dict):
            self._take_delta(delta)
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self._finish = finish

    def _take_delta(self, delta: dict[str, Any]) -> None:
        text = delta.get("content")
        if isinstance(text, list):
            text = "".join(item.get("text", "") for item in text if isinstance(item, dict))
        if isinstance(text, str) and text:
            self._add_text(text)
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._finish = "content_filter"
        reasoning = delta.get("reasoning_content")
        if isinstance(reasoning, str):
            self._reasoning.append(reasoning)
        details = delta.get("reasoning_details")
        if isinstance(details, list):
            self._reasoning_details.extend(details)
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            for call in calls:
                if isinstance(call, dict):
                    self._take_call(call)

    def _add_text(self, text: str) -> None:
        """Show text; an escaped character may be cut in half between two events."""
        text = self._half_character + text
        self._half_character = ""
        if "\ud800" <= text[-1] <= "\udbff":
            self._half_character = text[-1]
            text = text[:-1]
        if text:
            self._visible.add(clean_text(text))

    def _take_call(self, delta: dict[str, Any]) -> None:
        """Add a piece of a tool call.

        Servers that send no index send each call whole, or say which one they mean by its id; a piece without
        either belongs to the last call.
        """
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        call = self._find_call(delta.get("index"), delta.get("id"), bool(function.get("name")))
        if isinstance(delta.get("id"), str):
            call.id = call.id or delta["id"]
        name = function.get("name")
        if isinstance(name, str) and name and not call.name:
            call.name = name
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            call.arguments = [json.dumps(arguments, ensure_ascii=False)]
        elif isinstance(arguments, str) and arguments:
            call.arguments.append(arguments)
        if delta.get("extra_content") is not None:
            call.extra = delta["extra_content"]

    def _find_call(self, index: Any, call_id: Any, has_name: bool) -> _Call:
        if isinstance(index, int):
            call = self._by_index.get(index)
            # Some servers repeat index 0 for every call: a new id together with a name starts another one.
            if call is not None and not (call_id and has_name and call.id and call.id != call_id):
                return call
            call = self._by_index[index] = self._new_call()
            return call
        if self._calls and not has_name:
            same = (call for call in self._calls if call_id and call.id == call_id)
            return next(same, self._calls[-1])
        return self._new_call()

    def _new_call(self) -> _Call:
        if len(self._calls) >= MAX_CALLS:
            raise ModelUnavailable(f"{self._provider}: more than {MAX_CALLS} tool calls", "server")
        call = _Call()
        self._calls.append(call)
        return call

    def reply(self) -> ModelReply:
        """Return the whole answer.

        Raises:
            ModelUnavailable: The stream ended before the answer was whole.
        """
        if not self._saw_choice or not (self._is_whole or self._finish):
            raise ModelUnavailable(f"{self._provider}: the answer is empty or was cut off", "server")
        calls = tuple(self._whole_call(call) for call in self._calls if call.name)
        if not calls:
            calls = calls_in_text(self._visible.held(), [tool.name for tool in self._request.tools])
        if not calls:
            self._visible.release()
        stop = "tool_calls" if calls and self._finish != "length" else _STOPS.get(self._finish, "end")
        text = self._visible.text()
        if stop == "refusal" and not text and not calls:
            raise ModelRefused(f"{self._provider}: the answer was withheld", "refused")
        message = Message(Role.ASSISTANT, text, tool_calls=calls, opaque=self._opaque())
        return ModelReply(message, self._usage, stop, f"{self._provider}/{self._request.model}")

    def _whole_call(self, call: _Call) -> ToolCall:
        arguments = "".join(call.arguments)
        if not arguments and self._finish == "length" and call is self._calls[-1]:
            arguments = "{"  # cut off before its arguments: it must not pass for a call without any
        return ToolCall(clean_text(call.id), clean_text(call.name), clean_text(arguments))

    def _opaque(self) -> str:
        """Return what the provider wants back with this message."""
        state: dict[str, Any] = {}
        extras = {str(index): call.extra for index, call in enumerate(self._calls) if call.extra is not None}
        if extras:
            state["extra_content"] = extras
        if self._reasoning_details:
            state["reasoning_details"] = self._reasoning_details
        if self._reasoning and self._calls:
            state["reasoning_content"] = "".join(self._reasoning)
        if not state:
            return ""
        return clean_text(json.dumps({"provider": self._provider, **state}, separators=(",", ":")))


def _usage(usage: dict[str, Any]) -> Usage:
    """Return tokens used; OpenAI counts cached tokens into the prompt, we do not."""
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    cached = cached or _count(usage.get("prompt_cache_hit_tokens"))
    prompt = _count(usage.get("prompt_tokens"))
    return Usage(max(prompt - cached, 0), _count(usage.get("completion_tokens")), cached)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
