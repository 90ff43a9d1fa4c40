"""Accounts of channels that operators stop, start and log out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fakes.event_loop import on_loop
from harness.platform import CHANNEL, Platform, PlatformAdapter, render
from plane.talking import talking
from tidegate.adapters.base import AdapterHooks
from tidegate.adapters.registry import AccountSpec


@dataclass
class Lingering(Platform):
    """A platform whose connections take their time to end."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.may_end = asyncio.Event()
        self.open = 0
        self.most_open = 0

    def spec(self) -> AccountSpec:
        return AccountSpec(CHANNEL, self.account, lambda hooks: LingeringAdapter(self, hooks), render, "1")


class LingeringAdapter(PlatformAdapter):
    def __init__(self, platform: Lingering, hooks: AdapterHooks) -> None:
        super().__init__(platform, hooks)
        self._lingering = platform

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._lingering.open += 1
        self._lingering.most_open = max(self._lingering.most_open, self._lingering.open)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._lingering.may_end.wait()
        self._lingering.open -= 1
        self._lingering.changed()


@on_loop
async def test_an_account_is_connected_again_only_when_its_older_connection_has_ended(tmp_path: Path) -> None:
    platform = Lingering()
    async with talking(tmp_path, platform=platform) as talk:
        await platform.until(lambda: platform.open == 1)
        other = await talk.connect()
        await talk.client.socket.send_json(
            {"type": "req", "id": "stop", "method": "channels.stop", "params": {"channel": "telegram"}}
        )
        await platform.until(lambda: not talk.gateway.accounts.is_supervised("telegram", "default"))
        answer = await other.call("channels.start", {"channel": "telegram"})
        assert answer["payload"]["started"] is True
        await asyncio.sleep(0)
        assert (platform.connects, platform.open) == (1, 1)
        platform.may_end.set()
        assert (await talk.client.answer("stop"))["payload"]["stopped"] is True
        await platform.until(lambda: platform.connects == 2)
        assert platform.most_open == 1
        row = (await talk.ok("channels.status"))["channelAccounts"]["telegram"][0]
        assert row["running"] is True


@on_loop
async def test_logging_out_takes_the_token_out_of_the_file_and_nothing_else(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        before = talk.stage.config_path.read_text()
        assert 'botToken: "1:T"' in before
        done = await talk.ok("channels.logout", channel="telegram")
        assert done == {
            "channel": "telegram",
            "accountId": "default",
            "cleared": True,
            "loggedOut": True,
            "envToken": False,
        }
        after = talk.stage.config_path.read_text()
        assert "botToken" not in after
        assert 'dmPolicy: "open"' in after
        row = (await talk.ok("channels.status"))["channelAccounts"]["telegram"][0]
        assert row["running"] is False
        assert (await talk.ok("channels.logout", channel="telegram"))["cleared"] is False
        assert talk.stage.config_path.read_text() == after
        error = await talk.error("channels.logout", channel="telegram", accountId="nobody")
        assert "nobody" in error["message"]
