"""Transactions of the outbox: parts stored before they are sent, settled after."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from sqlite3 import Connection
from typing import Any

from tidegate.events import Address
from tidegate.ids import new_id
from tidegate.sessions.codec import dump_json
from tidegate.sessions.model import Delivery, DeliveryKind, DeliveryState, Draft, Settlement
from tidegate.sessions.queueing import is_ahead

COLUMNS = (
    "id, token, channel, account, chat, thread, kind, payload, state, attempt, due_at, created_at, platform_id, reason"
)

TROUBLE = frozenset({DeliveryState.UNKNOWN, DeliveryState.DEAD, DeliveryState.EXPIRED})
"""Outcomes that the owner is told about."""
NO_RECEIPT = "preview without receipt"


def row_to_delivery(row: Sequence[Any], *, stale: bool = False) -> Delivery:
    """Return the delivery of a row selected with `COLUMNS`."""
    return Delivery(
        id=row[0],
        token=row[1],
        address=Address(row[2], row[3], row[4], row[5]),
        kind=DeliveryKind(row[6]),
        payload=json.loads(row[7]),
        state=DeliveryState(row[8]),
        attempt=row[9],
        due_at=row[10],
        created_at=row[11],
        platform_id=row[12],
        reason=row[13],
        stale=stale,
    )


def insert_drafts(
    connection: Connection,
    drafts: Sequence[Draft],
    now: int,
    *,
    turn: int | None = None,
    state: DeliveryState = DeliveryState.DUE,
) -> list[int]:
    """Store parts in order; returns their row ids."""
    ids = []
    for draft in drafts:
        address = draft.address
        cursor = connection.execute(
            "INSERT INTO deliveries(token, channel, account, chat, thread, turn, kind, payload, state, due_at,"
            " created_at) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            (
                new_id(),
                address.channel,
                address.account,
                address.chat,
                address.thread,
                turn,
                draft.kind.value,
                dump_json(draft.payload),
                state.value,
                draft.due_at or now,
                now,
            ),
        )
        ids.append(cursor.lastrowid or 0)
    return ids


def begin_sending(connection: Connection, address: Address, owner: str, now: int, *, may_send: bool) -> Delivery | None:
    """Take the oldest open part of a lane; see `DeliveryStore.begin_sending`."""
    row = connection.execute(
        f"SELECT {COLUMNS} FROM deliveries WHERE channel = ? AND account = ? AND chat = ? AND thread IS ?"
        " AND settled_at IS NULL AND kind <> 'preview' ORDER BY id LIMIT 1",
        (address.channel, address.account, address.chat, address.thread),
    ).fetchone()
    if row is None:
        return None
    found = row_to_delivery(row)
    if found.state is DeliveryState.SENDING:
        return row_to_delivery(row, stale=True)
    if is_ahead(found.due_at, now) or not may_send:
        return found
    connection.execute(
        "UPDATE deliveries SET state = 'sending', attempt = attempt + 1, owner = ? WHERE id = ?", (owner, found.id)
    )
    return replace(found, state=DeliveryState.SENDING, attempt=found.attempt + 1)


def settle(connection: Connection, settlements: Sequence[Settlement], now: int) -> None:
    """Record outcomes; a part that is settled already keeps its first one."""
    for item in settlements:
        done = None if item.state is DeliveryState.DUE else now
        # A preview that was not sent is nothing to report: its text comes with the reply.
        trouble = item.state in TROUBLE
        if item.sends_anew:
            connection.execute(
                "UPDATE deliveries SET payload = json_remove(payload, '$.edit_of') WHERE id = ?", (item.delivery,)
            )
        connection.execute(
            "UPDATE deliveries SET state = ?, platform_id = COALESCE(?, platform_id), due_at = MAX(due_at, ?),"
            " settled_at = ?, reason = ?, trouble = CASE WHEN kind = 'preview' THEN ? ELSE ? END"
            " WHERE id = ? AND settled_at IS NULL",
            (
                item.state.value,
                item.platform_id,
                item.due_at,
                done,
                item.reason,
                item.state is DeliveryState.UNKNOWN,
                trouble,
                item.delivery,
            ),
        )


def sent_preview(connection: Connection, turn: int) -> str | None:
    """Return the platform id of the message in which a turn shows its answer, or None."""
    row = connection.execute(
        "SELECT platform_id FROM deliveries WHERE turn = ? AND kind = 'preview' AND state = 'sent'"
        " ORDER BY id DESC LIMIT 1",
        (turn,),
    ).fetchone()
    return row[0] if row else None


def use_preview(connection: Connection, turn: int, drafts: Sequence[Draft], now: int) -> tuple[Draft, ...]:
    """Let the first part replace the preview that is known to exist; report one whose fate is unknown."""
    rows = connection.execute(
        "SELECT id, state, platform_id FROM deliveries WHERE turn = ? AND kind = 'preview' ORDER BY id", (turn,)
    ).fetchall()
    if not rows:
        return tuple(drafts)
    # A crash may have left an older preview without a receipt, besides the newest one.
    unknown = [row[0] for row in rows if row[1] == DeliveryState.SENDING.value]
    settle(connection, [Settlement(i, DeliveryState.UNKNOWN, reason=NO_RECEIPT) for i in unknown], now)
    _, state, platform_id = rows[-1]
    if state != DeliveryState.SENT.value or not platform_id or not drafts:
        return tuple(drafts)
    first, *rest = drafts
    if first.payload.get("file"):
        return tuple(drafts)
    replaced = Draft(first.address, {**first.payload, "edit_of": platform_id}, first.kind, first.due_at)
    return (replaced, *rest)


def report(connection: Connection, deliveries: Sequence[int], drafts: Sequence[Draft], now: int) -> None:
    """Mark parts as reported and queue the report."""
    connection.executemany("UPDATE deliveries SET trouble = 2 WHERE id = ?", [(d,) for d in deliveries])
    insert_drafts(connection, drafts, now)


def forget_waits(connection: Connection, now: int) -> None:
    """Let nothing wait for an instant that an earlier process chose: a restart begins at once.

    The machine's clock may also have been set back since.
    """
    connection.execute(
        "UPDATE deliveries INDEXED BY deliveries_open SET due_at = ? WHERE settled_at IS NULL AND due_at > ?",
        (now, now),
    )
    connection.execute(
        "UPDATE sessions INDEXED BY sessions_waiting SET not_before = 0 WHERE head_seq > done_seq AND not_before > 0"
    )


def settle_lost_previews(connection: Connection, now: int) -> None:
    """Settle previews of turns that no longer run, at the start: nobody is left who will."""
    connection.execute(
        "UPDATE deliveries INDEXED BY deliveries_open SET state = 'unknown', settled_at = ?, reason = ?, trouble = 1"
        " WHERE settled_at IS NULL AND kind = 'preview' AND turn NOT IN (SELECT id FROM turns WHERE state = 'running')",
        (now, NO_RECEIPT),
    )
