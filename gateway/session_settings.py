"""What people set for single sessions in chat (`/queue`), at hand for admission; the store keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.sessions.store import ReadStore

_NOTHING: Mapping[str, Any] = {}


class SessionSettings:
    """The settings of the few sessions that have any."""

    def __init__(self, store: ReadStore) -> None:
        self._store = store
        self._rows: dict[str, Mapping[str, Any]] = {}

    async def load(self) -> None:
        """Read everything anew."""
        self._rows = dict(await self._store.session_settings())

    def get(self, key: str) -> Mapping[str, Any]:
        """Return the settings of a session."""
        return self._rows.get(key, _NOTHING)
