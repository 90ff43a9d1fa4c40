"""What every peer meets: a gateway of ours in a process of its own, before a fake Telegram and a fake model."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fakes.fake_telegram import FakeTelegram
from harness.brain import Brain
from peers.packages import Peers

TELEGRAM_TOKEN = "7:peers"
START_SECONDS = 30
CONFIG = """{
  gateway: { nodes: { pairing: { autoApproveLocal: %(silently)s } } },
  commands: { ownerAllowFrom: ["telegram:1"] },
  agents: { defaults: { workspace: "%(state)s/workspace", model: { primary: "fake/model" } } },
  models: { providers: { fake: { baseUrl: "%(model)s", apiKey: "key-of-the-fake-model", api: "openai-completions",
    models: [{ id: "model", contextWindow: 100000 }] } } },
  channels: { telegram: { botToken: "%(token)s", apiRoot: "%(telegram)s" } },
}
"""


@dataclass(frozen=True)
class Scene:
    """A running gateway.

    Attributes:
        folder: Where its state is, and where clients may keep theirs.
        token: The shared secret that it made at its first start.
    """

    folder: Path
    pid: int
    port: int
    token: str
    brain: Brain

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"ws://127.0.0.1:{self.port}"


@asynccontextmanager
async def scene(*, silently: bool = True) -> AsyncIterator[Scene]:
    """Run a gateway.

    Args:
        silently: New devices of this machine are approved without a person.
    """
    with tempfile.TemporaryDirectory(prefix="tgp", dir="/tmp") as folder:
        state = Path(folder) / "state"
        state.mkdir(mode=0o700)
        async with Brain() as brain, FakeTelegram(TELEGRAM_TOKEN) as telegram:
            values = {"state": state, "model": brain.url, "telegram": telegram.base, "token": TELEGRAM_TOKEN}
            config = CONFIG % {**values, "silently": json.dumps(silently)}
            (state / "tidegate.json5").write_text(config)
            async with _gateway(state) as (pid, port):
                yield Scene(Path(folder), pid, port, (state / "gateway.token").read_text().strip(), brain)


@asynccontextmanager
async def _gateway(state: Path) -> AsyncIterator[tuple[int, int]]:
    words = ("gateway", "run", "--state-dir", str(state), "--config", str(state / "tidegate.json5"), "--port", "0")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tidegate",
        *words,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "HOME": str(state), "NO_COLOR": "1"},
    )
    assert process.stderr is not None
    try:
        port = await _ready(process.stderr)
        async with asyncio.TaskGroup() as group:
            # A pipe that nobody reads would stop the gateway.
            group.create_task(process.stderr.read())
            yield process.pid, port
            process.terminate()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        await process.wait()


async def _ready(log: asyncio.StreamReader) -> int:
    lines: list[str] = []
    async with asyncio.timeout(START_SECONDS):
        while line := (await log.readline()).decode():
            lines.append(line)
            if found := re.search(r"gateway\.ready.*port=(\d+)", line):
                return int(found[1])
    raise RuntimeError("the gateway did not start:\n" + "".join(lines))


def client_environment(peers: Peers, scene: Scene, home: str) -> dict[str, str]:
    """Return the environment of an OpenClaw client that has a home of its own and was told where our gateway is."""
    state = scene.folder / home / ".openclaw"
    if not state.exists():
        state.mkdir(parents=True)
        remote = {"url": scene.url, "token": scene.token}
        settings = {"gateway": {"mode": "remote", "remote": remote}, "update": {"checkOnStart": False}}
        (state / "openclaw.json").write_text(json.dumps(settings))
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "PATH": f"{peers.node.parent}:{os.environ['PATH']}",
        "HOME": str(scene.folder / home),
        "OPENCLAW_STATE_DIR": str(state),
        "OPENCLAW_CONFIG_PATH": str(state / "openclaw.json"),
        "NO_COLOR": "1",
    }


@dataclass(frozen=True)
class Outcome:
    """What became of one thing that a peer was made to do.

    Attributes:
        shown: What it printed, for whoever looks into a failure.
    """

    name: str
    is_good: bool
    seconds: float
    shown: str = ""
