"""Methods about the gateway as a whole: health, presence, status."""

from __future__ import annotations

from typing import Any, NoReturn

from pydantic import ConfigDict

from tidegate.gateway.plane.contract import Call, Code, Method, NoParams, Params, RpcError, Scope
from tidegate.gateway.plane.hello import PlaneFacts
from tidegate.gateway.plane.hub import Hub


class HealthParams(Params):
    """`health`."""

    probe: bool = False
    includeSensitive: bool = False


class StatusParams(Params):
    """`status`."""

    includeChannelSummary: bool = True
    includeCliProjection: bool = False


class AnyParams(Params):
    """Whatever comes."""

    model_config = ConfigDict(extra="allow")


def core_methods(hub: Hub, facts: PlaneFacts) -> list[Method]:
    """Return the methods."""

    async def health(_: Call) -> Any:
        snapshot = await facts.health()
        hub.set_health(snapshot)
        return snapshot

    async def status(_: Call) -> Any:
        return await facts.status()

    async def presence(_: Call) -> Any:
        return hub.roster.rows()

    async def connect(_: Call) -> NoReturn:
        raise RpcError(Code.INVALID_REQUEST, "connect is only valid as the first request")

    return [
        Method("health", HealthParams, health, Scope.READ),
        Method("status", StatusParams, status, Scope.READ),
        Method("system-presence", NoParams, presence, Scope.READ),
        Method("connect", AnyParams, connect, Scope.ADMIN, hidden=True),
    ]
