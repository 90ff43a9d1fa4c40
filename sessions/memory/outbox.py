"""Transactions of the outbox in memory; the twin of `sqlite/outbox.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from tidegate.events import Address
from tidegate.ids import new_id
from tidegate.sessions.memory.tables import DeliveryRow, Tables
from tidegate.sessions.model import Delivery, DeliveryKind, DeliveryState, Draft, Settlement
from tidegate.sessions.queueing import is_ahead

NO_RECEIPT = "preview without receipt"


def insert_drafts(
    tables: Tables,
    drafts: Sequence[Draft],
    now: int,
    *,
    turn: int | None = None,
    state: DeliveryState = DeliveryState.DUE,
) -> list[int]:
    """Store parts in order; returns their row ids."""
    ids = []
    for draft in drafts:
        number = max(tables.deliveries, default=0) + 1
        tables.deliveries[number] = DeliveryRow(
            number, new_id(), draft.address, draft.kind, dict(draft.payload), state, draft.due_at or now, now, turn
        )
        ids.append(number)
    return ids


def delivery_of(row: DeliveryRow, *, stale: bool = False) -> Delivery:
    """Return a row as callers see it."""
    return Delivery(
        row.id,
        row.token,
        row.address,
        row.kind,
        row.payload,
        row.state,
        row.attempt,
        row.due_at,
        row.created_at,
        row.platform_id,
        row.reason,
        stale,
    )


def begin_sending(tables: Tables, address: Address, now: int, *, may_send: bool) -> Delivery | None:
    """Take the oldest open part of a lane."""
    row = next(
        (
            row
            for row in tables.deliveries.values()
            if row.address == address and row.is_open and row.kind is not DeliveryKind.PREVIEW
        ),
        None,
    )
    if row is None:
        return None
    if row.state is DeliveryState.SENDING:
        return delivery_of(row, stale=True)
    if is_ahead(row.due_at, now) or not may_send:
        return delivery_of(row)
    row = tables.deliveries[row.id] = replace(row, state=DeliveryState.SENDING, attempt=row.attempt + 1)
    return delivery_of(row)


def settle(tables: Tables, settlements: Sequence[Settlement]) -> None:
    """Record outcomes; a part that is settled already keeps its first one."""
    for item in settlements:
        row = tables.deliveries.get(item.delivery)
        if row is not None and row.is_open:
            payload = {key: value for key, value in row.payload.items() if key != "edit_of" or not item.sends_anew}
            tables.deliveries[row.id] = replace(
                row,
                payload=payload,
                state=item.state,
                platform_id=row.platform_id if item.platform_id is None else item.platform_id,
                due_at=max(row.due_at, item.due_at),
                reason=item.reason,
            )


def sent_preview(tables: Tables, turn: int) -> str | None:
    """Return the platform id of the message in which a turn shows its answer, or None."""
    shown = [
        row
        for row in tables.deliveries.values()
        if row.turn == turn and row.kind is DeliveryKind.PREVIEW and row.state is DeliveryState.SENT
    ]
    return shown[-1].platform_id if shown else None


def use_preview(tables: Tables, turn: int, drafts: Sequence[Draft]) -> tuple[Draft, ...]:
    """Let the first part replace the preview that is known to exist; report those whose fate is unknown."""
    rows = [row for row in tables.deliveries.values() if row.turn == turn and row.kind is DeliveryKind.PREVIEW]
    for row in rows:
        if row.state is DeliveryState.SENDING:
            settle(tables, [Settlement(row.id, DeliveryState.UNKNOWN, reason=NO_RECEIPT)])
    newest = rows[-1] if rows else None
    if newest is None or newest.state is not DeliveryState.SENT or not newest.platform_id or not drafts:
        return tuple(drafts)
    first, *rest = drafts
    if first.payload.get("file"):
        return tuple(drafts)
    return (replace(first, payload={**first.payload, "edit_of": newest.platform_id}), *rest)


def forget_waits(tables: Tables, now: int) -> None:
    """Let nothing wait for an instant that an earlier process chose."""
    for delivery in [row for row in tables.deliveries.values() if row.is_open and row.due_at > now]:
        tables.deliveries[delivery.id] = replace(delivery, due_at=now)
    for row in [row for row in tables.sessions.values() if row.waits]:
        tables.sessions[row.id] = replace(row, queue=replace(row.queue, not_before=0))


def settle_lost_previews(tables: Tables) -> None:
    """Settle previews of turns that no longer run."""
    running = set(tables.running.values())
    for row in tables.deliveries.values():
        if row.kind is DeliveryKind.PREVIEW and row.turn not in running:
            settle(tables, [Settlement(row.id, DeliveryState.UNKNOWN, reason=NO_RECEIPT)])


def troubled(tables: Tables, limit: int) -> list[Delivery]:
    """Return parts that ended badly and were not reported yet."""
    bad = (DeliveryState.UNKNOWN, DeliveryState.DEAD, DeliveryState.EXPIRED)
    rows = (
        row
        for row in tables.deliveries.values()
        if row.state in bad
        and not row.reported
        and (row.kind is not DeliveryKind.PREVIEW or row.state is DeliveryState.UNKNOWN)
    )
    return [delivery_of(row) for row in rows][:limit]


def listed(tables: Tables, states: Sequence[DeliveryState], since: int, limit: int) -> list[Delivery]:
    """Return parts in one of these states, the newest first."""
    rows = (
        row
        for row in reversed(tables.deliveries.values())
        if row.state in states
        and row.created_at >= since
        and (row.kind is not DeliveryKind.PREVIEW or row.state is DeliveryState.UNKNOWN)
    )
    return [delivery_of(row) for row in islice(rows, limit)]


def report(tables: Tables, deliveries: Sequence[int], drafts: Sequence[Draft], now: int) -> None:
    """Mark parts as reported and queue the report."""
    for number in deliveries:
        if number in tables.deliveries:
            tables.deliveries[number] = replace(tables.deliveries[number], reported=True)
    insert_drafts(tables, drafts, now)
