"""Who is connected, as people see it: the gateway itself, screens, nodes. One-shot commands do not show up."""

from __future__ import annotations

import platform
import socket
from typing import Any

from tidegate import __version__
from tidegate.clock import MINUTE, Clock
from tidegate.gateway.plane.contract import Caller
from tidegate.ids import new_id

KEEP_GONE = 5 * MINUTE
MAX_ROWS = 200
_UNSEEN_CLIENTS = frozenset({"cli", "gateway-client", "openclaw-probe", "fingerprint"})


class Roster:
    """Presence rows; `version` rises with each change."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rows: dict[str, dict[str, Any]] = {}
        self._instance = new_id()
        self._host = socket.gethostname()
        self.version = 1

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows, the gateway's own first."""
        now = self._clock.now()
        for key, row in list(self._rows.items()):
            if row["reason"] == "disconnect" and row["ts"] * 1000 < now - KEEP_GONE:
                del self._rows[key]
        return [self._own(now), *self._rows.values()]

    def _own(self, now: int) -> dict[str, Any]:
        return {
            "host": self._host,
            "version": __version__,
            "platform": f"{platform.system().lower()} {platform.release()}",
            "deviceFamily": platform.system(),
            "mode": "gateway",
            "reason": "self",
            "instanceId": self._instance,
            "text": f"Gateway: {self._host} · app {__version__} · mode gateway · reason self",
            "ts": now // 1000,
        }

    def joined(self, caller: Caller) -> bool:
        """Note a connection; True when it shows up."""
        client = caller.client
        if client.id in _UNSEEN_CLIENTS:
            return False
        name = client.display_name or client.id
        row: dict[str, Any] = {
            "host": name,
            "clientId": client.id,
            "version": client.version,
            "platform": client.platform,
            "mode": client.mode,
            "roles": [caller.role.value],
            "reason": "connect",
            "ts": self._clock.now() // 1000,
            "text": f"Node: {name} · mode {client.mode}",
        }
        if client.device_family:
            row["deviceFamily"] = client.device_family
        if caller.device:
            row |= {"deviceId": caller.device, "scopes": sorted(caller.scopes)}
        if client.instance_id or caller.device:
            row["instanceId"] = client.instance_id or caller.device
        self.put(self.key(caller), row)
        return True

    def left(self, caller: Caller) -> bool:
        """Note the end of a connection; True when it showed up."""
        row = self._rows.get(self.key(caller))
        if row is None:
            return False
        self.put(self.key(caller), {**row, "reason": "disconnect", "ts": self._clock.now() // 1000})
        return True

    def put(self, key: str, row: dict[str, Any]) -> None:
        """Set a row."""
        self._rows.pop(key, None)
        self._rows[key] = row
        while len(self._rows) > MAX_ROWS:
            del self._rows[next(iter(self._rows))]
        self.version += 1

    @staticmethod
    def key(caller: Caller) -> str:
        """Return under which row a connection shows up."""
        return caller.client.instance_id or caller.device or caller.client.id
