"""The offline demo model."""

from __future__ import annotations

import asyncio

import pytest

from tidegate.agent_runtime.history import tool_result
from tidegate.agent_runtime.messages import Message, Role
from tidegate.agent_runtime.models.base import ModelReply, ModelRequest, ToolDefinition
from tidegate.agent_runtime.models.demo import DemoModel

TOOLS = tuple(ToolDefinition(name, "", {}) for name in ("ls", "read", "write", "session_status"))


def ask(*messages: Message, tools: tuple[ToolDefinition, ...] = TOOLS) -> tuple[ModelReply, list[str]]:
    pieces: list[str] = []
    reply = asyncio.run(DemoModel().complete(ModelRequest("offline", ("", ""), messages, tools), pieces.append))
    return reply, pieces


def user(text: str) -> Message:
    return Message(Role.USER, text)


def test_it_says_what_it_is_and_what_was_said_word_by_word() -> None:
    reply, pieces = ask(user("Good morning\n  world"))
    assert "offline demo model" in reply.message.text
    assert "Good morning\n  world" in reply.message.text
    assert "".join(pieces) == reply.message.text
    assert len(pieces) > 20


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("please list files", "ls", "{}"),
        ("List my files!", "ls", "{}"),
        ("read notes/todo.md", "read", '{"path": "notes/todo.md"}'),
        ("Read the file SOUL.md.", "read", '{"path": "SOUL.md"}'),
        ("write a.txt: buy milk", "write", '{"path": "a.txt", "content": "buy milk"}'),
        ("what time is it?", "session_status", "{}"),
    ],
)
def test_it_calls_tools_when_asked_to(text: str, name: str, arguments: str) -> None:
    reply, _ = ask(user(text))
    (call,) = reply.message.tool_calls
    assert (call.name, call.arguments, reply.stop) == (name, arguments, "tool_calls")


def test_it_calls_nothing_that_it_is_not_offered() -> None:
    assert not ask(user("list files"), tools=())[0].message.tool_calls


def test_it_tells_what_the_tools_said() -> None:
    asked, _ = ask(user("list files"))
    reply, _ = ask(user("list files"), asked.message, tool_result("demo-1", "a.md"))
    assert "a.md" in reply.message.text
    assert not reply.message.tool_calls
    failed, _ = ask(user("list files"), asked.message, tool_result("demo-1", "no", is_error=True))
    assert "failed" in failed.message.text


def test_it_takes_a_picture_and_even_nothing_at_all() -> None:
    assert ask(user(""))[0].message.text
    assert ask()[0].message.text
