"""The store in memory: a method is one step without an await, undone as a whole when it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tidegate.clock import SECOND, Clock
from tidegate.errors import StoreUnavailable
from tidegate.events import Address, MessageEvent
from tidegate.sessions.codec import dump_json, load_numbers
from tidegate.sessions.devices import RequestKey
from tidegate.sessions.memory import inbox, outbox, people, reads, turns
from tidegate.sessions.memory.devices import MemoryDevices, claim_key
from tidegate.sessions.memory.operating import MemoryOperating
from tidegate.sessions.memory.tables import Tables
from tidegate.sessions.model import (
    Appended,
    Changed,
    ClaimedTurn,
    ClaimRules,
    ConversationSummary,
    CursorUpdate,
    Delivery,
    DeliveryKind,
    DeliveryState,
    Draft,
    Finish,
    HistoryRow,
    JournalEntry,
    Lease,
    NewEvent,
    NotYet,
    PairingRequest,
    PendingCommand,
    SessionChange,
    SessionSummary,
    Settlement,
    Totals,
)

Result = TypeVar("Result")


class MemoryStore(MemoryDevices, MemoryOperating):
    """Implements `Store` without a file. What it holds outlives `close`, so that a test can open it again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tables = Tables()
        self._is_open = False

    async def open(self) -> None:
        """Open the store."""
        self._is_open = True
        self._write(outbox.settle_lost_previews)
        self._write(lambda t: outbox.forget_waits(t, self._clock.now()))

    async def close(self) -> None:
        """Close the store; every method raises StoreUnavailable from then on."""
        self._is_open = False

    def statistics(self) -> Mapping[str, Any]:
        """Return how many rows there are."""
        return {"path": "memory", "events": len(self._tables.events), "deliveries": len(self._tables.deliveries)}

    def _read(self) -> Tables:
        if not self._is_open:
            raise StoreUnavailable("the store is closed")
        return self._tables

    def _write(self, work: Callable[[Tables], Result]) -> Result:
        before = self._read().snapshot()
        try:
            return work(self._tables)
        except BaseException:
            self._tables = before
            raise

    async def append_events(self, batch: Sequence[NewEvent], cursor: CursorUpdate | None = None) -> Sequence[Appended]:
        """See `EventStore`."""
        return self._write(lambda t: inbox.append_events(t, batch, cursor, self._clock.now()))

    async def load_cursor(self, channel: str, account: str) -> str | None:
        """See `EventStore`."""
        return self._read().cursors.get((channel, account))

    async def pending_commands(self) -> Sequence[PendingCommand]:
        """See `EventStore`."""
        return inbox.pending_commands(self._read())

    async def apply_command(
        self, event_id: int, change: SessionChange, reply: Callable[[Changed], Sequence[Draft]]
    ) -> Changed | None:
        """See `EventStore`."""
        return self._write(lambda t: inbox.apply_command(t, event_id, change, reply, self._clock.now()))

    async def waiting_sessions(self) -> Sequence[str]:
        """See `TurnStore`."""
        return [row.key for row in self._read().sessions.values() if row.waits]

    async def claim(self, key: str, owner: str, rules: ClaimRules) -> ClaimedTurn | NotYet | None:
        """See `TurnStore`."""
        return self._write(lambda t: turns.claim(t, key, owner, rules, self._clock.now()))

    async def journal(self, turn: ClaimedTurn, entry: JournalEntry) -> bool:
        """See `TurnStore`."""
        return self._write(lambda t: turns.journal(t, turn, entry))

    async def take_steering(
        self,
        turn: ClaimedTurn,
        accept: Callable[[MessageEvent, bool, str], str | None],
        encode: Callable[[str], str],
    ) -> Sequence[HistoryRow]:
        """See `TurnStore`."""
        return self._write(lambda t: turns.take_steering(t, turn, accept, encode))

    async def finish(self, turn: ClaimedTurn, end: Finish) -> bool:
        """See `TurnStore`."""
        return self._write(lambda t: turns.finish(t, turn, end, self._clock.now()))

    async def release(self, owner: str) -> None:
        """See `TurnStore`."""
        self._write(lambda t: turns.release(t, owner))

    async def extend(self, leases: Sequence[Lease], seconds: float) -> Sequence[Lease]:
        """See `TurnStore`."""
        until = self._clock.now() + int(seconds * SECOND)
        return self._write(lambda t: turns.extend(t, leases, until))

    async def add_deliveries(self, drafts: Sequence[Draft]) -> Sequence[int]:
        """See `DeliveryStore`."""
        return self._write(lambda t: outbox.insert_drafts(t, drafts, self._clock.now()))

    async def add_deliveries_once(self, request: RequestKey, drafts: Sequence[Draft]) -> Sequence[int] | None:
        """See `DeliveryStore`."""
        where, now = (request.caller, request.method, request.key), self._clock.now()

        def work(tables: Tables) -> Sequence[int] | None:
            claimed = claim_key(tables, where, "", now)
            if claimed is not None:
                return load_numbers(claimed)
            numbers = outbox.insert_drafts(tables, drafts, now)
            tables.request_keys[where] = (dump_json(numbers), now)
            return numbers

        return self._write(work)

    async def open_lanes(self, channel: str, account: str) -> Sequence[Address]:
        """See `DeliveryStore`."""
        lanes = {
            row.address: None
            for row in self._read().deliveries.values()
            if row.is_open
            and row.kind is not DeliveryKind.PREVIEW
            and (row.address.channel, row.address.account) == (channel, account)
        }
        return list(lanes)

    async def begin_sending(self, address: Address, owner: str, *, may_send: bool) -> Delivery | None:
        """See `DeliveryStore`."""
        return self._write(lambda t: outbox.begin_sending(t, address, self._clock.now(), may_send=may_send))

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """See `DeliveryStore`."""
        self._write(lambda t: outbox.settle(t, settlements))

    async def open_preview(self, turn: ClaimedTurn, draft: Draft) -> int:
        """See `DeliveryStore`."""
        preview = Draft(draft.address, draft.payload, DeliveryKind.PREVIEW)

        def work(tables: Tables) -> int:
            turns.hold(tables, turn)
            state = DeliveryState.SENDING
            return outbox.insert_drafts(tables, [preview], self._clock.now(), turn=turn.turn, state=state)[0]

        return self._write(work)

    async def troubled(self, limit: int) -> Sequence[Delivery]:
        """See `DeliveryStore`."""
        return outbox.troubled(self._read(), limit)

    async def deliveries(self, states: Sequence[DeliveryState], since: int, limit: int) -> Sequence[Delivery]:
        """See `ReadStore`."""
        return outbox.listed(self._read(), states, since, limit)

    async def delivery(self, number: int) -> Delivery | None:
        """See `ReadStore`."""
        row = self._read().deliveries.get(number)
        return outbox.delivery_of(row) if row is not None else None

    async def report(self, deliveries: Sequence[int], drafts: Sequence[Draft]) -> None:
        """See `DeliveryStore`."""
        self._write(lambda t: outbox.report(t, deliveries, drafts, self._clock.now()))

    async def pairing_requests(self) -> Sequence[PairingRequest]:
        """See `PeopleStore`."""
        return people.pairing_requests(self._read(), self._clock.now())

    async def approve_pairing(
        self, channel: str, code: str, *, may_own: bool
    ) -> tuple[PairingRequest, Address, bool] | None:
        """See `PeopleStore`."""
        return self._write(lambda t: people.approve_pairing(t, channel, code, may_own, self._clock.now()))

    async def reject_pairing(self, channel: str, code: str) -> PairingRequest | None:
        """See `PeopleStore`."""
        found = self._write(lambda t: people.take_request(t, channel, code, self._clock.now()))
        return found[0] if found else None

    async def allowed_senders(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """See `PeopleStore`."""
        found: dict[tuple[str, str], set[str]] = {}
        for channel, account, sender in self._read().allowed:
            found.setdefault((channel, account), set()).add(sender)
        return {where: frozenset(senders) for where, senders in found.items()}

    async def owners(self) -> frozenset[str]:
        """See `PeopleStore`."""
        return frozenset(self._read().owners)

    async def note_contact(self, identity: str, address: Address) -> None:
        """See `PeopleStore`."""
        self._read().contacts[identity] = (address, self._clock.now())

    async def contacts(self) -> Mapping[str, Address]:
        """See `PeopleStore`."""
        rows = sorted(self._read().contacts.items(), key=lambda item: item[1][1], reverse=True)
        return {identity: address for identity, (address, _) in rows}

    async def load_cooldowns(self) -> Sequence[tuple[str, str, str, int, int, str]]:
        """See `CooldownStore`."""
        return [(*where, *what) for where, what in self._read().cooldowns.items()]

    async def put_cooldown(
        self, provider: str, model: str, credential: str, until: int, failures: int, reason: str
    ) -> None:
        """See `CooldownStore`."""
        rows, where = self._read().cooldowns, (provider, model, credential)
        rows.pop(where, None)
        if until:
            rows[where] = (until, failures, reason)

    async def sessions(self, limit: int) -> Sequence[SessionSummary]:
        """See `ReadStore`."""
        return reads.sessions(self._read(), limit)

    async def session(self, key: str) -> SessionSummary | None:
        """See `ReadStore`."""
        row = self._read().session(key)
        return reads.summary_of(self._read(), row) if row else None

    async def conversations(self, key: str, limit: int) -> Sequence[ConversationSummary]:
        """See `ReadStore`."""
        return reads.conversations(self._read(), key, limit)

    async def transcript(self, conversation: str, limit: int) -> Sequence[HistoryRow]:
        """See `ReadStore`."""
        return reads.transcript(self._read(), conversation, limit)

    async def totals(self) -> Totals:
        """See `ReadStore`."""
        return reads.totals(self._read())

    async def session_settings(self) -> Mapping[str, Mapping[str, Any]]:
        """See `ReadStore`."""
        return {row.key: dict(row.settings) for row in self._read().sessions.values() if row.settings}
