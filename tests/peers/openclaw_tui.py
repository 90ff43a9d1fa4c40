"""OpenClaw's terminal UI: it waits for its pairing, is approved, chats, aborts, and lists sessions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

from harness.brain import Answer, Ask
from peers.openclaw_cli import Step, run_step
from peers.packages import Peers
from peers.terminal import in_terminal
from peers.world import Outcome, client_environment, scene

REQUEST = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


async def think(ask: Ask) -> Answer:
    """Answer shortly, or with so much that there is time to abort."""
    if "long" in ask.last:
        return "words " * 4_000
    return f"echo: {ask.last}"


async def outcomes(peers: Peers) -> AsyncIterator[Outcome]:
    """Go through a whole visit."""
    async with scene(silently=False) as there:
        there.brain.think = think
        there.brain.pace = 0.02
        words = (str(peers.node), str(peers.openclaw), "tui", "--url", there.url, "--token", there.token)
        environment = client_environment(peers, there, "tui")
        clock = asyncio.get_running_loop().time
        async with in_terminal(words, environment, there.folder) as tui:
            began = clock()

            def outcome(name: str, is_good: bool) -> Outcome:
                nonlocal began
                seconds, began = clock() - began, clock()
                return Outcome(f"openclaw tui: {name}", is_good, seconds, tui.text)

            asked = await tui.until(lambda text: REQUEST.search(text) is not None)
            yield outcome("is told to wait for its pairing", asked)
            found = REQUEST.search(tui.text)
            if found is None:
                return
            listed = await run_step(peers, there, Step(("devices", "list"), found[0]))
            yield listed
            approved = await run_step(peers, there, Step(("devices", "approve", found[0]), r"Approved"))
            yield approved
            yield outcome(
                "connects when it was approved", await tui.until(lambda text: "gateway connected | idle" in text)
            )
            tui.press("hello from the terminal")
            await tui.until(lambda text: "hello from the terminal" in text)
            tui.press("\r")
            answered = await tui.until(lambda text: "echo: hello from the terminal" in text)
            yield outcome("shows the answer of a turn", answered)
            tui.press("a long one, please")
            await tui.until(lambda text: "a long one, please" in text)
            tui.press("\r")
            streaming = await tui.until(lambda text: "words words words" in text)
            yield outcome("shows an answer while it is written", streaming)
            tui.press("\x1b")
            aborted = await tui.until(lambda text: "run aborted" in text and "connected | aborted" in text)
            yield outcome("aborts it", aborted)
            tui.press("/sessions")
            await tui.until(lambda text: "/sessions" in text)
            tui.press("\r")
            sessions = await tui.until(lambda text: "Filter:" in text and "hello from the terminal (main)" in text)
            yield outcome("lists the sessions", sessions)
