"""The accounts that a configuration asks for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from fakes.connected_bot import Told
from fakes.event_loop import on_loop
from tidegate.adapters.registry import AccountSpec, AdapterServices, configured_accounts
from tidegate.clock import SystemClock
from tidegate.config.load import load_config
from tidegate.errors import AdapterConfigError

CONFIGS = Path(__file__).parents[3] / "data" / "configs"


def specs(path: Path, environ: Mapping[str, str], state: Path) -> dict[str, AccountSpec]:
    loaded = load_config(path, environ=environ, state_dir=state)
    services = AdapterServices(cast("aiohttp.ClientSession", None), SystemClock(), state)
    return {spec.account: spec for spec in configured_accounts(loaded, services)}


def written(tmp_path: Path, telegram: str) -> Path:
    path = tmp_path / "tidegate.json5"
    path.write_text(
        f"{{ agents: {{ list: [{{ id: 'main', default: true }}] }}, channels: {{ telegram: {telegram} }} }}"
    )
    return path


@pytest.mark.parametrize(
    ("name", "accounts"),
    [("telegram-one-bot", ["default"]), ("telegram-two-bots", ["home", "work"]), ("telegram-webhook", ["default"])],
)
def test_the_examples_ask_for_the_bots_they_name(tmp_path: Path, name: str, accounts: list[str]) -> None:
    assert (
        sorted(specs(CONFIGS / f"{name}.json5", {"TELEGRAM_BOT_TOKEN": "1:A", "HOME": str(tmp_path)}, tmp_path))
        == accounts
    )


def test_a_bot_that_is_switched_off_is_no_account(tmp_path: Path) -> None:
    config = "{ botToken: '1:A', accounts: { off: { botToken: '2:B', enabled: false } } }"
    assert sorted(specs(written(tmp_path, config), {}, tmp_path)) == ["default"]
    assert specs(written(tmp_path, "{ enabled: false, botToken: '1:A' }"), {}, tmp_path) == {}


@pytest.mark.parametrize(
    "change",
    ["botToken: '1:B'", "apiRoot: 'http://x'", "textChunkLimit: 100", "proxy: 'http://p'", "markdown: {tables: 'off'}",
     "webhookUrl: 'https://x/y', webhookSecret: 's'", "linkPreview: false", "reactionNotifications: 'off'"],
)  # fmt: skip
def test_what_matters_for_the_connection_changes_the_fingerprint(tmp_path: Path, change: str) -> None:
    base = specs(written(tmp_path, "{ botToken: '1:A' }"), {}, tmp_path)["default"].fingerprint
    same = specs(written(tmp_path, "{ botToken: '1:A', dmPolicy: 'open', allowFrom: ['*'] }"), {}, tmp_path)
    token = "" if change.startswith("botToken") else "botToken: '1:A', "
    other = specs(written(tmp_path, f"{{ {token}{change} }}"), {}, tmp_path)["default"].fingerprint
    assert same["default"].fingerprint == base
    assert other != base
    assert "1:A" not in base


def test_text_is_rendered_as_configured_without_a_connection(tmp_path: Path) -> None:
    spec = specs(written(tmp_path, "{ botToken: '1:A', textChunkLimit: 10 }"), {}, tmp_path)["default"]
    assert [part.plain for part in spec.render("one two three")] == ["one two", "three"]


async def entering(spec: AccountSpec) -> str:
    """Return why a bot cannot be connected."""
    with pytest.raises(AdapterConfigError) as raised:
        await spec.build(Told().hooks()).__aenter__()
    return str(raised.value)


@pytest.mark.parametrize(
    ("telegram", "words"),
    [
        ("{ enabled: true }", "TELEGRAM_BOT_TOKEN"),
        ("{ botToken: '${NOWHERE}' }", "NOWHERE"),
        ("{ tokenFile: '/nowhere/token' }", "cannot be read"),
        ("{ botToken: 'gibberish' }", "not of the form"),
        ("{ accounts: { work: {} } }", "BotFather"),
    ],
)
@on_loop
async def test_a_token_that_cannot_be_had_says_what_to_do(tmp_path: Path, telegram: str, words: str) -> None:
    (spec,) = specs(written(tmp_path, telegram), {}, tmp_path).values()
    assert words in await entering(spec)


@on_loop
async def test_a_token_file_must_be_private(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("1:A\n")
    os.chmod(token, 0o644)
    spec = specs(written(tmp_path, f"{{ tokenFile: '{token}' }}"), {}, tmp_path)["default"]
    assert "chmod 600" in await entering(spec)


def test_the_token_of_the_environment_is_that_of_the_default_bot(tmp_path: Path) -> None:
    options: dict[str, Any] = specs(written(tmp_path, "{ enabled: true }"), {"TELEGRAM_BOT_TOKEN": "1:A"}, tmp_path)
    assert list(options) == ["default"]
