"""`tidegate tui`: the full-screen chat."""

from __future__ import annotations

import asyncio
import contextlib

from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.chat import is_interactive
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.remote import Entry, once, with_secret
from tidegate.gateway.client.connection import Connection
from tidegate.gateway.client.dial import Door
from tidegate.gateway.client.errors import NotPaired, Refused
from tidegate.gateway.program import hint
from tidegate.gateway.tui.app import TerminalApp
from tidegate.gateway.tui.feed import KIND


def tui(arguments: Arguments) -> int:
    """Show the full-screen chat until somebody leaves."""
    call = Call.of(arguments)
    if not is_interactive():
        raise Refused(f"the full-screen chat needs a terminal; {hint('chat --once TEXT')} does not")
    door = _come_in(call)
    asyncio.run(TerminalApp(door, session=arguments.session or "", colour=call.style.colour).run())
    return 0


def _come_in(call: Call) -> Door:
    """Connect once before the terminal is taken: a secret can be asked for, a refusal is one line.

    A device that has to be approved sees that on the screen, which goes on by itself then.
    """

    async def nothing(_: Connection) -> None:
        return None

    entry = Entry(call, KIND)
    with contextlib.suppress(NotPaired):
        with_secret(entry, lambda: once(entry, nothing))
    return entry.door
