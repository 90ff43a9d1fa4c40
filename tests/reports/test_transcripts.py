"""Bug reports about products of this kind, as tests: what a provider is sent after something was cut off."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp

from fakes.fake_model import Bytes, FakeModel, Say, check_openai
from harness.brain import Answer, Ask, Error, Tools
from harness.platform import Platform
from harness.stage import stage
from tidegate.agent_runtime.history import estimate_tokens, trim_history, valid_history
from tidegate.agent_runtime.messages import Message, Role, ToolCall
from tidegate.agent_runtime.models.base import ModelRequest, ToolDefinition
from tidegate.agent_runtime.models.openai_chat import OpenAIChat
from tidegate.agent_runtime.models.transport import Endpoint
from tidegate.errors import ModelUnavailable


def as_sent(messages: tuple[Message, ...]) -> list[dict[str, object]]:
    """Return a transcript in the shape that the fake server checks."""
    found: list[dict[str, object]] = []
    for message in messages:
        item: dict[str, object] = {"role": message.role.value, "content": message.text}
        if message.tool_calls:
            item["tool_calls"] = [{"id": c.id, "function": {"arguments": c.arguments}} for c in message.tool_calls]
        if message.role is Role.TOOL:
            item["tool_call_id"] = message.tool_call_id
        found.append(item)
    return found


def test_R092_an_aborted_tool_call_does_not_poison_the_session(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()

        async def think(ask: Ask) -> Answer:
            if "work" in ask.last and not ask.results:
                return Tools(
                    (("write", {"path": "a.txt", "content": "x"}), ("write", {"path": "b.txt", "content": "x"}))
                )
            if "work" in ask.last:
                await asyncio.sleep(30)
            return "fine"

        async with stage(tmp_path, platform) as play:
            play.brain.think = think
            async with play.gateway():
                platform.say("7", "work")
                await platform.until(lambda: len(play.brain.asks) == 2)
                platform.say("7", "/stop")
                await platform.until(lambda: platform.texts("7"))
                platform.say("7", "hello")
                await platform.until(lambda: "fine" in platform.texts("7"))
            assert not play.brain.problems

    asyncio.run(run())


def test_R093_a_call_cut_off_by_an_error_is_no_call() -> None:
    async def run() -> None:
        opening = {
            "index": 0,
            "id": "T1",
            "type": "function",
            "function": {"name": "read", "arguments": '{"path":"/tm'},
        }
        start = {"choices": [{"index": 0, "delta": {"tool_calls": [opening]}}]}
        error = {"error": {"message": "overloaded", "code": "overloaded_error"}}
        chunks = (f"data: {json.dumps(start)}\n\n".encode(), f"data: {json.dumps(error)}\n\n".encode())
        tool = ToolDefinition("read", "reads", {"type": "object", "properties": {}})
        request = ModelRequest("m", ("s", ""), (Message(Role.USER, "hi"),), (tool,))
        async with FakeModel([Bytes(chunks), Say("ok")]) as model, aiohttp.ClientSession() as http:
            provider = OpenAIChat(http, Endpoint("fake", model.url, "k"))
            try:
                reply = await provider.complete(request, lambda _: None)
            except ModelUnavailable:
                reply = None
            assert reply is None

    asyncio.run(run())


def test_R095_trimming_keeps_calls_and_results_together() -> None:
    messages: list[Message] = []
    for number in range(20):
        call = ToolCall(f"T{number}", "read", "{}")
        messages += [
            Message(Role.USER, f"question {number} " + "x" * 200),
            Message(Role.ASSISTANT, "", tool_calls=(call,)),
            Message(Role.TOOL, "result " + "y" * 200, tool_call_id=call.id),
            Message(Role.ASSISTANT, f"answer {number}"),
        ]
    total = sum(estimate_tokens(message) for message in messages)
    for budget in range(60, total, 37):
        trimmed = trim_history(valid_history(messages), budget)
        assert check_openai(as_sent(trimmed)) == ""  # type: ignore[arg-type]
        assert trimmed[0].role is Role.USER
        assert trimmed[-1] == messages[-1]


def test_R096_results_without_their_call_are_dropped_with_it() -> None:
    history = valid_history(
        [
            Message(Role.USER, "first"),
            Message(Role.TOOL, "A", tool_call_id="A"),
            Message(Role.TOOL, "B", tool_call_id="B"),
            Message(Role.USER, "hi"),
        ]
    )
    assert [message.role for message in history] == [Role.USER, Role.USER]


def test_R049_a_lost_connection_in_the_middle_of_a_turn_ends_it(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()

        async def think(ask: Ask) -> Answer:
            if not ask.results:
                return Tools((("session_status", {}),))
            return Error(403, "blocked")

        async with stage(tmp_path, platform) as play:
            play.brain.think = think
            async with play.gateway() as gateway:
                platform.say("7", "go")
                await platform.until(lambda: platform.texts("7"))
                await platform.until(lambda: gateway.workers.stats().running == 0)
            assert play.rows("SELECT state FROM turns") == [("failed",)]

    asyncio.run(run())
