"""Tells the owner, in one digest, about messages that did not certainly arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from tidegate.adapters.base import TextPart
from tidegate.errors import StoreError
from tidegate.events import Address
from tidegate.gateway import replies
from tidegate.gateway.parts import text_drafts
from tidegate.sessions.model import Delivery, DeliveryKind, Draft
from tidegate.sessions.store import DeliveryStore, PeopleStore
from tidegate.sessions.wakeups import LANES, TROUBLE, Wakeups

GATHER_SECONDS = 3.0
"""How long to wait for more trouble before the owner is told, so that it is one message."""
SWEEP_SECONDS = 60.0
MAX_LINES = 10
MAX_ROWS = 500

log = structlog.get_logger("reports")


class TroubleReporter:
    """Watches for parts that ended unknown, dead or expired. The digest never holds what was said."""

    def __init__(
        self,
        store: DeliveryStore,
        people: PeopleStore,
        wakeups: Wakeups,
        owners: Callable[[], frozenset[str]],
        render: Callable[[Address, str], tuple[TextPart, ...]],
    ) -> None:
        self._store = store
        self._people = people
        self._wakeups = wakeups
        self._owners = owners
        self._render = render

    async def run(self) -> None:
        """Report until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(), name="reports.listen")
            group.create_task(self._sweep(), name="reports.sweep")

    async def _listen(self) -> None:
        async for _ in self._wakeups.listen(TROUBLE):
            await asyncio.sleep(GATHER_SECONDS)
            await self._report()

    async def _sweep(self) -> None:
        while True:
            await self._report()
            await asyncio.sleep(SWEEP_SECONDS)

    async def _report(self) -> None:
        try:
            rows = await self._store.troubled(MAX_ROWS)
            if not rows:
                return
            reports = [row for row in rows if row.payload.get("report")]
            others = [row for row in rows if not row.payload.get("report")]
            owner = await self._owner_address()
            if reports:
                # A report that cannot be delivered is not reported about: that would never end.
                await self._store.report([row.id for row in reports], ())
            if not others:
                return
            if owner is None:
                log.warning("reports.no_owner", parts=len(others))
                return
            await self._store.report([row.id for row in others], self._digest(owner, others))
            self._wakeups.announce(LANES, [owner])
        except StoreError as error:
            log.error("reports.failed", error=str(error))

    async def _owner_address(self) -> Address | None:
        owners = self._owners()
        contacts = await self._people.contacts()
        return next((address for identity, address in contacts.items() if identity in owners), None)

    def _digest(self, owner: Address, rows: Sequence[Delivery]) -> list[Draft]:
        lines = [replies.trouble_line(str(row.address), row.state.value, row.reason) for row in rows[:MAX_LINES]]
        parts = self._render(owner, replies.trouble(lines, len(rows)))
        drafts = text_drafts(owner, parts, kind=DeliveryKind.NOTICE)
        return [Draft(draft.address, {**draft.payload, "report": True}, draft.kind) for draft in drafts]
