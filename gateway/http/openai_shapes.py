"""OpenAI's formats: what answers look like, whole and in pieces. No I/O.

Sources: https://platform.openai.com/docs/api-reference/chat and …/responses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.agent_runtime.messages import ToolCall
from tidegate.gateway.http.openai_wire import ApiError


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a run used."""

    given: int = 0
    made: int = 0

    def chat(self) -> dict[str, Any]:
        """Return it as Chat Completions tells it."""
        return {"prompt_tokens": self.given, "completion_tokens": self.made, "total_tokens": self.given + self.made}

    def responses(self) -> dict[str, Any]:
        """Return it as Responses tells it."""
        return {
            "input_tokens": self.given,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": self.made,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self.given + self.made,
        }


def sse(data: Mapping[str, Any], event: str = "") -> bytes:
    """Return one server-sent event."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class ChatShape:
    """The answer of Chat Completions, whole or in pieces. `created` is seconds UTC."""

    id: str
    created: int
    model: str
    include_usage: bool = False

    def whole(self, text: str, tokens: Tokens, calls: Sequence[ToolCall] = ()) -> dict[str, Any]:
        """Return the whole answer."""
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message |= {"content": text or None, "tool_calls": [_chat_call(call) for call in calls]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        return {**self._head("chat.completion"), "choices": [choice], "usage": tokens.chat()}

    def begin(self) -> list[bytes]:
        """Return what comes first."""
        return [self._chunk({"role": "assistant"})]

    def piece(self, text: str) -> list[bytes]:
        """Return a piece of text."""
        return [self._chunk({"content": text})]

    def end(self, text: str, tokens: Tokens, calls: Sequence[ToolCall] = ()) -> list[bytes]:
        """Return what comes last."""
        del text
        told = [self._chunk({"tool_calls": [{"index": n, **_chat_call(call)}]}) for n, call in enumerate(calls)]
        usage = [sse({**self._head("chat.completion.chunk"), "choices": [], "usage": tokens.chat()})]
        finish = self._chunk({}, "tool_calls" if calls else "stop")
        return [*told, finish, *(usage if self.include_usage else []), DONE]

    def failed(self, error: ApiError) -> list[bytes]:
        """Return the end of an answer that failed."""
        return [sse(error.body), DONE]

    def _chunk(self, delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return sse({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


class ResponsesShape:
    """The answer of Responses, whole or as events. `created` is seconds UTC."""

    def __init__(self, response_id: str, message_id: str, created: int, model: str) -> None:
        self.id = response_id
        self._message_id = message_id
        self._created = created
        self._model = model
        self._number = 0

    def whole(self, text: str, tokens: Tokens, calls: Sequence[ToolCall] = ()) -> dict[str, Any]:
        """Return the whole answer; one that only calls has no message."""
        said = [self._item("completed", text)] if text or not calls else []
        return self._response("completed", [*said, *(_function_call(call, "completed") for call in calls)], tokens)

    def begin(self) -> list[bytes]:
        """Return what comes first."""
        return [
            self._event("response.created", response=self._response("in_progress")),
            self._event("response.in_progress", response=self._response("in_progress")),
            self._event("response.output_item.added", output_index=0, item=self._item("in_progress", None)),
            self._event("response.content_part.added", **self._where(), part=_part("")),
        ]

    def piece(self, text: str) -> list[bytes]:
        """Return a piece of text."""
        return [self._event("response.output_text.delta", **self._where(), delta=text, logprobs=[])]

    def end(self, text: str, tokens: Tokens, calls: Sequence[ToolCall] = ()) -> list[bytes]:
        """Return what comes last."""
        told = [event for number, call in enumerate(calls, start=1) for event in self._call(number, call)]
        output = [self._item("completed", text), *(_function_call(call, "completed") for call in calls)]
        return [
            self._event("response.output_text.done", **self._where(), text=text, logprobs=[]),
            self._event("response.content_part.done", **self._where(), part=_part(text)),
            self._event("response.output_item.done", output_index=0, item=self._item("completed", text)),
            *told,
            # The message was announced when the stream began, so it stands in the output also when it says nothing.
            self._event("response.completed", response=self._response("completed", output, tokens)),
            DONE,
        ]

    def _call(self, number: int, call: ToolCall) -> list[bytes]:
        """Return the events of one call."""
        item = _function_call(call, "completed")
        where = {"item_id": item["id"], "output_index": number}
        begun = {**item, "arguments": "", "status": "in_progress"}
        return [
            self._event("response.output_item.added", output_index=number, item=begun),
            self._event("response.function_call_arguments.delta", **where, delta=call.arguments),
            self._event("response.function_call_arguments.done", **where, name=call.name, arguments=call.arguments),
            self._event("response.output_item.done", output_index=number, item=item),
        ]

    def failed(self, error: ApiError) -> list[bytes]:
        """Return the end of an answer that failed."""
        detail = {"code": error.kind, "message": str(error)}
        return [self._event("response.failed", response={**self._response("failed"), "error": detail}), DONE]

    def _where(self) -> dict[str, Any]:
        return {"item_id": self._message_id, "output_index": 0, "content_index": 0}

    def _event(self, kind: str, /, **fields: Any) -> bytes:
        self._number += 1
        return sse({"type": kind, "sequence_number": self._number - 1, **fields}, kind)

    def _item(self, status: str, text: str | None) -> dict[str, Any]:
        return {
            "type": "message",
            "id": self._message_id,
            "role": "assistant",
            "content": [] if text is None else [_part(text)],
            "phase": "final_answer",
            "status": status,
        }

    def _response(
        self, status: str, output: Sequence[Mapping[str, Any]] = (), tokens: Tokens | None = None
    ) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "model": self._model,
            "output": list(output),
            "usage": (tokens or Tokens()).responses(),
        }


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _chat_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _function_call(call: ToolCall, status: str) -> dict[str, Any]:
    about = {"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id}
    return {**about, "name": call.name, "arguments": call.arguments, "status": status}
