"""A model server whose answers a test decides one by one: it can be held, fail, call tools, or never end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from fakes.fake_model import check_openai


@dataclass(frozen=True)
class Ask:
    """One request, as a test looks at it.

    Attributes:
        said: What the user said since the last finished answer, oldest first.
        results: Tool results of this turn so far.
    """

    said: list[str]
    results: list[str]
    body: dict[str, Any]

    @property
    def last(self) -> str:
        """The newest thing the user said."""
        return self.said[-1] if self.said else ""


@dataclass(frozen=True)
class Tools:
    """An answer that calls tools: (name, arguments), perhaps after some words."""

    calls: tuple[tuple[str, dict[str, Any]], ...]
    text: str = ""


@dataclass(frozen=True)
class Error:
    """An answer that is an HTTP error."""

    status: int
    text: str = "failed"
    headers: dict[str, str] = field(default_factory=dict)


Answer = str | Tools | Error
Think = Callable[[Ask], Awaitable[Answer]]


async def echo(ask: Ask) -> Answer:
    """Answer with what was said."""
    return "echo: " + " | ".join(ask.said)


class Brain:
    """The server. Set `think` to decide what it answers.

    Attributes:
        pace: Seconds between two pieces of an answer.
    """

    def __init__(self, think: Think = echo) -> None:
        self.think = think
        self.asks: list[Ask] = []
        self.problems: list[str] = []
        self.url = ""
        self.pace = 0.0
        self._gates: dict[str, asyncio.Event] = {}

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/chat/completions", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *exc: object) -> None:
        for gate in self._gates.values():
            gate.set()
        await self._runner.cleanup()

    def hold(self, word: str) -> asyncio.Event:
        """Let requests whose newest user text holds `word` wait until the returned event is set."""
        return self._gates.setdefault(word, asyncio.Event())

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        problem = check_openai(body["messages"])
        if problem:
            self.problems.append(problem)
            return web.json_response({"error": {"message": problem}}, status=400)
        ask = _ask(body)
        self.asks.append(ask)
        for word, gate in self._gates.items():
            if word in ask.last:
                await gate.wait()
        answer = await self.think(ask)
        if isinstance(answer, Error):
            error = {"error": {"message": answer.text}}
            return web.json_response(error, status=answer.status, headers=answer.headers)
        try:
            return await self._stream(request, answer)
        except ConnectionError:
            # The gateway gave the call up; that is its right.
            return web.Response()

    async def _stream(self, request: web.Request, answer: str | Tools) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        if isinstance(answer, Tools):
            calls = [
                {
                    "index": index,
                    "id": f"call{len(self.asks)}_{index}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for index, (name, arguments) in enumerate(answer.calls)
            ]
            deltas: list[tuple[dict[str, Any], str | None]] = [({"tool_calls": calls}, None), ({}, "tool_calls")]
            if answer.text:
                deltas.insert(0, ({"content": answer.text}, None))
        else:
            pieces = [answer[at : at + 7] for at in range(0, len(answer), 7)]
            deltas = [*(({"content": piece}, None) for piece in pieces), ({}, "stop")]
        for delta, finish in deltas:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            await response.write(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
            if self.pace:
                await asyncio.sleep(self.pace)
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


def _ask(body: dict[str, Any]) -> Ask:
    said: list[str] = []
    results: list[str] = []
    for message in body["messages"]:
        if message["role"] == "assistant" and not message.get("tool_calls"):
            said, results = [], []
        elif message["role"] == "user":
            content = message["content"]
            if isinstance(content, list):
                content = " ".join(part.get("text", "[image]") for part in content)
            said.append(content)
        elif message["role"] == "tool":
            results.append(str(message["content"]))
    return Ask(said, results, body)
