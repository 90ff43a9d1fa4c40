"""The library `openclaw-node`: pairs as a device, streams a turn, and asks a few things."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator

from peers.packages import Peers
from peers.world import Outcome, scene

SECONDS = 60.0
PROGRAM = """
import { OpenClawClient } from "openclaw-node";
const [url, token, identity] = process.argv.slice(2);
const client = new OpenClawClient({ url, token, autoReconnect: false, deviceIdentityPath: identity });
await client.connect();
const kinds = [];
let text = "";
for await (const piece of client.chat("hello library")) {
  kinds.push(piece.type);
  if (piece.type === "text") text += piece.text;
}
const sessions = await client.sessions.list({ limit: 5 });
const config = await client.config.get();
const channels = await client.channels.status();
await client.disconnect();
console.log(JSON.stringify({ kinds, text, sessions: sessions.sessions.map((row) => row.key),
  valid: config.valid, channels: Object.keys(channels.channels) }));
process.exit(0);
"""


async def outcomes(peers: Peers) -> AsyncIterator[Outcome]:
    """Run the program once."""
    script = peers.library / "turn.mjs"
    script.write_text(PROGRAM)
    async with scene() as there:
        began = asyncio.get_running_loop().time()
        there.brain.pace = 0.02
        process = await asyncio.create_subprocess_exec(
            str(peers.node),
            str(script),
            there.url,
            there.token,
            str(there.folder / "identity.json"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"PATH": os.environ["PATH"], "HOME": str(there.folder)},
            cwd=peers.library,
        )
        try:
            async with asyncio.timeout(SECONDS):
                shown, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            shown, _ = await process.communicate()
        text = shown.decode("utf-8", "replace")
        seconds = asyncio.get_running_loop().time() - began
        yield Outcome("openclaw-node: connect, stream a turn, lists", _is_good(text), seconds, text)


def _is_good(text: str) -> bool:
    try:
        said = json.loads(text.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return False
    kinds = said["kinds"]
    return (
        (kinds[0], kinds[-1]) == ("agent_start", "done")
        and kinds.count("text") >= 2
        and said["text"] == "echo: hello library"
        and said["sessions"] == ["agent:main:main"]
        and said["valid"] is True
        and "telegram" in said["channels"]
    )
