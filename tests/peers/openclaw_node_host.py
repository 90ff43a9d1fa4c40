"""OpenClaw's node host: it is approved, asked for something, renamed, and refused what it may not be asked for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from peers.openclaw_cli import Step, run_step
from peers.packages import Peers
from peers.world import Outcome, Scene, client_environment, scene

CONNECT_SECONDS = 60.0


@asynccontextmanager
async def node_host(peers: Peers, there: Scene) -> AsyncIterator[None]:
    """Run the node host in the foreground until it says that it is connected, for the length of the block."""
    environment = {**client_environment(peers, there, "node"), "CI": "1", "OPENCLAW_GATEWAY_TOKEN": there.token}
    process = await asyncio.create_subprocess_exec(
        str(peers.node),
        str(peers.openclaw),
        *("node", "run", "--host", "127.0.0.1", "--port", str(there.port), "--display-name", "Shed"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
        cwd=environment["HOME"],
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            while line := await process.stdout.readline():
                if b"gateway connected" in line:
                    break
        async with asyncio.TaskGroup() as group:
            group.create_task(process.stdout.read())
            yield
            process.terminate()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()


async def _asked(peers: Peers, there: Scene, method: str) -> Any:
    """Return what a method answers, through the command line."""
    outcome = await run_step(peers, there, Step(("gateway", "call", method, "--params", "{}", "--json")))
    found = re.search(r"\{.*\}", outcome.shown, re.DOTALL)
    return json.loads(found[0]) if found else {}


async def outcomes(peers: Peers) -> AsyncIterator[Outcome]:
    """Let a node host in and use it."""
    async with scene() as there, node_host(peers, there):
        yield await run_step(peers, there, Step(("nodes", "pending"), r"Shed"))
        request = (await _asked(peers, there, "node.pair.list"))["pending"][0]["requestId"]
        yield await run_step(peers, there, Step(("nodes", "approve", request), r"approvedAtMs"))
        yield await run_step(peers, there, Step(("nodes", "status"), r"Known: 1 .* Connected: 1"))
        node = (await _asked(peers, there, "node.list"))["nodes"][0]["nodeId"]
        asks = ("nodes", "invoke", "--node", node, "--command")
        which = Step((*asks, "system.which", "--params", '{"bins":["sh"]}'), r'"sh": "/.*sh"')
        yield await run_step(peers, there, which)
        yield await run_step(peers, there, Step(("nodes", "rename", "--node", node, "--name", "Barn"), r"rename ok"))
        yield await run_step(peers, there, Step(("nodes", "describe", "--node", node), r"Barn.*system\.which"))
        refused = await run_step(peers, there, Step((*asks, "camera.snap", "--params", "{}")))
        is_refused = not refused.is_good and "requires explicit gateway.nodes.commands.allow" in refused.shown
        yield Outcome(f"{refused.name} (refused)", is_refused, refused.seconds, refused.shown)
        yield await run_step(peers, there, Step(("nodes", "remove", "--node", node), r""))
