from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.config.load import load_config
from tidegate.config.paths import parse_path
from tidegate.config.view import MASK, redacted, value_at

DATA = {
    "gateway": {"port": 1, "auth": {"token": "hush", "password": "${PW}"}},
    "env": {"vars": {"A": "hush"}},
    "models": {
        "providers": {
            "x": {
                "apiKey": {"source": "env", "provider": "default", "id": "KEY"},
                "headers": {"X-Org": "hush"},
                "models": [{"maxTokens": 5, "id": "m"}],
            }
        }
    },
    "channels": {
        "telegram": {
            "botToken": "1:hush",
            "tokenFile": "/run/token",
            "proxy": "socks5://me:hush@proxy:1",
            "allowFrom": ["1"],
        }
    },
    "note": "the bot 123456:AAHhushhushhushhushhushhushhush is mine",
}


def test_no_secret_is_shown_and_everything_else_is() -> None:
    shown = redacted(DATA)
    assert "hush" not in repr(shown)
    assert shown["gateway"] == {"port": 1, "auth": {"token": MASK, "password": "${PW}"}}
    assert shown["models"]["providers"]["x"]["apiKey"]["id"] == "KEY"
    assert shown["models"]["providers"]["x"]["models"] == [{"maxTokens": 5, "id": "m"}]
    assert shown["channels"]["telegram"]["tokenFile"] == "/run/token"
    assert shown["channels"]["telegram"]["proxy"] == f"socks5://me:{MASK}@proxy:1"


def test_a_part_is_masked_like_the_whole() -> None:
    path = parse_path("env.vars.A")
    assert redacted(value_at(DATA, path), path) == MASK
    path = parse_path("models.providers.x.models[0].maxTokens")
    assert redacted(value_at(DATA, path), path) == 5


@pytest.mark.parametrize(
    "path", ["gone", "gateway.port.x", "models.providers.x.models[9]", "models.providers.x.models.id"]
)
def test_what_is_not_there_is_said(path: str) -> None:
    with pytest.raises(KeyError):
        value_at(DATA, parse_path(path))


def test_effective_settings_can_be_shown_as_well(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(
        "{ gateway: { auth: { token: 'hush' } }, channels: { telegram: { botToken: 'hush' } } }", encoding="utf-8"
    )
    shown = redacted(load_config(file, environ={}, state_dir=tmp_path).config.effective())
    assert "hush" not in repr(shown)
    assert value_at(shown, parse_path("messages.queue.cap")) == 20
    assert value_at(shown, parse_path("channels.telegram.dmPolicy")) == "pairing"
