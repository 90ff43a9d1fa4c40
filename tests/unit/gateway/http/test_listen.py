"""Where the gateway listens."""

from __future__ import annotations

import ipaddress

import pytest

from tidegate.config.sections.gateway import GatewaySection
from tidegate.errors import ConfigError
from tidegate.gateway.http.listen import TAILNET, bind_host, page_addresses, tailnet_address


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({}, "127.0.0.1"),
        ({"bind": "lan"}, "0.0.0.0"),
        ({"bind": "auto"}, "0.0.0.0"),
        ({"bind": "custom", "customBindHost": "192.168.1.4"}, "192.168.1.4"),
        ({"bind": "tailnet"}, "100.101.102.103"),
    ],
)
def test_each_setting_means_one_address(settings: dict[str, str], host: str) -> None:
    assert bind_host(GatewaySection.model_validate(settings), lambda: "100.101.102.103") == host


def test_without_a_tailscale_address_nothing_else_is_listened_on() -> None:
    with pytest.raises(ConfigError, match="no Tailscale address now"):
        bind_host(GatewaySection(bind="tailnet"), lambda: None)


def test_this_machine_has_an_address_of_tailscale_or_none() -> None:
    found = tailnet_address()
    assert found is None or ipaddress.ip_address(found) in TAILNET


@pytest.mark.parametrize(
    ("settings", "addresses"),
    [
        ({}, ["http://127.0.0.1:7"]),
        ({"bind": "lan", "trustedProxies": ["10.0.0.1"]}, ["http://127.0.0.1:7"]),
        ({"bind": "custom", "customBindHost": "::1"}, ["http://[::1]:7"]),
        (
            {"controlUi": {"allowedOrigins": ["https://gate.example/", "http://plain.example"]}},
            ["http://127.0.0.1:7", "https://gate.example"],
        ),
    ],
)
def test_the_page_is_found_here_and_under_names_with_tls(settings: dict[str, object], addresses: list[str]) -> None:
    assert page_addresses(GatewaySection.model_validate(settings), 7) == addresses
