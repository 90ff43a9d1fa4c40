"""`tidegate up`: the gateway and, in a terminal, a chat with the agent."""

from __future__ import annotations

import asyncio

from tidegate.gateway.cli.call import URL_VARIABLE, Call, warn
from tidegate.gateway.cli.chat import is_interactive
from tidegate.gateway.cli.conversation import GREETING, Conversation
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.rpc import running_pid
from tidegate.gateway.cli.run import start_link
from tidegate.gateway.http.server import PortTaken
from tidegate.gateway.lifecycle import Life
from tidegate.gateway.lock import AlreadyRunning
from tidegate.gateway.program import hint


def up(arguments: Arguments) -> int:
    """Start the gateway, or attach to the one that runs."""
    call = Call.of(arguments)
    try:
        return _up(call)
    except* PortTaken as group:
        # Through a tunnel the port of the gateway elsewhere is taken here.
        if call.environ.get(URL_VARIABLE, "").strip():
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            raise PortTaken(f"{error} {URL_VARIABLE} is set: did you mean {hint('chat')}?") from None
        raise


def _up(call: Call) -> int:
    if not is_interactive():
        asyncio.run(Life(call.site, call.environ, json_lines=call.arguments.json).run())
        return 0
    pid = running_pid(call.site)
    if pid is None:
        try:
            asyncio.run(_run_with_chat(call))
            return 0
        except* AlreadyRunning as group:
            pid = next((error.pid for error in group.exceptions if isinstance(error, AlreadyRunning)), 0)
    _attach(call, pid)
    return 0


def _attach(call: Call, pid: int) -> None:
    greeting = f"A gateway runs already (pid {pid}); this chat is attached to it. Leaving does not stop it.\n{GREETING}"
    asyncio.run(Conversation(call.site, call.style).run(greeting))


async def _run_with_chat(call: Call) -> None:
    """Run both; whichever ends first ends the other, the gateway in order."""
    life = Life(call.site, call.environ, console=False)
    async with asyncio.TaskGroup() as group:
        gateway = group.create_task(life.run(), name="gateway")
        waiting = group.create_task(life.ready.wait(), name="gateway.ready")
        await asyncio.wait([gateway, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if gateway.done():
            return
        chat = Conversation(call.site, call.style)
        gateway.add_done_callback(lambda _: chat.leave())
        link = await start_link(life.gateway) if life.gateway is not None else ""
        await chat.run(_greeting(life, link))
        if not gateway.done():
            warn("stopping the gateway; running answers may end first (Ctrl-C: at once)")
            life.stop()


def _greeting(life: Life, link: str) -> str:
    port = life.gateway.port if life.gateway is not None else 0
    lines = (f"Tidegate is up on port {port}; {hint('logs')} shows its log.", link, GREETING)
    return "\n".join(filter(None, lines))
