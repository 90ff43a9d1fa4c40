"""Addresses of gateways: what somebody typed, checked, and written in one way."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from tidegate.gateway.client.errors import BadAddress

DEFAULT_PORT = 18790
"""`gateway.port` of a gateway that says nothing else."""
_SCHEMES = {"ws": "ws", "http": "ws", "wss": "wss", "https": "wss"}
_USUAL = {"ws": 80, "wss": 443}


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """Where a gateway is.

    Attributes:
        url: `ws://` or `wss://`, with the port; also the name under which its device token is kept.
        is_encrypted: TLS stands between.
    """

    url: str
    host: str
    is_encrypted: bool


def read_address(text: str, *, insecure: bool = False) -> GatewayAddress:
    """Return the address that somebody typed; without a scheme it is `ws` on this machine and `wss` elsewhere.

    Args:
        insecure: Plain `ws://` to another machine is wanted.

    Raises:
        BadAddress: It is none, it carries a secret, or it would send one over the network in the clear.
    """
    parts = _split(text.strip())
    host = parts.hostname or ""
    scheme = _SCHEMES.get(parts.scheme) if parts.scheme else ("ws" if is_loopback(host) else "wss")
    if scheme is None or not host:
        raise BadAddress(f"{_shown(parts)!r} is no address of a gateway; write wss://HOST or ws://127.0.0.1:PORT")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise BadAddress("a gateway's address carries no name, password or token; use TIDEGATE_GATEWAY_TOKEN")
    try:
        port = parts.port
    except ValueError as error:
        raise BadAddress(f"{_shown(parts)!r} has no usable port") from error
    if scheme == "ws" and not is_loopback(host) and not insecure:
        raise BadAddress(
            f"ws://{host} would send the token in the clear: use wss://, an SSH tunnel to 127.0.0.1, "
            "or --insecure in a network that encrypts by itself"
        )
    if port is None:
        port = DEFAULT_PORT if not parts.scheme or (scheme == "ws" and is_loopback(host)) else _USUAL[scheme]
    name = f"[{host}]" if ":" in host else host
    return GatewayAddress(f"{scheme}://{name}:{port}{parts.path.rstrip('/')}/", host, scheme == "wss")


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        parts.hostname  # noqa: B018 - it is read here for the error that it may raise
    except ValueError as error:
        raise BadAddress("this is no address of a gateway; write wss://HOST or ws://127.0.0.1:PORT") from error
    if any(ord(letter) <= 32 or ord(letter) == 127 for letter in text):
        raise BadAddress("a gateway's address holds no blanks")
    return parts


def _shown(parts: SplitResult) -> str:
    """Return an address without what may be secret in it."""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".removeprefix("://")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
