"""Where a request comes from: the address of the socket decides, headers only take trust away.

A name in `Host` that is not ours is refused on every route, which closes DNS rebinding; a foreign `Origin` is
refused too, which closes cross-site requests from a browser.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from multidict import MultiMapping

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

FORWARDING_HEADERS = (
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Real-IP",
    "CF-Connecting-IP",
    "True-Client-IP",
    "Tailscale-User-Login",
    "Via",
)
"""A request with one of these came through a proxy, whatever address it comes from."""


THIS_MACHINE = "this machine"


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end.

    Attributes:
        ip: Address of the client: of the socket, or as a trusted proxy tells it.
        is_local: A direct connection from this machine.
        proxied_by_trusted: The socket belongs to a configured proxy.
        origin: The `Origin` header, or None.
    """

    ip: str
    is_local: bool
    proxied_by_trusted: bool = False
    origin: str | None = None

    @property
    def neighbourhood(self) -> str:
        """Whom limits count as one.

        Whoever has an IPv6 address has the 2^64 of its network as well (RFC 6177). This machine itself is apart from
        what reaches us through a proxy on it: that may be anybody.
        """
        if self.is_local:
            return THIS_MACHINE
        ip = _ip(self.ip)
        if isinstance(ip, ipaddress.IPv6Address) and not ip.is_loopback:
            return str(ipaddress.ip_network((ip, 64), strict=False))
        return self.ip


def parse_networks(names: Iterable[str]) -> tuple[Network, ...]:
    """Return addresses and networks. Raises ValueError for anything else."""
    return tuple(ipaddress.ip_network(name, strict=False) for name in names)


def peer_of(address: str, headers: Mapping[str, str], trusted: Iterable[Network]) -> Peer:
    """Return the peer of a request from the address of its socket and its headers."""
    ip = _ip(address)
    forwarded = any(name in headers for name in FORWARDING_HEADERS)
    origin = headers.get("Origin")
    if ip is None:
        return Peer(address or "unknown", False, origin=origin)
    networks = tuple(trusted)
    is_proxy = any(ip in network for network in networks if network.version == ip.version)
    if is_proxy and forwarded:
        return Peer(_client_behind(headers, networks) or str(ip), False, True, origin)
    is_local = ip.is_loopback and not forwarded and _names_this_machine(headers.get("Host"))
    return Peer(str(ip), is_local, is_proxy, origin)


def _names_this_machine(host: str | None) -> bool:
    """Return whether a `Host` header is one of a direct local client: a proxy on this machine passes another one on."""
    name = _host_of(f"//{host}").rstrip(".") if host is not None else "localhost"
    ip = _ip(name)
    return name == "localhost" or name.endswith(".localhost") or (ip is not None and ip.is_loopback)


def _client_behind(headers: Mapping[str, str], trusted: tuple[Network, ...]) -> str | None:
    """Return the last hop that no trusted proxy stands for: what is written left of it anybody may have written."""
    for hop in reversed([part.strip() for part in _every("X-Forwarded-For", headers).split(",")]):
        ip = _ip(hop)
        if ip is None:
            return None
        if not any(ip in network for network in trusted if network.version == ip.version):
            return str(ip)
    return None


def _every(name: str, headers: Mapping[str, str]) -> str:
    """Return all lines of a header as one: a proxy may add its own below what a client wrote (RFC 9110, 5.3)."""
    return ",".join(headers.getall(name, [])) if isinstance(headers, MultiMapping) else headers.get(name, "")


def _ip(text: str) -> IpAddress | None:
    try:
        found = ipaddress.ip_address(text.strip().strip("[]").split("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def host_is_ours(host: str | None, allowed_origins: Iterable[str], bind_host: str = "") -> bool:
    """Return whether a `Host` header names this gateway.

    An address cannot be rebound and is accepted; of names only `localhost`, this machine's own and configured ones.
    """
    if host is None:
        return True
    name = _host_of(f"//{host}").rstrip(".")
    if not name:
        return False
    if _ip(name) is not None or name == "localhost" or name.endswith(".localhost"):
        return True
    machine = socket.gethostname().lower()
    known = {machine, f"{machine.split('.')[0]}.local", bind_host.lower()}
    known.update(_host_of(origin) for origin in allowed_origins)
    return name in known


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def origin_is_allowed(origin: str, host: str | None, allowed_origins: Iterable[str]) -> bool:
    """Return whether a browser page of this origin may talk to us: our own page, or a configured one."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return False
    wanted = f"{parts.scheme}://{parts.netloc}".lower()
    if wanted in {allowed.rstrip("/").lower() for allowed in allowed_origins}:
        return True
    return host is not None and parts.netloc.lower() == host.lower()
