"""Builds and runs a whole gateway for a test, and takes it down and up again over the same state."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness.brain import Brain
from harness.platform import Platform
from tidegate.config.load import load_config
from tidegate.faults import Faults
from tidegate.gateway.app import Gateway, Site, open_gateway
from tidegate.sessions.wakeups import Wakeups

OWNER = "1"
CONFIG = """{
  commands: { ownerAllowFrom: ["telegram:%(owner)s"] },
  agents: { defaults: { userTimezone: "UTC", model: { primary: "fake/model" } } },
  models: { providers: { fake: { baseUrl: "%(url)s", apiKey: "secret-key-of-the-model", api: "openai-completions",
    models: [{ id: "model", contextWindow: 100000 }] } } },
  channels: { telegram: { botToken: "1:T", dmPolicy: "open", allowFrom: ["*"], replyToMode: "off",
    streaming: { mode: "off" }, groupPolicy: "open" } },
  %(more)s
}
"""


class Stage:
    """Where a gateway plays: state directory, platforms, model."""

    def __init__(self, state_dir: Path, model: Brain, platforms: Sequence[Platform], more: str = "") -> None:
        self.state_dir = state_dir
        self.brain = model
        self.platforms = list(platforms)
        self.config_path = state_dir / "tidegate.json"
        self.write_config(more)

    @property
    def platform(self) -> Platform:
        """The first platform."""
        return self.platforms[0]

    def write_config(self, more: str = "", text: str | None = None) -> None:
        """Write the configuration file; `more` is put into the standard one."""
        values = {"owner": OWNER, "url": self.brain.url, "more": more}
        self.config_path.write_text(text if text is not None else CONFIG % values)

    @asynccontextmanager
    async def gateway(
        self, *, wakeups: Wakeups | None = None, drain: bool = True, port: int = 0
    ) -> AsyncIterator[Gateway]:
        """Run a gateway for the length of the block. Without `drain` it is cut off, as in a crash."""
        loaded = load_config(self.config_path, environ={"HOME": str(self.state_dir)}, state_dir=self.state_dir)
        site = Site(self.state_dir, self.config_path, port=port)
        specs = [platform.spec() for platform in self.platforms]
        stop = asyncio.Event()
        async with open_gateway(site, loaded, Faults(), wakeups=wakeups, accounts=lambda *_: specs) as gateway:
            async with asyncio.TaskGroup() as group:
                running = group.create_task(gateway.run(stop))
                await gateway.ready.wait()
                try:
                    yield gateway
                finally:
                    if drain:
                        stop.set()
                    else:
                        running.cancel()

    def rows(self, sql: str) -> list[Any]:
        """Return rows of the store."""
        connection = sqlite3.connect(f"file:{self.state_dir / 'tidegate.db'}?mode=ro", uri=True)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()


@asynccontextmanager
async def stage(state_dir: Path, *platforms: Platform, more: str = "") -> AsyncIterator[Stage]:
    """Set a stage with a model server that echoes unless told otherwise."""
    async with Brain() as model:
        yield Stage(state_dir, model, platforms or [Platform()], more)
