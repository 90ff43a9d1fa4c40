"""What people look at, from the store in memory; the twin of `sqlite/reads.py`."""

from __future__ import annotations

from collections import Counter

from tidegate.sessions.memory.tables import SessionRow, Tables
from tidegate.sessions.model import RECENT, ConversationSummary, DeliveryKind, HistoryRow, SessionSummary, Totals
from tidegate.sessions.titles import title_of


def summary_of(tables: Tables, row: SessionRow) -> SessionSummary:
    """Return the line of a session."""
    current = tables.conversations.get(row.conversation)
    return SessionSummary(
        key=row.key,
        agent=row.agent,
        conversation=current.uuid if current else "",
        waiting=row.queue.head - row.queue.done,
        running=row.owner is not None,
        messages=len(tables.messages.get(row.conversation, ())),
        started_at=current.started_at if current else row.created_at,
        touched_at=row.touched_at,
        settings=dict(row.settings),
    )


def sessions(tables: Tables, limit: int) -> list[SessionSummary]:
    """Return the sessions, the most recently used first."""
    rows = sorted(tables.sessions.values(), key=lambda row: (row.touched_at, row.id), reverse=True)
    return [summary_of(tables, row) for row in rows[:limit]]


def conversations(tables: Tables, key: str, limit: int) -> list[ConversationSummary]:
    """Return the conversations of a session, the newest first."""
    session = tables.session_ids.get(key, 0)
    found = []
    for row in reversed([row for row in tables.conversations.values() if row.session == session]):
        said = tables.messages.get(row.id, ())
        title = title_of(said[0][1]) if said else ""
        found.append(ConversationSummary(row.uuid, row.started_at, row.ended_at, row.end_reason, len(said), title))
    return found[:limit]


def transcript(tables: Tables, conversation: str, limit: int) -> list[HistoryRow]:
    """Return the last messages of a conversation, oldest first."""
    number = next((row.id for row in tables.conversations.values() if row.uuid == conversation), 0)
    said = tables.messages.get(number, ())
    return [HistoryRow(seq, body) for seq, body, _ in said[max(0, len(said) - limit) :]]


def totals(tables: Tables) -> Totals:
    """Return counts for `status`."""
    newest = list(tables.events.values())[-RECENT:]
    first_part = max(tables.deliveries, default=0) - RECENT
    parts = [
        row
        for row in tables.deliveries.values()
        if row.kind is not DeliveryKind.PREVIEW and (row.id > first_part or row.is_open)
    ]
    rows = tables.sessions.values()
    return Totals(
        events=dict(Counter(row.state.value for row in newest)),
        deliveries=dict(Counter(row.state.value for row in parts)),
        sessions=len(rows),
        running=sum(row.owner is not None for row in rows),
        waiting=sum(row.queue.head - row.queue.done for row in rows),
        stored=len(tables.events),
    )
