"""The accounts that are connected: a supervisor each, and never two connections of one account."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.adapters.registry import AccountSpec
from tidegate.gateway.connections import Connections, ConnectionState
from tidegate.gateway.supervisor import Supervisor

STOP_SECONDS = 10.0
"""How long whoever stops an account waits to hear that it is disconnected."""
Key = tuple[str, str]
"""Channel and account."""


@dataclass(frozen=True, slots=True)
class _Supervised:
    """One account's supervisor and the task that it runs in."""

    fingerprint: str
    supervisor: Supervisor
    task: asyncio.Task[None]


class Accounts:
    """Connects accounts, and disconnects them.

    Args:
        supervise: Makes the supervisor of an account.
    """

    def __init__(self, connections: Connections, supervise: Callable[[AccountSpec], Supervisor]) -> None:
        self._connections = connections
        self._make = supervise
        self._group: asyncio.TaskGroup | None = None
        self._wanted: dict[Key, AccountSpec] = {}
        self._supervised: dict[Key, _Supervised] = {}
        self._ending: dict[Key, asyncio.Task[None]] = {}

    def begin(self, group: asyncio.TaskGroup, specs: Sequence[AccountSpec]) -> None:
        """Connect accounts, in tasks of this group."""
        self._group = group
        self.use(specs)

    def use(self, specs: Sequence[AccountSpec]) -> None:
        """Connect each account that is not, or whose settings changed; disconnect those left over."""
        self._wanted = {(spec.channel, spec.account): spec for spec in specs}
        for key, row in list(self._supervised.items()):
            if key not in self._wanted or self._wanted[key].fingerprint != row.fingerprint:
                self._end(key)
        self._connect_missing()

    async def stop(self, channel: str, account: str) -> bool:
        """Disconnect an account until it is started again, or accounts are used anew.

        Returns once it is disconnected, or takes too long for that; nobody else connects it meanwhile. False when it
        is not connected.
        """
        if (channel, account) not in self._supervised:
            return False
        task = self._end((channel, account))
        stopped = self._connections.add(channel, account)
        stopped.state, stopped.reason = ConnectionState.STOPPED, "stopped by an operator"
        await asyncio.wait([task], timeout=STOP_SECONDS)
        return True

    def start(self, channel: str, account: str) -> bool:
        """Connect an account that was stopped; False when it is connected, or there is none."""
        key = (channel, account)
        if key in self._supervised or key not in self._wanted:
            return False
        row = self._connections.add(channel, account)
        row.state, row.reason = ConnectionState.CONNECTING, ""
        self._connect_missing(only=key)
        return True

    def is_supervised(self, channel: str, account: str) -> bool:
        """Tell whether an account is connected, or tries to be."""
        return (channel, account) in self._supervised

    def stop_reading(self) -> None:
        """Let no account take messages any more; what is to be sent still goes out."""
        for row in self._supervised.values():
            row.supervisor.stop_reading()

    def cancel(self) -> None:
        """Begin to disconnect all; the group awaits it."""
        for row in self._supervised.values():
            row.task.cancel()

    def _connect_missing(self, only: Key | None = None) -> None:
        assert self._group is not None
        for key, spec in self._wanted.items():
            if key in self._supervised or only not in (None, key):
                continue
            supervisor = self._make(spec)
            work = _after(self._ending.get(key), supervisor)
            task = self._group.create_task(work, name=f"supervisor:{key[0]}/{key[1]}")
            self._supervised[key] = _Supervised(spec.fingerprint, supervisor, task)

    def _end(self, key: Key) -> asyncio.Task[None]:
        """Disconnect an account; whoever connects it again waits until it is."""
        task = self._supervised.pop(key).task
        self._connections.remove(*key)
        self._ending[key] = task

        def ended(_: asyncio.Task[None]) -> None:
            if self._ending.get(key) is task:
                del self._ending[key]

        task.add_done_callback(ended)
        task.cancel()
        return task


async def _after(older: asyncio.Task[None] | None, supervisor: Supervisor) -> None:
    """Run a supervisor once the one before it has let go: two connections of one account steal from each other."""
    if older is not None:
        await asyncio.wait([older])
    await supervisor.run()
