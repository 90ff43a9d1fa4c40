"""Under which addresses a phone reaches this gateway, as far as the configuration and this machine tell."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tidegate.config.load import Loaded
from tidegate.gateway.http.listen import TAILNET, tailnet_address

MAX_ADDRESSES = 8
MAX_URL = 512
LOOPBACK_ONLY = (
    "Gateway is only bound to loopback. Set gateway.bind=lan, enable tailscale serve, or configure "
    "plugins.entries.device-pair.config.publicUrl."
)
"""In the words of the protocol, which name settings of another gateway; the command line has its own."""
NO_ADDRESS = (
    "this machine's address in the network is not known now; name the address under which a phone reaches this gateway "
    "(publicUrl, or gateway.controlUi.allowedOrigins)"
)
_BEYOND = ("192.0.2.1", 9)
"""An address for documentation (RFC 5737): choosing a way to it names our own address, and nothing is sent."""


@dataclass(frozen=True, slots=True)
class Reach:
    """An address, and the setting that it follows from."""

    url: str
    source: str


def is_encrypted(url: str) -> bool:
    """Return whether what is said on the way to an address cannot be read: TLS, or a tailnet's own encryption."""
    parts = urlsplit(url)
    if parts.scheme in ("wss", "https"):
        return bool(parts.hostname)
    try:
        return parts.scheme in ("ws", "http") and ipaddress.ip_address(parts.hostname or "") in TAILNET
    except ValueError:
        return False


def may_be_stated(url: str) -> bool:
    """Return whether somebody may say that a phone reaches the gateway there."""
    return len(url) <= MAX_URL and is_encrypted(url)


def page_link(places: Sequence[Reach], code: str) -> str:
    """Return a link that opens the web chat in any browser with a code, or nothing where no address has TLS."""
    for place in places:
        parts = urlsplit(place.url)
        if parts.scheme in ("wss", "https"):
            return f"https://{parts.netloc}{parts.path.rstrip('/')}/#code={code}"
    return ""


def reach(
    loaded: Loaded,
    port: int,
    *,
    tailnet: Callable[[], str | None] = tailnet_address,
    lan: Callable[[], str | None] | None = None,
) -> list[Reach]:
    """Return the addresses, the most certain first; none for a gateway that only this machine reaches.

    Args:
        tailnet: Finds this machine's Tailscale address.
        lan: Finds its address on the local network.
    """
    config = loaded.config.gateway
    found = []
    stated = _stated(loaded.config.raw)
    if stated:
        found.append(Reach(stated, "plugins.entries.device-pair.config.publicUrl"))
    for origin in config.control_ui.allowed_origins:
        if origin.startswith("https://"):
            found.append(
                Reach(f"wss://{origin.removeprefix('https://').rstrip('/')}", "gateway.controlUi.allowedOrigins")
            )
    host, source = None, f"gateway.bind={config.bind}"
    if config.bind == "tailnet":
        host = tailnet()
    elif config.bind in ("lan", "auto"):
        host = (lan or lan_address)()
    elif config.bind == "custom":
        host = _beyond_loopback(config.custom_bind_host)
    if host:
        found.append(Reach(f"ws://[{host}]:{port}" if ":" in host else f"ws://{host}:{port}", source))
    return found[:MAX_ADDRESSES]


def _stated(raw: Any) -> str:
    """Return the address that an OpenClaw configuration states for its own setup codes."""
    for key in ("plugins", "entries", "device-pair", "config", "publicUrl"):
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw if isinstance(raw, str) and is_encrypted(raw) else ""


def _beyond_loopback(host: str | None) -> str | None:
    try:
        address = ipaddress.ip_address((host or "").strip("[]"))
    except ValueError:
        return None
    return None if address.is_loopback or address.is_unspecified else str(address)


def lan_address() -> str | None:
    """Return the address of this machine on its local network; nothing is sent to find out."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(_BEYOND)
            return _beyond_loopback(str(probe.getsockname()[0]))
    except OSError:
        return None
