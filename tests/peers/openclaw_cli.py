"""Drives a real gateway of ours with OpenClaw's own command line, and prints what became of each command.

    python tests/peers/openclaw_cli.py [--cache FOLDER]

Installs npm packages into a cache folder when they are not there (some minutes, once). Ends with 0 when every
command ended with 0 and said what it should, with 77 when npm cannot be reached, else with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fakes.fake_telegram import FakeTelegram
from harness.brain import Brain

OPENCLAW = "openclaw@2026.9.6"
NODE = "node@24"
CACHE = Path(os.environ.get("TIDEGATE_PEERS", Path.home() / ".cache" / "tidegate" / "peers"))
TOKEN = "7:peers"
INSTALL_SECONDS = 900
COMMAND_SECONDS = 90.0
CONFIG = """{
  commands: { ownerAllowFrom: ["telegram:1"] },
  agents: { defaults: { workspace: "%(state)s/workspace", model: { primary: "fake/model" } } },
  models: { providers: { fake: { baseUrl: "%(model)s", apiKey: "key-of-the-fake-model", api: "openai-completions",
    models: [{ id: "model", contextWindow: 100000 }] } } },
  channels: { telegram: { botToken: "%(token)s", apiRoot: "%(telegram)s" } },
}
"""


class Unreachable(Exception):
    """The packages cannot be fetched here."""


@dataclass(frozen=True)
class Peer:
    """An installed OpenClaw.

    Attributes:
        node: The Node binary.
        script: Its command line.
    """

    node: Path
    script: Path


@dataclass(frozen=True)
class Step:
    """One command: its words, and what its output has to match."""

    words: tuple[str, ...]
    expects: str = ""


@dataclass(frozen=True)
class Outcome:
    """What became of a step."""

    step: Step
    code: int
    output: str
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether it ended well and said what it should."""
        return self.code == 0 and re.search(self.step.expects, self.output, re.IGNORECASE | re.DOTALL) is not None


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


def install(cache: Path) -> Peer:
    """Install Node and OpenClaw below a folder unless they are there. Raises Unreachable."""
    node = cache / "node" / "node_modules" / ".bin" / "node"
    script = cache / "openclaw" / "node_modules" / "openclaw" / "openclaw.mjs"
    npm = shutil.which("npm")
    for folder, package, made, more in (
        (cache / "node", NODE, node, ()),
        # Its install scripts refuse an older Node than the one that runs npm; they are not needed.
        (cache / "openclaw", OPENCLAW, script, ("--ignore-scripts",)),
    ):
        if made.exists():
            continue
        if npm is None:
            raise Unreachable("npm is not installed")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n')
        print(f"installing {package} into {folder} ...", flush=True)
        try:
            subprocess.run(
                [npm, "install", "--no-audit", "--no-fund", *more, package],
                cwd=folder,
                check=True,
                capture_output=True,
                text=True,
                timeout=INSTALL_SECONDS,
            )
        except subprocess.CalledProcessError as error:
            raise Unreachable(f"{package} cannot be installed: {error.stderr.strip()[-300:]}") from error
        except subprocess.TimeoutExpired as error:
            raise Unreachable(f"{package} took longer than {INSTALL_SECONDS} s") from error
    return Peer(node, script)


@asynccontextmanager
async def gateway(state: Path) -> AsyncIterator[int]:
    """Run a gateway of ours with a fake model and a fake Telegram; yields its port."""
    async with Brain() as model, FakeTelegram(TOKEN) as telegram:
        values = {"state": state, "model": model.url, "telegram": telegram.base, "token": TOKEN}
        (state / "tidegate.json5").write_text(CONFIG % values)
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
            port, lines = 0, []
            async with asyncio.timeout(30):
                while not port:
                    line = (await process.stderr.readline()).decode()
                    if not line:
                        raise RuntimeError("the gateway did not start:\n" + "".join(lines))
                    lines.append(line)
                    found = re.search(r"gateway\.ready.*port=(\d+)", line)
                    port = int(found[1]) if found else 0
            async with asyncio.TaskGroup() as group:
                # A pipe that nobody reads would stop the gateway.
                group.create_task(process.stderr.read())
                yield port
                process.terminate()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
            await process.wait()


class Client:
    """OpenClaw's command line, pointed at a gateway."""

    def __init__(self, peer: Peer, home: Path, port: int, token: str) -> None:
        self._peer = peer
        state = home / ".openclaw"
        state.mkdir(parents=True)
        remote = {"url": f"ws://127.0.0.1:{port}", "token": token}
        settings = {"gateway": {"mode": "remote", "remote": remote}, "update": {"checkOnStart": False}}
        (state / "openclaw.json").write_text(json.dumps(settings))
        kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        self._env = {
            **kept,
            "PATH": f"{peer.node.parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "OPENCLAW_STATE_DIR": str(state),
            "OPENCLAW_CONFIG_PATH": str(state / "openclaw.json"),
            "NO_COLOR": "1",
            "CI": "1",
        }

    async def run(self, step: Step) -> Outcome:
        """Run one command to its end."""
        began = asyncio.get_running_loop().time()
        process = await asyncio.create_subprocess_exec(
            str(self._peer.node),
            str(self._peer.script),
            *step.words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._env,
            cwd=self._env["HOME"],
        )
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            output, _ = await process.communicate()
        seconds = asyncio.get_running_loop().time() - began
        return Outcome(step, process.returncode or 0, output.decode("utf-8", "replace"), seconds)


async def run_all(peer: Peer, steps: Sequence[Step] = STEPS) -> list[Outcome]:
    """Run every command against a fresh gateway, one after another."""
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="tgp", dir="/tmp") as folder:
        state = Path(folder) / "state"
        state.mkdir(mode=0o700)
        async with gateway(state) as port:
            token = (state / "gateway.token").read_text().strip()
            client = Client(peer, Path(folder) / "home", port, token)
            for step in steps:
                outcome = await client.run(step)
                outcomes.append(outcome)
                mark = "ok " if outcome.is_good else "BAD"
                print(f"{mark} {outcome.code:>3} {outcome.seconds:5.1f} s  openclaw {' '.join(step.words)}", flush=True)
                if not outcome.is_good:
                    print("    " + outcome.output.strip()[-1500:].replace("\n", "\n    "), flush=True)
    return outcomes


def main() -> int:
    """Install, run, print; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cache", type=Path, default=CACHE, help="where npm packages are kept")
    arguments = parser.parse_args()
    try:
        peer = install(arguments.cache)
    except Unreachable as error:
        print(f"skipped: {error}")
        return 77
    outcomes = asyncio.run(run_all(peer))
    good = sum(outcome.is_good for outcome in outcomes)
    print(f"{good} of {len(outcomes)} commands are good")
    return 0 if good == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
