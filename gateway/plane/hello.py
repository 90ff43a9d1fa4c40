"""The answer to a successful handshake: what this gateway is and can, as far as this caller may know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidegate import __version__
from tidegate.gateway.plane.broadcast import ADVERTISED
from tidegate.gateway.plane.contract import Caller, MethodTable, Scope
from tidegate.gateway.plane.frames import MAX_BUFFERED, MAX_PAYLOAD, PROTOCOL
from tidegate.gateway.plane.handshake import Grant
from tidegate.gateway.plane.hub import Hub

ATTACHMENT_BYTES = 20_971_520
IMAGE_BYTES = 6_291_456


class PlaneFacts(Protocol):
    """What the control plane tells about the gateway behind it."""

    async def health(self) -> dict[str, Any]:
        """Return a health snapshot without secrets or message text."""
        ...

    async def status(self) -> dict[str, Any]:
        """Return a runtime summary."""
        ...

    def session_defaults(self) -> dict[str, Any]:
        """Return which agent and session a client talks to when it names none."""
        ...

    def config_hash(self) -> str | None:
        """Return a hash of the applied configuration."""
        ...

    def places(self) -> Mapping[str, str]:
        """Return `configPath` and `stateDir`, for callers with admin only."""
        ...


@dataclass(frozen=True, slots=True)
class HelloParts:
    """What a hello is made from."""

    hub: Hub
    facts: PlaneFacts
    methods: MethodTable
    capabilities: Sequence[str]
    boot: str
    auth_mode: str
    uptime_ms: int
    tick_ms: int


def hello(parts: HelloParts, caller: Caller, grant: Grant) -> dict[str, Any]:
    """Return the payload of hello-ok."""
    hub = parts.hub
    snapshot: dict[str, Any] = {
        "suspension": {"phase": "accepting"},
        "presence": hub.roster.rows() if caller.may(Scope.READ) else [],
        "health": hub.health if caller.may(Scope.READ) else {},
        "stateVersion": hub.versions(),
        "uptimeMs": parts.uptime_ms,
        "appliedConfigHash": parts.facts.config_hash(),
        "sessionDefaults": parts.facts.session_defaults(),
    }
    if caller.may(Scope.ADMIN):
        snapshot |= {**parts.facts.places(), "authMode": parts.auth_mode}
    auth: dict[str, Any] = {"method": grant.method, "role": caller.role.value, "scopes": list(grant.ordered)}
    if grant.device_token:
        auth |= {"deviceToken": grant.device_token, "issuedAtMs": grant.issued_at_ms}
    return {
        "type": "hello-ok",
        "protocol": PROTOCOL,
        "server": {"version": __version__, "bootId": parts.boot, "connId": caller.connection},
        "features": {
            "methods": parts.methods.advertised(),
            "events": ADVERTISED,
            "capabilities": list(parts.capabilities),
        },
        "snapshot": snapshot,
        "auth": auth,
        "policy": {
            "maxPayload": MAX_PAYLOAD,
            "maxBufferedBytes": MAX_BUFFERED,
            "tickIntervalMs": parts.tick_ms,
            "attachments": {"maxBytes": ATTACHMENT_BYTES, "maxImageBytes": IMAGE_BYTES},
        },
    }
