"""The connections of the control plane and what is sent to them. Methods and the gateway talk to clients through it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tidegate.clock import Clock
from tidegate.gateway.plane.broadcast import deliver
from tidegate.gateway.plane.connection import Connection
from tidegate.gateway.plane.contract import PlaneEvent, Role
from tidegate.gateway.plane.frames import CLOSE_REVOKED, encode, event_text
from tidegate.gateway.plane.owner import METHOD as OWNER
from tidegate.gateway.plane.roster import Roster


class Hub:
    """All connections that are through their handshake.

    Attributes:
        health: The last health snapshot, for `hello-ok` and the `health` event.
        leaving: Called with a connection that ended, or whose rights just did.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.roster = Roster(clock)
        self.health: dict[str, Any] = {}
        self.leaving: list[Callable[[Connection], None]] = []
        self._health_version = 1
        self._connections: dict[str, Connection] = {}

    @property
    def connections(self) -> tuple[Connection, ...]:
        """Return the open connections."""
        return tuple(self._connections.values())

    def get(self, connection: str) -> Connection | None:
        """Return a connection by its id."""
        return self._connections.get(connection)

    def of_device(self, device: str, role: str | None = None) -> list[Connection]:
        """Return the connections of a device, of one role if that is given."""
        return [
            c for c in self.connections if c.caller.device == device and (role is None or c.caller.role.value == role)
        ]

    def versions(self) -> dict[str, int]:
        """Return the `stateVersion` of presence and health."""
        return {"presence": self.roster.version, "health": self._health_version}

    def publish(self, event: PlaneEvent) -> None:
        """Hand an event to all who may see it."""
        deliver(event, self.connections, self.versions())

    def push(self, connection: str, name: str, payload: Any) -> None:
        """Send one connection an event outside the numbered stream."""
        found = self._connections.get(connection)
        if found is not None:
            found.out.put(event_text(name, encode(payload)))

    def set_health(self, snapshot: dict[str, Any]) -> None:
        """Keep a new health snapshot and tell everybody."""
        self.health = snapshot
        self._health_version += 1
        self.publish(PlaneEvent("health", snapshot))

    def subscribe(self, connection: str, sessions: Iterable[str]) -> None:
        """Let a connection see the events of sessions."""
        found = self._connections.get(connection)
        if found is not None:
            found.subscriptions.update(sessions)

    def unsubscribe(self, connection: str, sessions: Iterable[str]) -> None:
        """Take it back."""
        found = self._connections.get(connection)
        if found is not None:
            found.subscriptions.difference_update(sessions)

    def add(self, connection: Connection) -> None:
        """Take a connection in; it hears of itself in `presence`, after its hello-ok."""
        self._connections[connection.id] = connection
        if self.roster.joined(connection.caller):
            self._tell_presence()

    def remove(self, connection: Connection) -> None:
        """Forget a connection that ended."""
        if self._connections.pop(connection.id, None) is None:
            return
        self._tell_leaving(connection)
        same = [c for c in self.connections if Roster.key(c.caller) == Roster.key(connection.caller)]
        if not same and self.roster.left(connection.caller):
            self._tell_presence()

    def _tell_leaving(self, connection: Connection) -> None:
        for tell in self.leaving:
            tell(connection)

    def _tell_presence(self) -> None:
        self.publish(PlaneEvent("presence", {"presence": self.roster.rows()}))

    def close_device(self, device: str, role: str | None = None) -> int:
        """End the connections of a device whose rights changed; returns how many there were."""
        found = self.of_device(device, role)
        for connection in found:
            self.revoke(connection, "device removed")
        return len(found)

    def revoke(self, connection: Connection, reason: str) -> None:
        """End a connection whose rights ended; what waits for it hears of it at once."""
        connection.close(CLOSE_REVOKED, reason)
        self._tell_leaving(connection)

    def close_operators_by_secret(self) -> None:
        """End the connections that came in with the shared secret, after it changed."""
        for connection in self.connections:
            if connection.caller.method not in ("device-token", OWNER):
                self.revoke(connection, "gateway auth changed")

    def nodes(self) -> list[Connection]:
        """Return the connected nodes."""
        return [c for c in self.connections if c.caller.role is Role.NODE]
