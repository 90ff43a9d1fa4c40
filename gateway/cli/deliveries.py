"""`tidegate deliveries`: parts that went out, and those that did not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.rpc import ask
from tidegate.gateway.cli.terminal import Style, ago, printable, table

MEANINGS = {
    "due": "it waits to be sent",
    "sending": "it is being sent",
    "sent": "the platform confirmed it",
    "unknown": "the line broke while it was sent: it may or may not have arrived, and is never sent again",
    "dead": "the platform refused it: it did not arrive and never will",
    "expired": "it could not be sent within messages.outbox.maxAge: it did not arrive",
}


def deliveries_list(arguments: Arguments) -> int:
    """Print parts, the newest first; those in trouble unless states are named."""
    call = Call.of(arguments)
    rows = ask(call, "tidegate.deliveries.list", states=arguments.state or [], limit=arguments.limit)
    call.show(rows, lambda style: _parts(rows, style))
    return 0


def _parts(rows: list[dict[str, Any]], style: Style) -> Iterator[str]:
    if not rows:
        yield "there are none"
        return
    yield from table(style, ("ID", "TO", "STATE", "WRITTEN", "REASON"), part_cells(rows, time.time_ns() // 1000))
    yield ""
    for state in dict.fromkeys(row["state"] for row in rows):
        yield style.dim(f"{state}: {MEANINGS.get(state, '')}")


def part_cells(rows: list[dict[str, Any]], now: int) -> Iterator[tuple[str, ...]]:
    """Yield the cells of parts: number, address, state, age, reason."""
    for row in rows:
        reason = printable(row["reason"])
        yield str(row["id"]), printable(row["lane"]), row["state"], ago(row["created_at"], now), reason


def deliveries_show(arguments: Arguments) -> int:
    """Print one part with what its state means."""
    call = Call.of(arguments)
    row = ask(call, "tidegate.deliveries.show", id=arguments.id)
    call.show(row, lambda style: _part(row, style))
    return 0


def _part(row: dict[str, Any], style: Style) -> Iterator[str]:
    yield f"{style.bold(str(row['id']))}  to {printable(row['lane'])}, {ago(row['created_at'], time.time_ns() // 1000)}"
    yield f"{row['state']}: {MEANINGS.get(row['state'], '')}"
    if row["reason"]:
        yield f"reason: {printable(row['reason'])}"
    yield f"attempts: {row['attempt']}"
    if row["text"].strip():
        yield ""
        yield printable(row["text"])
