"""The store on SQLite: each method hands one transaction to the writer, or one query to the reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate.clock import SECOND, Clock
from tidegate.events import Address, MessageEvent
from tidegate.faults import CrashPoint, Faults
from tidegate.sessions.codec import dump_json, load_numbers
from tidegate.sessions.devices import RequestKey
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
from tidegate.sessions.sqlite import inbox, outbox, people, turns
from tidegate.sessions.sqlite.devices import SqliteDevices, claim_key, settle_key
from tidegate.sessions.sqlite.operating import SqliteOperating
from tidegate.sessions.sqlite.reads import Reader
from tidegate.sessions.sqlite.writer import Writer


class SqliteStore(SqliteDevices, SqliteOperating):
    """Everything durable, in one SQLite file.

    Args:
        path: The database file; created with mode 0600 when missing.
    """

    def __init__(self, path: Path, clock: Clock, faults: Faults) -> None:
        self._path = path
        self._clock = clock
        self._writer = Writer(path, faults)
        self._reader = Reader(path)

    async def open(self) -> None:
        """Open the database. Raises StoreCorrupt or StoreUnavailable."""
        await self._writer.open()
        now = self._clock.now()
        await self._writer.run(lambda c: outbox.settle_lost_previews(c, now))
        await self._writer.run(lambda c: outbox.forget_waits(c, now))

    async def close(self) -> None:
        """Finish pending writes and close."""
        await self._reader.close()
        await self._writer.close()

    def statistics(self) -> Mapping[str, Any]:
        """Return the size of the database and its log, in bytes."""
        wal = self._path.with_name(self._path.name + "-wal")
        return {
            "path": str(self._path),
            "bytes": self._path.stat().st_size,
            "wal_bytes": wal.stat().st_size if wal.exists() else 0,
        }

    # Events

    async def append_events(self, batch: Sequence[NewEvent], cursor: CursorUpdate | None = None) -> Sequence[Appended]:
        """See `EventStore`."""
        now = self._clock.now()
        return await self._writer.run(
            lambda c: inbox.append_events(c, batch, cursor, now),
            *([CrashPoint.EVENT_STORED] if batch else []),
        )

    async def load_cursor(self, channel: str, account: str) -> str | None:
        """See `EventStore`."""
        rows = await self._reader.rows("SELECT value FROM cursors WHERE channel = ? AND account = ?", channel, account)
        return rows[0][0] if rows else None

    async def pending_commands(self) -> Sequence[PendingCommand]:
        """See `EventStore`."""
        return await self._writer.run(inbox.pending_commands)

    async def apply_command(
        self, event_id: int, change: SessionChange, reply: Callable[[Changed], Sequence[Draft]]
    ) -> Changed | None:
        """See `EventStore`."""
        now = self._clock.now()
        return await self._writer.run(lambda c: inbox.apply_command(c, event_id, change, reply, now))

    # Turns

    async def waiting_sessions(self) -> Sequence[str]:
        """See `TurnStore`."""
        return await self._reader.waiting_sessions()

    async def claim(self, key: str, owner: str, rules: ClaimRules) -> ClaimedTurn | NotYet | None:
        """See `TurnStore`."""
        now = self._clock.now()
        return await self._writer.run(lambda c: turns.claim(c, key, owner, rules, now), CrashPoint.TURN_CLAIMED)

    async def journal(self, turn: ClaimedTurn, entry: JournalEntry) -> bool:
        """See `TurnStore`."""
        now = self._clock.now()
        if entry.tool_started is not None:
            point = CrashPoint.TOOL_STARTED
        elif entry.tool_ended is not None:
            point = CrashPoint.TOOL_ENDED
        else:
            point = CrashPoint.REPLY_JOURNALLED
        return await self._writer.run(lambda c: turns.journal(c, turn, entry, now), point)

    async def take_steering(
        self,
        turn: ClaimedTurn,
        accept: Callable[[MessageEvent, bool, str], str | None],
        encode: Callable[[str], str],
    ) -> Sequence[HistoryRow]:
        """See `TurnStore`."""
        return await self._writer.run(lambda c: turns.take_steering(c, turn, accept, encode))

    async def finish(self, turn: ClaimedTurn, end: Finish) -> bool:
        """See `TurnStore`."""
        now = self._clock.now()
        return await self._writer.run(
            lambda c: turns.finish(c, turn, end, now), CrashPoint.REPLY_JOURNALLED, CrashPoint.REPLY_IN_OUTBOX
        )

    async def release(self, owner: str) -> None:
        """See `TurnStore`."""
        await self._writer.run(lambda c: turns.release(c, owner))

    async def extend(self, leases: Sequence[Lease], seconds: float) -> Sequence[Lease]:
        """See `TurnStore`."""
        until = self._clock.now() + int(seconds * SECOND)
        return await self._writer.run(lambda c: turns.extend(c, leases, until))

    # Deliveries

    async def add_deliveries(self, drafts: Sequence[Draft]) -> Sequence[int]:
        """See `DeliveryStore`."""
        now = self._clock.now()
        return await self._writer.run(lambda c: outbox.insert_drafts(c, drafts, now))

    async def add_deliveries_once(self, request: RequestKey, drafts: Sequence[Draft]) -> Sequence[int] | None:
        """See `DeliveryStore`."""
        now = self._clock.now()
        where = (request.caller, request.method, request.key)

        def work(c: Any) -> Sequence[int] | None:
            claimed = claim_key(c, where, "", now)
            if claimed is not None:
                return load_numbers(claimed)
            numbers = outbox.insert_drafts(c, drafts, now)
            settle_key(c, where, dump_json(numbers))
            return numbers

        return await self._writer.run(work)

    async def open_lanes(self, channel: str, account: str) -> Sequence[Address]:
        """See `DeliveryStore`."""
        return await self._reader.open_lanes(channel, account)

    async def begin_sending(self, address: Address, owner: str, *, may_send: bool) -> Delivery | None:
        """See `DeliveryStore`."""
        now = self._clock.now()
        return await self._writer.run(
            lambda c: outbox.begin_sending(c, address, owner, now, may_send=may_send), CrashPoint.SENDING_STORED
        )

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """See `DeliveryStore`."""
        now = self._clock.now()
        sent = any(item.state is DeliveryState.SENT for item in settlements)
        await self._writer.run(
            lambda c: outbox.settle(c, settlements, now), *([CrashPoint.RECEIPT_STORED] if sent else [])
        )

    async def open_preview(self, turn: ClaimedTurn, draft: Draft) -> int:
        """See `DeliveryStore`."""
        now = self._clock.now()
        preview = Draft(draft.address, draft.payload, DeliveryKind.PREVIEW)

        def work(c: Any) -> int:
            turns.hold(c, turn)
            return outbox.insert_drafts(c, [preview], now, turn=turn.turn, state=DeliveryState.SENDING)[0]

        return await self._writer.run(work)

    async def troubled(self, limit: int) -> Sequence[Delivery]:
        """See `DeliveryStore`."""
        return await self._reader.troubled(limit)

    async def deliveries(self, states: Sequence[DeliveryState], since: int, limit: int) -> Sequence[Delivery]:
        """See `ReadStore`."""
        return await self._reader.deliveries(states, since, limit)

    async def delivery(self, number: int) -> Delivery | None:
        """See `ReadStore`."""
        return await self._reader.delivery(number)

    async def report(self, deliveries: Sequence[int], drafts: Sequence[Draft]) -> None:
        """See `DeliveryStore`."""
        now = self._clock.now()
        await self._writer.run(lambda c: outbox.report(c, deliveries, drafts, now))

    # People and model keys

    async def pairing_requests(self) -> Sequence[PairingRequest]:
        """See `PeopleStore`."""
        now = self._clock.now()
        return await self._writer.run(lambda c: people.pairing_requests(c, now))

    async def approve_pairing(
        self, channel: str, code: str, *, may_own: bool
    ) -> tuple[PairingRequest, Address, bool] | None:
        """See `PeopleStore`."""
        now = self._clock.now()
        return await self._writer.run(lambda c: people.approve_pairing(c, channel, code, may_own, now))

    async def reject_pairing(self, channel: str, code: str) -> PairingRequest | None:
        """See `PeopleStore`."""
        now = self._clock.now()
        return await self._writer.run(lambda c: people.reject_pairing(c, channel, code, now))

    async def allowed_senders(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """See `PeopleStore`."""
        return await self._writer.run(people.allowed_senders)

    async def owners(self) -> frozenset[str]:
        """See `PeopleStore`."""
        return await self._writer.run(people.owners)

    async def note_contact(self, identity: str, address: Address) -> None:
        """See `PeopleStore`."""
        now = self._clock.now()
        await self._writer.run(lambda c: people.note_contact(c, identity, address, now))

    async def contacts(self) -> Mapping[str, Address]:
        """See `PeopleStore`."""
        return await self._writer.run(people.contacts)

    async def load_cooldowns(self) -> Sequence[tuple[str, str, str, int, int, str]]:
        """See `CooldownStore`."""
        return await self._reader.load_cooldowns()

    async def put_cooldown(
        self, provider: str, model: str, credential: str, until: int, failures: int, reason: str
    ) -> None:
        """See `CooldownStore`."""
        await self._writer.run(lambda c: people.put_cooldown(c, provider, model, credential, until, failures, reason))

    # Looking

    async def sessions(self, limit: int) -> Sequence[SessionSummary]:
        """See `ReadStore`."""
        return await self._reader.sessions(limit)

    async def session(self, key: str) -> SessionSummary | None:
        """See `ReadStore`."""
        return await self._reader.session(key)

    async def conversations(self, key: str, limit: int) -> Sequence[ConversationSummary]:
        """See `ReadStore`."""
        return await self._reader.conversations(key, limit)

    async def transcript(self, conversation: str, limit: int) -> Sequence[HistoryRow]:
        """See `ReadStore`."""
        return await self._reader.transcript(conversation, limit)

    async def totals(self) -> Totals:
        """See `ReadStore`."""
        return await self._reader.totals()

    async def session_settings(self) -> Mapping[str, Mapping[str, Any]]:
        """See `ReadStore`."""
        return await self._reader.session_settings()
