from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.config.load import Loaded, load_config
from tidegate.gateway.plane.qr import as_image, as_lines
from tidegate.gateway.plane.reach import is_encrypted, reach

PROXY = 'trustedProxies: ["10.0.0.2"]'


def loaded(tmp_path: Path, gateway: str, more: str = "") -> Loaded:
    path = tmp_path / "c.json5"
    path.write_text(f"{{ gateway: {{ {gateway} }}, {more} }}")
    return load_config(path, environ={"HOME": str(tmp_path)}, state_dir=tmp_path)


def found(tmp_path: Path, gateway: str, more: str = "", *, tailnet: str | None = None) -> list[tuple[str, str]]:
    places = reach(loaded(tmp_path, gateway, more), 1234, tailnet=lambda: tailnet, lan=lambda: "192.168.1.5")
    return [(place.url, place.source) for place in places]


def test_a_gateway_on_this_machine_only_is_reached_by_nobody_else(tmp_path: Path) -> None:
    assert found(tmp_path, "") == []
    assert found(tmp_path, 'bind: "custom", customBindHost: "127.0.0.1"') == []


def test_the_address_follows_from_what_is_listened_on(tmp_path: Path) -> None:
    assert found(tmp_path, 'bind: "tailnet"', tailnet="100.64.0.7") == [
        ("ws://100.64.0.7:1234", "gateway.bind=tailnet")
    ]
    assert found(tmp_path, 'bind: "tailnet"') == []
    assert found(tmp_path, 'bind: "lan", ' + PROXY) == [("ws://192.168.1.5:1234", "gateway.bind=lan")]
    assert found(tmp_path, 'bind: "custom", customBindHost: "fd00::5", ' + PROXY) == [
        ("ws://[fd00::5]:1234", "gateway.bind=custom")
    ]


def test_names_with_tls_come_first(tmp_path: Path) -> None:
    names = 'controlUi: { allowedOrigins: ["http://localhost:5", "https://gate.example/"] }, bind: "lan", ' + PROXY
    assert [url for url, _ in found(tmp_path, names)] == ["wss://gate.example", "ws://192.168.1.5:1234"]
    stated = 'plugins: { entries: { "device-pair": { config: { publicUrl: "%s" } } } }'
    assert found(tmp_path, "", stated % "wss://gate.example") == [
        ("wss://gate.example", "plugins.entries.device-pair.config.publicUrl")
    ]
    assert found(tmp_path, "", stated % "ws://gate.example") == []


@pytest.mark.parametrize(
    ("url", "answer"),
    [
        ("wss://gate.example", True),
        ("https://gate.example/x", True),
        ("ws://100.101.1.1:18790", True),
        ("ws://192.168.1.5:18790", False),
        ("ws://gate.example", False),
        ("wss://", False),
        ("javascript:alert(1)", False),
        ("", False),
    ],
)
def test_only_addresses_whose_traffic_nobody_reads_may_be_stated(url: str, answer: bool) -> None:
    assert is_encrypted(url) is answer


def test_a_code_is_drawn_for_terminals_and_pages() -> None:
    lines = as_lines("x" * 150)
    assert len({len(line.encode()) > 0 for line in lines}) == 1
    assert 20 < len(lines) < 40
    assert as_image("x" * 150).startswith("data:image/svg+xml")
    assert len(as_image("x" * 220)) < 16_384
