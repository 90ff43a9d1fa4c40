"""Who is admitted and who is the owner, as the store knows them; a copy in memory that can be loaded anew."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.sessions.store import PeopleStore


class People:
    """The store's answers about people. `load` after every change."""

    def __init__(self, store: PeopleStore) -> None:
        self._store = store
        self._allowed: Mapping[tuple[str, str], frozenset[str]] = {}
        self._owners: frozenset[str] = frozenset()

    async def load(self) -> None:
        """Read everything anew."""
        self._allowed = await self._store.allowed_senders()
        self._owners = await self._store.owners()

    def paired(self, channel: str, account: str) -> frozenset[str]:
        """Return the sender ids that pairing admitted on an account."""
        return self._allowed.get((channel, account), frozenset())

    @property
    def owners(self) -> frozenset[str]:
        """Return the identities (`channel:id`) that pairing made the owner."""
        return self._owners
