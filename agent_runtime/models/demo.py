"""A model that needs no account and no network: it says what it is and can call tools.

Deterministic, so that everything around it can be tried and tested before a key is configured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tidegate.agent_runtime.messages import Message, Role, ToolCall, Usage
from tidegate.agent_runtime.models.base import ModelReply, ModelRequest, OnText

DEMO_MODEL = "demo/offline"

INTRODUCTION = (
    "I am Tidegate's offline demo model: no account, no network. You wrote: “{text}”. "
    "Ask me to “list files”, “read NAME” or “write NAME: text” to see tools at work, "
    "and configure a model key to talk to a real one."
)

_COMMANDS: tuple[tuple[re.Pattern[str], str, tuple[str, ...]], ...] = (
    (re.compile(r"\blist\s+(?:the\s+|my\s+|all\s+)?files\b", re.I), "ls", ()),
    (re.compile(r"\bwrite\s+([\w./-]+)\s*:\s*(.+)", re.I | re.S), "write", ("path", "content")),
    (re.compile(r"\bread\s+(?:the\s+file\s+|file\s+)?([\w./-]*[\w-])", re.I), "read", ("path",)),
    (re.compile(r"\b(?:what time|session status)\b", re.I), "session_status", ()),
)


class DemoModel:
    """The offline demo model."""

    async def complete(self, request: ModelRequest, on_text: OnText) -> ModelReply:
        """Answer the last message, word by word. Never fails."""
        last = request.messages[-1] if request.messages else Message(Role.USER)
        offered = {tool.name for tool in request.tools}
        call = _wanted_call(last.text, request.messages, offered) if last.role is Role.USER else None
        usage = Usage(input=sum(len(message.text) for message in request.messages) // 4)
        if call is not None:
            message = Message(Role.ASSISTANT, tool_calls=(call,))
            return ModelReply(message, usage + Usage(output=8), "tool_calls", DEMO_MODEL)
        text = _answer(request.messages)
        for word in _words(text):
            on_text(word)
        message = Message(Role.ASSISTANT, text)
        return ModelReply(message, usage + Usage(output=len(text) // 4), "end", DEMO_MODEL)


def _wanted_call(text: str, messages: tuple[Message, ...], offered: set[str]) -> ToolCall | None:
    """Return the call that `text` asks for in so many words."""
    for pattern, tool, names in _COMMANDS:
        found = pattern.search(text)
        if found and tool in offered:
            arguments = dict(zip(names, (group.strip() for group in found.groups()), strict=True))
            number = sum(len(message.tool_calls) for message in messages) + 1
            return ToolCall(f"demo-{number}", tool, json.dumps(arguments, ensure_ascii=False))
    return None


def _answer(messages: tuple[Message, ...]) -> str:
    if messages and messages[-1].role is Role.TOOL:
        results = []
        for message in reversed(messages):
            if message.role is not Role.TOOL:
                break
            results.append(message.text or "(nothing)")
        verb = "failed" if messages[-1].is_error else "says"
        return f"The tool {verb}:\n" + "\n".join(reversed(results)) + "\n\n(Offline demo model.)"
    said = []
    for message in reversed(messages):
        if message.role is not Role.USER:
            break
        said.append(message.text or "(a picture)")
    return INTRODUCTION.format(text="\n".join(reversed(said)))


def _words(text: str) -> Iterator[str]:
    """Yield `text` in pieces that end after each word."""
    return (match.group() for match in re.finditer(r"\s*\S+\s*?(?=\s|$)|\s+$", text))
