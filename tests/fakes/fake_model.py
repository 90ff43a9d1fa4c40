"""A model server on loopback that speaks OpenAI's Chat Completions and Anthropic's Messages, with scripted faults.

It refuses transcripts that the real servers refuse: results without their call, calls without a result,
roles that do not alternate (Anthropic).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web


@dataclass(frozen=True)
class Say:
    """Answer with text, in pieces of `piece` characters."""

    text: str
    piece: int = 4
    finish: str = "stop"


@dataclass(frozen=True)
class Call:
    """Answer with tool calls: (name, arguments as JSON text)."""

    calls: tuple[tuple[str, str], ...]
    text: str = ""


@dataclass(frozen=True)
class Fail:
    """Answer with an HTTP error."""

    status: int
    message: str = "failed"
    headers: Mapping[str, str] = field(default_factory=dict)
    code: str = ""


@dataclass(frozen=True)
class Bytes:
    """Send exactly these bytes, each its own write, then end cleanly or by cutting the connection."""

    chunks: tuple[bytes, ...]
    content_type: str = "text/event-stream"
    cut: bool = False
    hang: bool = False


@dataclass(frozen=True)
class Whole:
    """Answer the streamed request with one JSON body."""

    text: str


@dataclass(frozen=True)
class Endless:
    """Stream the same text for ever."""

    text: str = "and on "


Step = Say | Call | Fail | Bytes | Whole | Endless


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    size: int
    peer: object = None


class FakeModel:
    """The server. With an empty script it echoes the last user message.

    Attributes:
        seen: Every request so far.
    """

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self.steps: list[Step] = list(steps)
        self.seen: list[Seen] = []
        self.url = ""
        self._calls = 0
        self._stop = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._openai)
        app.router.add_post("/v1/messages", self._anthropic)
        self._runner = web.AppRunner(app, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/v1"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._stop.set()
        assert self._runner is not None
        await self._runner.cleanup()

    def script(self, *steps: Step) -> None:
        """Add steps; each answers one request."""
        self.steps.extend(steps)

    async def _receive(self, request: web.Request) -> dict[str, Any]:
        raw = await request.read()
        body: dict[str, Any] = json.loads(raw)
        self.seen.append(Seen(request.path, dict(request.headers), body, len(raw), _peer(request)))
        return body

    def _next(self, body: dict[str, Any]) -> Step:
        if self.steps:
            return self.steps.pop(0)
        users = [message for message in body["messages"] if message["role"] == "user"]
        content = users[-1]["content"] if users else ""
        if isinstance(content, list):
            content = "".join(part.get("text", "") for part in content)
        return Say(f"echo: {content}")

    async def _openai(self, request: web.Request) -> web.StreamResponse:
        body = await self._receive(request)
        problem = check_openai(body["messages"])
        step = Fail(400, problem) if problem else self._next(body)
        if isinstance(step, Fail):
            error = {"message": step.message, "type": "error", "code": step.code or None}
            return web.json_response({"error": error}, status=step.status, headers=step.headers)
        if isinstance(step, Whole):
            message = {"role": "assistant", "content": step.text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return web.json_response({"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
        return await self._stream(request, step, self._openai_events(step, body))

    def _openai_events(self, step: Step, body: dict[str, Any]) -> list[bytes]:
        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            data = {"id": "c1", "object": "chat.completion.chunk", "model": body["model"], "choices": [choice]}
            return f"data: {json.dumps(data)}\n\n".encode()

        events = [chunk({"role": "assistant", "content": ""})]
        finish = "stop"
        if isinstance(step, Endless):
            return [chunk({"content": step.text})]
        if isinstance(step, Say):
            finish = step.finish
            events += [chunk({"content": piece}) for piece in _pieces(step.text, step.piece)]
        if isinstance(step, Call):
            finish = "tool_calls"
            if step.text:
                events.append(chunk({"content": step.text}))
            for index, (name, arguments) in enumerate(step.calls):
                self._calls += 1
                start = {"name": name, "arguments": ""}
                opening = {"index": index, "id": f"call_{self._calls}", "type": "function", "function": start}
                events.append(chunk({"tool_calls": [opening]}))
                for piece in _pieces(arguments, 5):
                    events.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
        events.append(chunk({}, finish))
        if body.get("stream_options", {}).get("include_usage"):
            usage = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 60}}
            events.append(f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n".encode())
        return [*events, b"data: [DONE]\n\n"]

    async def _anthropic(self, request: web.Request) -> web.StreamResponse:
        body = await self._receive(request)
        problem = check_anthropic(body["messages"])
        step = Fail(400, problem) if problem else self._next(body)
        if isinstance(step, Fail):
            error = {"type": "error", "error": {"type": step.code or "api_error", "message": step.message}}
            return web.json_response(error, status=step.status, headers=step.headers)
        if isinstance(step, Whole):
            usage = {"input_tokens": 7, "output_tokens": 3}
            content = [{"type": "text", "text": step.text}]
            return web.json_response(
                {"type": "message", "role": "assistant", "content": content, "stop_reason": "end_turn", "usage": usage}
            )
        return await self._stream(request, step, self._anthropic_events(step))

    def _anthropic_events(self, step: Step) -> list[bytes]:
        def event(kind: str, **fields: Any) -> bytes:
            return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()

        def block(index: int, start: dict[str, Any], deltas: list[dict[str, Any]]) -> list[bytes]:
            return [
                event("content_block_start", index=index, content_block=start),
                *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
                event("content_block_stop", index=index),
            ]

        usage = {"input_tokens": 40, "output_tokens": 1, "cache_read_input_tokens": 60}
        events = [event("message_start", message={"role": "assistant", "usage": usage}), event("ping")]
        stop = "end_turn"
        if isinstance(step, Endless):
            delta = {"type": "text_delta", "text": step.text}
            return [event("content_block_delta", index=0, delta=delta)]
        if isinstance(step, Say):
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(step.text, step.piece)]
            events += block(0, {"type": "text", "text": ""}, deltas)
            stop = {"stop": "end_turn", "length": "max_tokens"}.get(step.finish, step.finish)
        if isinstance(step, Call):
            stop = "tool_use"
            thinking = [
                {"type": "thinking_delta", "thinking": "let me look"},
                {"type": "signature_delta", "signature": "signed"},
            ]
            events += block(0, {"type": "thinking", "thinking": "", "signature": ""}, thinking)
            for index, (name, arguments) in enumerate(step.calls, 1):
                self._calls += 1
                deltas = [{"type": "input_json_delta", "partial_json": p} for p in _pieces(arguments, 5)]
                start = {"type": "tool_use", "id": f"toolu_{self._calls}", "name": name, "input": {}}
                events += block(index, start, deltas)
        events.append(event("message_delta", delta={"stop_reason": stop}, usage={"output_tokens": 20}))
        return [*events, event("message_stop")]

    async def _stream(self, request: web.Request, step: Step, events: list[bytes]) -> web.StreamResponse:
        content_type = step.content_type if isinstance(step, Bytes) else "text/event-stream"
        response = web.StreamResponse(headers={"content-type": content_type})
        response.enable_chunked_encoding()
        await response.prepare(request)
        try:
            while True:
                for chunk in step.chunks if isinstance(step, Bytes) else events:
                    await response.write(chunk)
                    await asyncio.sleep(0)
                if not isinstance(step, Endless):
                    break
            if isinstance(step, Bytes) and step.hang:
                await self._stop.wait()
            if isinstance(step, Bytes) and step.cut and request.transport is not None:
                request.transport.abort()
                return response
            await response.write_eof()
        except (ConnectionError, OSError):
            pass
        return response


def _peer(request: web.Request) -> object:
    return request.transport.get_extra_info("peername") if request.transport is not None else None


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def check_openai(messages: list[dict[str, Any]]) -> str:
    """Return what a Chat Completions server would object to, or ""."""
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return "messages with role 'tool' must follow a message with 'tool_calls'"
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            return "an assistant message with 'tool_calls' must be followed by tool messages"
        waiting = {call["id"] for call in message.get("tool_calls", ())}
        for call in message.get("tool_calls", ()):
            if not isinstance(call["function"]["arguments"], str):
                return "arguments must be a string"
    return "an assistant message with 'tool_calls' must be followed by tool messages" if waiting else ""


def check_anthropic(messages: list[dict[str, Any]]) -> str:
    """Return what a Messages server would object to, or ""."""
    if not messages or messages[0]["role"] != "user":
        return "first message must use the user role"
    waiting: set[str] = set()
    role = "assistant"
    for message in messages:
        if message["role"] == role:
            return "roles must alternate"
        role = message["role"]
        if not message["content"]:
            return "content must not be empty"
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        if set(results) != waiting or len(results) != len(waiting):
            return "tool_use ids without tool_result blocks immediately after, or the reverse"
        if any(block["type"] == "text" and not block["text"].strip() for block in message["content"]):
            return "text content blocks must be non-empty"
        waiting = {block["id"] for block in message["content"] if block["type"] == "tool_use"}
    return "tool_use ids without tool_result blocks" if waiting else ""
