"""Measures what a model call costs this process in CPU, without the model.

    python bench/runtime_bench.py [--calls 300] [--messages 40]

The server is a child process on loopback that streams a fixed answer, so that its work is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import aiohttp
from aiohttp import web

from tidegate.agent_runtime.history import trim_history, valid_history
from tidegate.agent_runtime.messages import Message, Role, ToolCall
from tidegate.agent_runtime.models.base import ModelProvider, ModelRequest, ToolDefinition
from tidegate.agent_runtime.models.build import ProviderSettings, build_provider
from tidegate.agent_runtime.models.openai_wire import Dialect, encode_request

WORDS = 60


def serve(ready: Connection) -> None:
    """Run the server until the process is ended."""

    def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode() + b"\n\n"

    openai = [chunk({"content": f"word{n} "}) for n in range(WORDS)] + [chunk({}, "stop"), b"data: [DONE]\n\n"]

    def event(kind: str, **fields: object) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()

    anthropic = [
        event("message_start", message={"usage": {}}),
        event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *(
            event("content_block_delta", index=0, delta={"type": "text_delta", "text": f"word{n} "})
            for n in range(WORDS)
        ),
        event("message_delta", delta={"stop_reason": "end_turn"}),
        event("message_stop"),
    ]

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for data in anthropic if request.path.endswith("/messages") else openai:
            await response.write(data)
        await response.write_eof()
        return response

    async def run() -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/{tail:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ready.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


def conversation(count: int) -> tuple[Message, ...]:
    """Return `count` messages: questions, tool steps and answers of ordinary size."""
    messages: list[Message] = []
    number = 0
    while len(messages) < count:
        number += 1
        call = ToolCall(f"call_{number}", "read", json.dumps({"path": f"notes/{number}.md"}))
        messages += [
            Message(Role.USER, f"Question {number}: " + "some words of a person. " * 10),
            Message(Role.ASSISTANT, "", tool_calls=(call,)),
            Message(Role.TOOL, "line of a file\n" * 60, tool_call_id=call.id),
            Message(Role.ASSISTANT, "An answer with a few sentences in it. " * 12),
        ]
    return (*messages[: count - 1], Message(Role.USER, "And now?"))


def _report(line: str) -> None:
    sys.stdout.write(line + "\n")


def timed(name: str, work: Callable[[], object], rounds: int = 300) -> None:
    """Print the CPU milliseconds of one call of `work`."""
    started = time.process_time()
    for _ in range(rounds):
        work()
    _report(f"{name:32} {(time.process_time() - started) / rounds * 1000:7.3f} ms CPU")


async def measure(name: str, provider: ModelProvider, request: ModelRequest, calls: int) -> None:
    """Print what one streamed call costs."""
    for _ in range(20):
        await provider.complete(request, lambda text: None)
    walls = []
    cpu = time.process_time()
    for _ in range(calls):
        started = time.perf_counter()
        await provider.complete(request, lambda text: None)
        walls.append(time.perf_counter() - started)
    cpu = (time.process_time() - cpu) / calls * 1000
    _report(f"{name:32} {cpu:7.3f} ms CPU   {statistics.median(walls) * 1000:7.3f} ms wall p50")


async def main(calls: int, count: int, port: int) -> None:
    """Run all measurements."""
    messages = conversation(count)
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    tools = tuple(ToolDefinition(f"tool_{n}", "Does something useful.", schema) for n in range(6))
    request = ModelRequest("m", ("prompt " * 2000, "tail"), messages, tools)
    body = await encode_request(request, "p", Dialect(), None)
    _report(f"{len(messages)} messages, {len(body)} bytes, {WORDS} streamed words")
    timed("valid_history + trim_history", lambda: trim_history(valid_history(messages), 100_000))
    async with aiohttp.ClientSession() as session:
        for name in ("openai", "anthropic"):
            settings = ProviderSettings(name, "k", base_url=f"http://127.0.0.1:{port}/v1")
            await measure(f"{name} whole call", build_provider(settings, session), request, calls)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--messages", type=int, default=40)
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        asyncio.run(main(options.calls, options.messages, ours.recv()))
    finally:
        server.terminate()
        sys.stdout.flush()
