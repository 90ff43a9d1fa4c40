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


def _projection(facts: PlaneFacts, summary: dict[str, Any]) -> dict[str, Any]:
    """Return what a command line shows of agents; it asks so that it need not read the configuration."""
    defaults = facts.session_defaults()
    rows = [{"id": row["agentId"]} for row in summary.get("sessions", {}).get("byAgent", ())]
    return {
        "agents": {
            "defaultId": defaults.get("defaultAgentId"),
            "ownership": defaults.get("ownership"),
            "selectionRequired": defaults.get("selectionRequired"),
            "rows": rows,
        },
        "updateChannel": None,
        "memoryPlugin": {"enabled": False, "slot": None},
    }


def core_methods(hub: Hub, facts: PlaneFacts) -> list[Method]:
    """Return the methods."""

    async def health(_: Call) -> Any:
        snapshot = await facts.health()
        hub.set_health(snapshot)
        return snapshot

    async def status(call: Call) -> Any:
        summary = await facts.status()
        return (
            {**summary, "cliProjection": _projection(facts, summary)} if call.params.includeCliProjection else summary
        )

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
