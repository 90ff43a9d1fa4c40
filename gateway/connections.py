"""Which accounts are connected now, and what is known about those that are not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import StrEnum

from tidegate.adapters.base import Adapter
from tidegate.events import Address


class ConnectionState(StrEnum):
    """Where an account stands."""

    CONNECTING = "connecting"
    UP = "up"
    RETRYING = "retrying"
    CONFLICT = "conflict"
    STOPPED = "stopped"
    """A person must act; `reason` says what to do."""


@dataclass(slots=True)
class Connection:
    """What is known about one account's connection.

    Attributes:
        alive_at: When the last poll or event completed; microseconds UTC, 0 for never. The only proof of life.
        failures: Failed attempts since the last proof of life.
    """

    channel: str
    account: str
    state: ConnectionState = ConnectionState.CONNECTING
    reason: str = ""
    alive_at: int = 0
    failures: int = 0
    received: int = 0
    adapter: Adapter | None = field(default=None, repr=False)


class Connections:
    """The table of accounts; supervisors write their own row, everybody else reads."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Connection] = {}
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Tell those who wait that an adapter came or went."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for(self, channel: str, account: str, seconds: float | None) -> Adapter | None:
        """Return the adapter of an account once it is connected, or None when that takes too long."""
        try:
            async with asyncio.timeout(seconds):
                while (adapter := self.adapter(channel, account)) is None:
                    await self._changed.wait()
                return adapter
        except TimeoutError:
            return None

    def add(self, channel: str, account: str) -> Connection:
        """Return the row of an account, made when missing."""
        return self._rows.setdefault((channel, account), Connection(channel, account))

    def remove(self, channel: str, account: str) -> None:
        """Forget an account that is no longer configured."""
        self._rows.pop((channel, account), None)

    def all(self) -> list[Connection]:
        """Return every row, by channel and account."""
        return [self._rows[key] for key in sorted(self._rows)]

    def adapter(self, channel: str, account: str) -> Adapter | None:
        """Return the connected adapter of an account, or None while it is down."""
        row = self._rows.get((channel, account))
        return row.adapter if row else None

    def adapter_for(self, address: Address) -> Adapter | None:
        """Return the connected adapter that owns an address, or None while it is down."""
        return self.adapter(address.channel, address.account)
