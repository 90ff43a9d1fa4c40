"""`tidegate channels status`: how each channel and account stands."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.rpc import ask
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
        yield f"no channel is configured; {hint('config set channels.telegram.botToken TOKEN')} adds Telegram"
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
    if row.get("connected"):
        return style.paint("up", "green")
    return style.paint("connecting", "yellow") if row.get("running") else style.paint("stopped", "red")
