"""`tidegate channels status`: how each channel and account stands."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.rpc import ask
from tidegate.gateway.cli.status import COLOURS
from tidegate.gateway.cli.terminal import Style, ago, printable, table
from tidegate.gateway.program import hint


def channels_status(arguments: Arguments) -> int:
    """Print every account; 1 when one needs a person."""
    call = Call.of(arguments)
    data = ask(call, "channels.status")
    call.show(data, lambda style: _channels(data, style))
    return 1 if data.get("statusIssues") else 0


def _channels(data: dict[str, Any], style: Style) -> Iterator[str]:
    accounts = data.get("channelAccounts") or {}
    if not accounts:
        # Nothing that would put the token into the history of a shell.
        yield "no channel is configured; for Telegram write a line TELEGRAM_BOT_TOKEN=… into .env in the gateway's"
        yield f"state directory (~/.tidegate), then {hint('config set channels.telegram.enabled true')}"
        return
    now = time.time_ns() // 1000
    cells = [
        (
            printable(f"{channel}/{row['accountId']}"),
            printable(str(row.get("name") or "")),
            _state(row, style),
            ago(int(row.get("lastInboundAt") or 0) * 1000, now),
            printable(str(row.get("lastError") or "")),
        )
        for channel, rows in accounts.items()
        for row in rows
    ]
    yield from table(style, ("ACCOUNT", "NAME", "STATE", "ALIVE", "REASON"), cells)


def _state(row: dict[str, Any], style: Style) -> str:
    """Return the state in the word that `status` uses; from a gateway that tells none, what its marks say."""
    usual = "up" if row.get("connected") else "connecting" if row.get("running") else "stopped"
    state = printable(str(row.get("healthState") or usual))
    return style.paint(state, COLOURS.get(state, "yellow"))
