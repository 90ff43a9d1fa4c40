"""Who sees which event. An event whose name is not in the table reaches nobody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from tidegate.gateway.plane.connection import Connection
from tidegate.gateway.plane.contract import PlaneEvent, Role, Scope
from tidegate.gateway.plane.frames import encode

log = structlog.get_logger("plane")

EVERYBODY = ""
RULES: Mapping[str, Scope | str] = {
    "agent": Scope.READ,
    "chat": Scope.READ,
    "chat.metadata.changed": Scope.READ,
    "chat.side_result": Scope.READ,
    "presence": Scope.READ,
    "cron": Scope.READ,
    "task": Scope.READ,
    "task.suggestion": Scope.READ,
    "config.changed": Scope.READ,
    "skills.changed": Scope.READ,
    "plugins.changed": Scope.READ,
    "node.presence": Scope.READ,
    "node.hostStats": Scope.READ,
    "sessions.changed": Scope.READ,
    "session.message": Scope.READ,
    "session.observer": Scope.READ,
    "session.operation": Scope.READ,
    "session.tool": Scope.READ,
    "session.approval": Scope.APPROVALS,
    "exec.approval.requested": Scope.APPROVALS,
    "exec.approval.resolved": Scope.APPROVALS,
    "plugin.approval.requested": Scope.APPROVALS,
    "plugin.approval.resolved": Scope.APPROVALS,
    "question.requested": Scope.QUESTIONS,
    "question.resolved": Scope.QUESTIONS,
    "device.pair.changed": Scope.PAIRING,
    "device.pair.requested": Scope.PAIRING,
    "device.pair.resolved": Scope.PAIRING,
    "node.pair.requested": Scope.PAIRING,
    "node.pair.resolved": Scope.PAIRING,
    "health": EVERYBODY,
    "heartbeat": EVERYBODY,
    "tick": EVERYBODY,
    "shutdown": EVERYBODY,
}
ADVERTISED = sorted({*RULES, "connect.challenge", "node.invoke.request", "node.invoke.cancel"} - {"config.changed"})
"""Names for `features.events`."""
SESSION_SCOPED = frozenset({"agent", "chat", "chat.side_result", "session.observer", "session.tool"})
"""Events that a client with the cap `session-scoped-events` gets for the sessions only that it subscribed to."""
TO_SUBSCRIBERS = frozenset({"session.message"})
"""Events that only subscribers of their session get, whatever their caps."""
TO_NODES = frozenset({"agent", "chat"})
"""Events that a node gets of the sessions that it listens to."""
DROPPED_WHEN_SLOW = frozenset(
    {
        "presence",
        "tick",
        "health",
        "device.pair.requested",
        "device.pair.resolved",
        "device.pair.changed",
        "node.pair.requested",
        "node.pair.resolved",
    }
)
VERSIONED = frozenset({"presence", "health"})


def visible(event: PlaneEvent, connection: Connection) -> bool:
    """Return whether a connection gets an event."""
    caller = connection.caller
    if event.only is not None and connection.id not in event.only:
        return False
    if caller.role is Role.NODE:
        return event.to_nodes or (event.name in TO_NODES and event.session in connection.subscriptions)
    needed = RULES.get(event.name)
    if needed is None:
        return False
    if isinstance(needed, Scope) and not caller.may(needed):
        return False
    if event.scope is not None and not caller.may(event.scope):
        return False
    if event.name in SESSION_SCOPED and event.session and "session-scoped-events" in caller.caps:
        return event.session in connection.subscriptions
    if event.name in TO_SUBSCRIBERS and event.only is None:
        return event.session in connection.subscriptions
    return True


def deliver(event: PlaneEvent, connections: Iterable[Connection], versions: Mapping[str, int]) -> int:
    """Queue an event for all who may see it; returns how many do. The payload becomes JSON once."""
    if event.name not in RULES and not event.to_nodes:
        log.warning("plane.event_without_rule", event_name=event.name)
        return 0
    encoded: str | None = None
    reached = 0
    for connection in connections:
        if not visible(event, connection):
            continue
        if encoded is None:
            encoded = encode(event.payload)
        connection.out.put_event(
            event.name,
            event.payload,
            encoded,
            sequenced=connection.caller.role is not Role.NODE,
            droppable=event.drop_if_slow or event.name in DROPPED_WHEN_SLOW,
            state_version=versions if event.name in VERSIONED else None,
        )
        reached += 1
    return reached
