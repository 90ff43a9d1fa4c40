"""`tidegate gateway run`: the gateway in the foreground."""

from __future__ import annotations

import asyncio
import sys

from tidegate.errors import TidegateError
from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.web_link import line, links
from tidegate.gateway.lifecycle import Life
from tidegate.gateway.plane.page_methods import PagedGateway, new_login


def run(arguments: Arguments) -> int:
    """Run until SIGTERM or Ctrl-C."""
    call = Call.of(arguments)
    asyncio.run(_run(Life(call.site, call.environ, json_lines=arguments.json)))
    return 0


async def _run(life: Life) -> None:
    """Run, and in a terminal tell where the web chat is; a log keeps no codes."""
    async with asyncio.TaskGroup() as group:
        told = group.create_task(_tell_link(life), name="web.link") if sys.stdout.isatty() else None
        try:
            await life.run()
        finally:
            if told is not None:
                told.cancel()


async def _tell_link(life: Life) -> None:
    await life.ready.wait()
    if life.gateway is not None and (link := await start_link(life.gateway)):
        print(link, flush=True)


async def start_link(gateway: PagedGateway) -> str:
    """Return the line with the link for who just started a gateway; empty when there is no page."""
    try:
        return line(links(await new_login(gateway))[0])
    except TidegateError:
        return ""
