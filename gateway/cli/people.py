"""`tidegate pairing`: who asked to be let in, and the answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tidegate.config.sections.channels import AVAILABLE_CHANNELS
from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.parser import Arguments, guess
from tidegate.gateway.cli.rpc import ask
from tidegate.gateway.cli.terminal import Style, printable, table
from tidegate.gateway.client.errors import Refused
from tidegate.gateway.program import command


def pairing_list(arguments: Arguments) -> int:
    """Print the pending requests."""
    call = Call.of(arguments)
    rows = ask(call, "tidegate.pairing.list", channel=_channel(arguments.channel or ""))
    call.show(rows, lambda style: _requests(rows, style))
    return 0


def _requests(rows: list[dict[str, Any]], style: Style) -> Iterator[str]:
    if not rows:
        yield "nobody waits to be let in"
        return
    now = time.time_ns() // 1000
    heads = ("CHANNEL", "CODE", "SENDER", "NAME", "EXPIRES IN")
    cells = [
        (
            f"{row['channel']}/{row['account']}",
            style.bold(row["code"]),
            printable(row["sender"]),
            printable(row["name"]),
            f"{max(0, row['expires_at'] - now) // 60_000_000} min",
        )
        for row in rows
    ]
    yield from table(style, heads, cells)
    yield ""
    yield style.dim(command(["pairing", "approve", rows[0]["channel"], rows[0]["code"]]))


def pairing_approve(arguments: Arguments) -> int:
    """Let somebody in."""
    call = Call.of(arguments)
    done = ask(
        call,
        "tidegate.pairing.approve",
        channel=_channel(arguments.channel),
        code=arguments.code,
        notify=not arguments.quiet,
    )
    owner = " and is now the owner" if done["owner"] else ""
    call.show(done, lambda _: [f"{_who(done)} may talk to the agent on {done['channel']}{owner}"])
    return 0


def pairing_reject(arguments: Arguments) -> int:
    """Forget a request."""
    call = Call.of(arguments)
    done = ask(call, "tidegate.pairing.reject", channel=_channel(arguments.channel), code=arguments.code)
    call.show(done, lambda _: [f"the request of {_who(done)} on {done['channel']} is gone"])
    return 0


def _channel(text: str) -> str:
    """Return `telegram` or `telegram/default` as it is kept. Raises Refused for a channel that does not exist."""
    channel = text.strip().lower()
    name = channel.partition("/")[0]
    if name and name not in AVAILABLE_CHANNELS:
        known = ", ".join(sorted(AVAILABLE_CHANNELS))
        raise Refused(f"there is no channel {name!r}{guess(name, AVAILABLE_CHANNELS)}; channels are {known}")
    return channel


def _who(done: dict[str, Any]) -> str:
    return printable(f"{done['name']} ({done['sender']})" if done["name"] else done["sender"])
