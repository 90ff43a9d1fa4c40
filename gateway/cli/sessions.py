"""`tidegate sessions` and `tidegate send`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.markdown import render
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.rpc import ask
from tidegate.gateway.cli.terminal import Style, ago, columns, printable, table

MAX_INPUT = 1_000_000


def sessions_list(arguments: Arguments) -> int:
    """Print the sessions, the most recently used first."""
    call = Call.of(arguments)
    rows = ask(call, "tidegate.sessions.list", limit=arguments.limit)
    call.show(rows, lambda style: _sessions(rows, style))
    return 0


def _sessions(rows: list[dict[str, Any]], style: Style) -> Iterator[str]:
    if not rows:
        yield "there are no sessions yet"
        return
    now = time.time_ns() // 1000
    cells = [
        (
            printable(row["key"]),
            style.paint("running", "green") if row["running"] else ("waiting" if row["waiting"] else "idle"),
            str(row["messages"]),
            str(row["waiting"]),
            ago(row["touched_at"], now),
            " ".join(printable(str(row.get("title") or "")).split()),
        )
        for row in rows
    ]
    yield from table(style, ("SESSION", "STATE", "MESSAGES", "WAITING", "USED", "TITLE"), cells)


def sessions_show(arguments: Arguments) -> int:
    """Print one session with its last messages."""
    call = Call.of(arguments)
    data = ask(
        call,
        "tidegate.sessions.show",
        key=arguments.key,
        conversation=arguments.conversation or "",
        limit=arguments.limit,
    )
    call.show(data, lambda style: _session(data, style))
    return 0


def _session(data: dict[str, Any], style: Style) -> Iterator[str]:
    now = time.time_ns() // 1000
    state = "running" if data["running"] else "idle"
    yield f"{style.bold(printable(data['key']))}  agent {data['agent']}, {state}, {data['waiting']} waiting"
    rows = [
        (
            ("▸ " if item["id"] == data["conversation"] else "  ") + item["id"],
            str(item["messages"]),
            ago(item["started_at"], now),
            item["end_reason"] or "",
            printable(item["title"]),
        )
        for item in data["conversations"]
    ]
    if rows:
        yield ""
        yield from table(style, ("  CONVERSATION", "MESSAGES", "BEGAN", "ENDED", "TITLE"), rows)
    for message in data["messages"]:
        yield ""
        tools = f" → {', '.join(message['tools'])}" if message["tools"] else ""
        failed = " (failed)" if message["is_error"] else ""
        yield style.dim(f"{message['role']}{tools}{failed}")
        if message["text"].strip():
            yield render(message["text"], style, columns())
        # An older gateway does not tell how a turn ended.
        if message.get("ended") == "stopped":
            yield style.dim("[stopped here]")
        elif message.get("ended") == "failed":
            yield style.paint(f"✗ no answer came: {printable(message.get('told') or '')}".rstrip(": "), "red")


def send(arguments: Arguments) -> int:
    """Put a message into the outbox; a running gateway delivers it, a later one otherwise."""
    call = Call.of(arguments)
    text = sys.stdin.read(MAX_INPUT) if arguments.text == ["-"] else " ".join(arguments.text)
    where = {"channel": arguments.channel, "to": arguments.to, "text": text}
    if arguments.account:
        where["account"] = arguments.account
    if arguments.thread:
        where["thread"] = arguments.thread
    done = ask(call, "tidegate.send", **where)
    noun = "part" if done["parts"] == 1 else "parts"
    call.show(done, lambda _: [f"queued {done['parts']} {noun} for {arguments.channel} {arguments.to}"])
    return 0
