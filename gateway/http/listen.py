"""Which address the gateway listens on."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable

from tidegate.config.sections.gateway import GatewaySection
from tidegate.errors import ConfigError

LOOPBACK = "127.0.0.1"
TAILNET = ipaddress.ip_network("100.64.0.0/10")
"""Tailscale gives its machines addresses from here (https://tailscale.com/kb/1015/100.x-addresses)."""
_TAILSCALE_ITSELF = ("100.100.100.100", 53)


def bind_host(config: GatewaySection, tailnet: Callable[[], str | None] | None = None) -> str:
    """Return the address to listen on.

    Args:
        tailnet: Finds this machine's Tailscale address.

    Raises:
        ConfigError: A Tailscale address is asked for and this machine has none now.
    """
    if config.bind == "custom" and config.custom_bind_host:
        return config.custom_bind_host
    if config.bind == "tailnet":
        found = (tailnet or tailnet_address)()
        if found is None:
            raise ConfigError(
                'gateway.bind: "tailnet", but this machine has no Tailscale address now; start Tailscale '
                '(`tailscale up`) or set gateway.bind to "loopback"'
            )
        return found
    return "0.0.0.0" if config.bind in ("lan", "auto") else LOOPBACK


def page_addresses(config: GatewaySection, port: int) -> list[str]:
    """Return where a browser finds our page: on this machine, then under the configured names with TLS."""
    host = LOOPBACK if config.bind in ("loopback", "lan", "auto") else bind_host(config)
    here = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    return [
        here,
        *(origin.rstrip("/") for origin in config.control_ui.allowed_origins if origin.startswith("https://")),
    ]


def tailnet_address() -> str | None:
    """Return the address from which this machine reaches its tailnet; nothing is sent to find out."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(_TAILSCALE_ITSELF)
            own = str(probe.getsockname()[0])
    except OSError:
        return None
    return own if ipaddress.ip_address(own) in TAILNET else None
