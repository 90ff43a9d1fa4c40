"""`tidegate gateway run`: the gateway in the foreground."""

from __future__ import annotations

import asyncio

from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.lifecycle import Life


def run(arguments: Arguments) -> int:
    """Run until SIGTERM or Ctrl-C."""
    call = Call.of(arguments)
    asyncio.run(Life(call.site, call.environ, json_lines=arguments.json).run())
    return 0
