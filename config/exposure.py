"""Settings of `gateway` with which it would stand open to others, or would not start at all."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.config.paths import KeyPath
from tidegate.config.sections.gateway import GatewaySection


@dataclass(frozen=True, slots=True)
class Exposure:
    """What is wrong, where, and what to do about it."""

    path: KeyPath
    message: str
    hint: str


def exposures(gateway: GatewaySection) -> Iterator[Exposure]:
    """Yield every reason for which a gateway with these settings must not run."""
    auth = gateway.auth
    if auth.mode is None and auth.token is not None and auth.password is not None:
        hint = 'set gateway.auth.mode to "token" or "password"'
        yield Exposure(("gateway", "auth"), "both a token and a password are set", hint)
    if auth.effective_mode == "password" and not auth.password:
        hint = 'set gateway.auth.password, or gateway.auth.mode to "token"'
        yield Exposure(("gateway", "auth", "mode"), "mode 'password' needs a password", hint)
    yield from _proxies(gateway)
    yield from _bind(gateway)


def _proxies(gateway: GatewaySection) -> Iterator[Exposure]:
    for index, name in enumerate(gateway.trusted_proxies):
        try:
            ipaddress.ip_network(name, strict=False)
        except ValueError:
            hint = 'an address or a network, for example "10.0.0.2" or "10.0.0.0/8"'
            yield Exposure(("gateway", "trustedProxies", index), f"'{name}' is no address", hint)
    if gateway.auth.effective_mode == "trusted-proxy" and not gateway.trusted_proxies:
        hint = "name it in gateway.trustedProxies"
        yield Exposure(("gateway", "auth", "mode"), "mode 'trusted-proxy' needs the address of the proxy", hint)


def _bind(gateway: GatewaySection) -> Iterator[Exposure]:
    path: KeyPath = ("gateway", "bind")
    if gateway.bind == "custom" and not gateway.custom_bind_host:
        yield Exposure(path, "bind 'custom' needs gateway.customBindHost", "set it to the address to listen on")
        return
    if gateway.bind == "loopback" or (gateway.bind == "custom" and _is_loopback(gateway.custom_bind_host or "")):
        return
    if gateway.auth.mode == "none":
        hint = 'set gateway.auth.mode to "token", or gateway.bind to "loopback"'
        yield Exposure(path, f"bind '{gateway.bind}' without authentication would let anybody in", hint)
    elif gateway.bind != "tailnet" and not gateway.trusted_proxies:
        hint = (
            "put a proxy with TLS in front and name its address in gateway.trustedProxies, or keep "
            'gateway.bind: "loopback" and use an SSH tunnel or Tailscale'
        )
        yield Exposure(path, f"bind '{gateway.bind}' would send the token over the network in the clear", hint)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
