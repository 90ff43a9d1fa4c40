"""`tidegate chat`: talk to the running gateway, from a terminal or in one go."""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Any

from tidegate.gateway.cli.call import Call, warn
from tidegate.gateway.cli.conversation import GREETING, Conversation, failure_line, file_line
from tidegate.gateway.cli.link import ChatLink, Link
from tidegate.gateway.cli.markdown import render
from tidegate.gateway.cli.once import DEFAULT_DEADLINE, ask_once
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.rpc import running_pid
from tidegate.gateway.cli.terminal import as_json, columns
from tidegate.gateway.client.errors import Unreachable
from tidegate.gateway.program import hint

MAX_INPUT = 1_000_000
"""Characters of piped input that make one message."""


def chat(arguments: Arguments) -> int:
    """Open a chat, or send one message where there is no terminal or `--once` says so."""
    call = Call.of(arguments)
    link: Link | None = None
    if call.url:
        there = importlib.import_module("tidegate.gateway.cli.plane_link")
        link = there.PlaneLink(there.come_in(call))
    if arguments.once is None and is_interactive() and link is not None:
        asyncio.run(Conversation(call.site, call.style, link).run(f"{call.url}\n{GREETING}"))
        return 0
    if arguments.once is None and is_interactive():
        if running_pid(call.site) is None:
            raise Unreachable(f"no gateway runs here; {hint('up')} starts one with a chat")
        asyncio.run(Conversation(call.site, call.style).run())
        return 0
    text = sys.stdin.read(MAX_INPUT) if arguments.once in (None, "-") else str(arguments.once)
    seconds = arguments.timeout or DEFAULT_DEADLINE
    replies: list[dict[str, Any]] = []

    def show(frame: dict[str, Any]) -> None:
        replies.append({key: frame[key] for key in ("text", "file", "file_name") if key in frame})
        if not arguments.json:
            _print(call, frame)

    asyncio.run(
        ask_once(link or ChatLink(call.site), text, seconds, show, lambda data: warn(failure_line(data).strip()))
    )
    if arguments.json:
        print(as_json({"replies": replies}))
    return 0


def is_interactive() -> bool:
    """Tell whether somebody sits at a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _print(call: Call, frame: dict[str, Any]) -> None:
    text = str(frame.get("text", ""))
    if text.strip():
        print(render(text, call.style, columns()), flush=True)
    if frame.get("file"):
        print(file_line(frame, call.style), flush=True)
