"""What the control plane tells about a running gateway."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

from tidegate import __version__
from tidegate.clock import Clock
from tidegate.config.load import Loaded
from tidegate.gateway.connections import Connections, ConnectionState
from tidegate.gateway.http.local import terminal_session
from tidegate.gateway.ruleset import OWN_CHANNELS
from tidegate.gateway.site import Site
from tidegate.sessions.model import SessionSummary
from tidegate.sessions.store import Store

RECENT = 10
COUNTED = 1_000
"""Sessions that are counted; more are shown as this many."""
MAIN_KEY = "main"


class ObservedGateway(Protocol):
    """What is looked at."""

    site: Site
    loaded: Loaded
    store: Store
    connections: Connections
    clock: Clock


class GatewayFacts:
    """Implements `PlaneFacts` for the gateway."""

    def __init__(self, gateway: ObservedGateway) -> None:
        self._gateway = gateway

    async def health(self) -> dict[str, Any]:
        """Return the health snapshot: channels, agents, sessions; no secrets, no message text."""
        gateway = self._gateway
        began = gateway.clock.monotonic()
        sessions = await gateway.store.sessions(COUNTED)
        channels = self._channels()
        default = self._default_agent()
        return {
            "ok": True,
            "ts": gateway.clock.now() // 1000,
            "durationMs": int((gateway.clock.monotonic() - began) * 1000),
            "plugins": {"loaded": [], "errors": [], "unavailable": []},
            "channels": channels,
            "channelOrder": list(channels),
            "channelLabels": {name: name.title() for name in channels},
            "heartbeatSeconds": 0,
            "defaultAgentId": default,
            "agents": [
                {
                    "agentId": agent,
                    "isDefault": agent == default,
                    "heartbeat": _NO_HEARTBEAT,
                    "sessions": self._sessions([s for s in sessions if s.agent == agent]),
                }
                for agent in gateway.loaded.config.agents.members()
            ],
            "sessions": self._sessions(sessions),
        }

    def _channels(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for row in self._gateway.connections.all():
            if row.channel in OWN_CHANNELS:
                continue
            account = {
                "accountId": row.account,
                "configured": True,
                "running": row.state is not ConnectionState.STOPPED,
                "connected": row.state is ConnectionState.UP,
                "lastInboundAt": row.alive_at // 1000 or None,
                "lastError": row.reason or None,
            }
            channel = found.setdefault(row.channel, {**account, "accounts": {}})
            channel["accounts"][row.account] = account
        return found

    def _sessions(self, sessions: Any) -> dict[str, Any]:
        now = self._gateway.clock.now()
        recent = [_recent(s, now) for s in sessions[:RECENT]]
        return {"path": "", "count": len(sessions), "recent": recent}

    async def status(self) -> dict[str, Any]:
        """Return the runtime summary."""
        gateway = self._gateway
        sessions = await gateway.store.sessions(COUNTED)
        default = self._default_agent()
        model = gateway.loaded.config.agents.defaults.model.primary
        return {
            "runtimeVersion": __version__,
            "pid": os.getpid(),
            "heartbeat": {"defaultAgentId": default, "agents": [{"agentId": default, **_NO_HEARTBEAT}]},
            "channelSummary": [],
            "queuedSystemEvents": [],
            "degradedSecretOwners": [],
            "degradedPlugins": [],
            "tasks": {"total": 0, "active": 0, "terminal": 0, "failures": 0, "byStatus": {}, "byRuntime": {}},
            "taskAudit": {"total": 0, "warnings": 0, "errors": 0, "byCode": {}},
            "sessions": {
                "paths": [],
                "count": len(sessions),
                "defaults": {"model": model, "contextTokens": None},
                "recent": [_recent(s, gateway.clock.now()) for s in sessions[:RECENT]],
                "byAgent": [
                    {"agentId": agent, "path": "", "count": sum(s.agent == agent for s in sessions), "recent": []}
                    for agent in gateway.loaded.config.agents.members()
                ],
            },
        }

    def _default_agent(self) -> str:
        agents = self._gateway.loaded.config.agents
        return agents.default_agent_id or next(iter(agents.members()))

    def session_defaults(self) -> dict[str, Any]:
        """Return the agent and session of a client that names none."""
        config, default = self._gateway.loaded.config, self._default_agent()
        key = terminal_session(self._gateway.loaded) or f"agent:{default}:{MAIN_KEY}"
        return {
            "defaultAgentId": default,
            "modelConfigured": config.agents.defaults.model.primary is not None,
            "ownership": "sole" if len(config.agents.members()) == 1 else "shared",
            "selectionRequired": config.agents.default_agent_id is None,
            "mainKey": key.rpartition(":")[2],
            "mainSessionKey": key,
            "scope": "per-sender",
        }

    def config_hash(self) -> str | None:
        """Return the hash of the sources of the applied configuration."""
        return f"sha256:v1:{self._gateway.loaded.digest}"

    def places(self) -> Mapping[str, str]:
        """Return where configuration and state are."""
        site = self._gateway.site
        return {"configPath": str(site.config_path), "stateDir": str(site.state_dir)}


_NO_HEARTBEAT = {"enabled": False, "every": "disabled", "everyMs": None}


def _recent(session: SessionSummary, now: int) -> dict[str, Any]:
    return {
        "key": session.key,
        "updatedAt": session.touched_at // 1000,
        "age": max(0, (now - session.touched_at) // 1000),
    }
