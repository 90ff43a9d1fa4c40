"""OpenClaw's command line: every command that talks to a gateway, one after another."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from peers.packages import Peers
from peers.world import Outcome, Scene, client_environment, scene

COMMAND_SECONDS = 90.0


@dataclass(frozen=True)
class Step:
    """One command: its words, and what its output has to match."""

    words: tuple[str, ...]
    expects: str = ""


STEPS = (
    Step(("gateway", "health"), r"OK"),
    Step(("health",), r"Telegram: configured"),
    Step(("status",), r"OpenClaw status"),
    Step(("status", "--json"), r'"runtimeVersion"'),
    Step(("status", "--deep"), r"OpenClaw status"),
    Step(("status", "--all"), r"OpenClaw status"),
    Step(("gateway", "probe"), r"Reachable: yes"),
    Step(("agent", "--agent", "main", "--message", "hello there"), r"echo: hello there"),
    Step(("agent", "--agent", "main", "--session-id", "s1", "--message", "json please", "--json"), r'"status": "ok"'),
    Step(("gateway", "call", "sessions.list", "--params", '{"limit":20}'), r"agent:main:explicit:s1"),
    Step(("message", "send", "--channel", "telegram", "--target", "12345", "--message", "hi"), r"Message ID"),
    Step(("channels", "status"), r"Telegram default .*connected"),
    Step(("channels", "list"), r"Chat channels"),
    Step(("cron", "list"), r"No automations"),
    Step(("cron", "status"), r'"jobs": 0'),
    Step(("approvals", "get", "--gateway"), r"Approvals"),
    Step(("approvals", "allowlist", "add", "--gateway", "/usr/bin/uptime"), r"uptime"),
    Step(("models", "list"), r"fake/model"),
    Step(("nodes", "status"), r"Known: 0"),
    Step(("nodes", "list"), r"Pending: 0"),
    Step(("nodes", "pending"), r""),
    Step(("logs", "--limit", "20"), r"turn\.ended"),
    Step(("skills", "list"), r"No skills"),
    Step(("system", "presence"), r'"mode": "gateway"'),
    Step(("system", "heartbeat", "last"), r"null"),
    Step(("system", "event", "--text", "look here", "--mode", "now"), r"ok"),
    Step(("gateway", "usage-cost"), r"tokens"),
    Step(("gateway", "stability"), r"Events: 0"),
    Step(("devices", "list"), r""),
)


async def run_step(peers: Peers, there: Scene, step: Step, home: str = "cli") -> Outcome:
    """Run one command to its end; it is good when it ends with 0 and says what it should."""
    began = asyncio.get_running_loop().time()
    environment = {**client_environment(peers, there, home), "CI": "1"}
    process = await asyncio.create_subprocess_exec(
        str(peers.node),
        str(peers.openclaw),
        *step.words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
        cwd=environment["HOME"],
    )
    try:
        async with asyncio.timeout(COMMAND_SECONDS):
            shown, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        shown, _ = await process.communicate()
    text = shown.decode("utf-8", "replace")
    is_good = process.returncode == 0 and re.search(step.expects, text, re.IGNORECASE | re.DOTALL) is not None
    seconds = asyncio.get_running_loop().time() - began
    return Outcome(f"openclaw {' '.join(step.words)}", is_good, seconds, f"exit code {process.returncode}\n{text}")


async def outcomes(peers: Peers) -> AsyncIterator[Outcome]:
    """Run every command against a fresh gateway."""
    async with scene() as there:
        for step in STEPS:
            yield await run_step(peers, there, step)
