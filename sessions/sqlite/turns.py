"""Transactions of turns: claim, journal, steer, finish. Every write shows its lease."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from sqlite3 import Connection

from tidegate.errors import LeaseLost
from tidegate.events import MessageEvent
from tidegate.ids import new_id
from tidegate.sessions.codec import decode_event
from tidegate.sessions.model import (
    ClaimedTurn,
    ClaimRules,
    Finish,
    HistoryRow,
    JournalEntry,
    Lease,
    NotYet,
    Overflow,
    QueuedEvent,
    SessionFacts,
    TurnState,
)
from tidegate.sessions.sqlite.outbox import insert_drafts, use_preview

LEASE_MICROSECONDS = 60_000_000
"""How long a lease lasts unless it is extended."""
MAX_WAITING_LOADED = 500
"""Most waiting events that one claim looks at."""


def claim(connection: Connection, key: str, owner: str, rules: ClaimRules, now: int) -> ClaimedTurn | NotYet | None:
    """Take a session's lease and its next turn; see `TurnStore.claim`."""
    row = connection.execute(
        "SELECT id, agent, conversation, done_seq, not_before, settings FROM sessions"
        " WHERE key = ? AND head_seq > done_seq",
        (key,),
    ).fetchone()
    if row is None:
        return None
    session, agent, conversation, done, not_before, settings = row
    running = connection.execute(
        "SELECT id, run_id, conversation, first_seq, last_seq, attempt, notice, set_aside FROM turns"
        " WHERE session = ? AND state = 'running'",
        (session,),
    ).fetchone()
    loaded_settings = json.loads(settings) if settings else {}
    if running is not None:
        fence = _take_lease(connection, session, owner, now)
        lease = Lease(session, key, owner, fence)
        return _resume(connection, lease, agent, running, loaded_settings, rules)
    if now < not_before:
        return NotYet(not_before)
    waiting = _waiting(connection, session, done)
    if not waiting:
        connection.execute("UPDATE sessions SET done_seq = head_seq WHERE id = ?", (session,))
        return None
    return _begin(connection, (session, key, agent, conversation), done, waiting, loaded_settings, owner, rules, now)


def _waiting(connection: Connection, session: int, after: int) -> list[QueuedEvent]:
    rows = connection.execute(
        "SELECT seq, payload, is_owner, joins, mode, id FROM events WHERE session = ? AND seq > ?"
        " AND state = 'waiting' ORDER BY seq LIMIT ?",
        (session, after, MAX_WAITING_LOADED),
    ).fetchall()
    return [QueuedEvent(r[0], decode_event(r[1]), bool(r[2]), bool(r[3]), r[4], r[5]) for r in rows]


def _take_lease(connection: Connection, session: int, owner: str, now: int, conversation: int = 0) -> int:
    row = connection.execute(
        "UPDATE sessions SET owner = ?, fence = fence + 1, lease_until = ?, touched_at = ?, window_ends = 0,"
        " conversation = CASE WHEN ? THEN ? ELSE conversation END WHERE id = ? RETURNING fence",
        (owner, now + LEASE_MICROSECONDS, now, conversation, conversation, session),
    ).fetchone()
    return int(row[0])


def _begin(
    connection: Connection,
    which: tuple[int, str, str, int],
    done: int,
    waiting: list[QueuedEvent],
    settings: dict[str, object],
    owner: str,
    rules: ClaimRules,
    now: int,
) -> ClaimedTurn:
    session, key, agent, conversation = which
    conversation, uuid, notice = _conversation(connection, which, settings, rules, now)
    talk, overflow = _before_turn(connection, session, waiting[0].event_id)
    plan = rules.plan(waiting, talk, overflow)
    taken, last_seq = waiting[: plan.take], waiting[plan.take - 1].seq
    if plan.set_aside:
        connection.execute(
            "UPDATE events SET state = 'set_aside', reason = 'interrupt' WHERE session = ? AND seq <= ?"
            " AND state = 'waiting'",
            (session, taken[plan.set_aside - 1].seq),
        )
    fence = _take_lease(connection, session, owner, now, conversation)
    answered = taken[plan.set_aside :]
    run_id = new_id()
    turn = connection.execute(
        "INSERT INTO turns(run_id, session, conversation, first_seq, last_seq, set_aside, attempt, fence, state,"
        " notice, started_at) VALUES (?,?,?,?,?,?,1,?,'running',?,?)",
        (run_id, session, conversation, answered[0].seq, last_seq, plan.set_aside, fence, notice, now),
    ).lastrowid
    bodies = [rules.encode(text) for text in plan.texts]
    history = _load_history(connection, conversation, rules.history_limit)
    history += append_messages(connection, conversation, turn or 0, bodies, history[-1].seq if history else 0)
    return ClaimedTurn(
        lease=Lease(session, key, owner, fence),
        turn=turn or 0,
        run_id=run_id,
        agent=agent,
        conversation=uuid,
        attempt=1,
        events=tuple(item.event for item in answered),
        is_owner=all(item.is_owner for item in answered),
        history=tuple(history),
        started_calls=frozenset(),
        settings=settings,
        notice=notice,
        set_aside=plan.set_aside,
    )


def _conversation(
    connection: Connection,
    which: tuple[int, str, str, int],
    settings: dict[str, object],
    rules: ClaimRules,
    now: int,
) -> tuple[int, str, str]:
    """Return row id and public id of the conversation to go on with, and why it is a new one, if it is."""
    session, key, agent, conversation = which
    reason = ""
    if conversation:
        uuid, started_at, touched_at, last = connection.execute(
            "SELECT c.uuid, c.started_at, s.touched_at, (SELECT MAX(seq) FROM messages WHERE conversation = c.id)"
            " FROM conversations c JOIN sessions s ON s.id = c.session WHERE c.id = ?",
            (conversation,),
        ).fetchone()
        facts = SessionFacts(key, agent, started_at, touched_at, settings, last is not None)
        reason = (rules.stale(facts, now) or "") if last is not None else ""
        if not reason:
            return conversation, uuid, ""
        connection.execute(
            "UPDATE conversations SET ended_at = ?, end_reason = ? WHERE id = ?", (now, reason, conversation)
        )
    uuid = new_id()
    cursor = connection.execute(
        "INSERT INTO conversations(uuid, session, started_at) VALUES (?,?,?)", (uuid, session, now)
    )
    return cursor.lastrowid or 0, uuid, reason


def _before_turn(connection: Connection, session: int, before: int) -> tuple[list[MessageEvent], Overflow]:
    """Take the group talk before an event, and what a full queue left out; both are shown once."""
    talk = connection.execute(
        "UPDATE events SET state = 'handled' WHERE session = ? AND state = 'context' AND id < ? RETURNING id, payload",
        (session, before),
    ).fetchall()
    dropped = connection.execute(
        "UPDATE events SET reason = 'summarized' WHERE session = ? AND state = 'dropped' AND reason = 'summarize'"
        " RETURNING seq, payload",
        (session,),
    ).fetchall()
    return (
        [decode_event(payload) for _, payload in sorted(talk)],
        Overflow(len(dropped), tuple(decode_event(payload).text for _, payload in sorted(dropped))),
    )


def _load_history(connection: Connection, conversation: int, limit: int) -> list[HistoryRow]:
    rows = connection.execute(
        "SELECT seq, body FROM messages WHERE conversation = ? ORDER BY seq DESC LIMIT ?",
        (conversation, limit),
    ).fetchall()
    rows.reverse()
    return [HistoryRow(*row) for row in rows]


def append_messages(
    connection: Connection, conversation: int, turn: int, bodies: Sequence[str], last: int | None = None
) -> list[HistoryRow]:
    """Append to a transcript; `last` is its newest seq when known."""
    if not bodies:
        return []
    if last is None:
        last = connection.execute(
            "SELECT COALESCE(MAX(seq), 0) FROM messages WHERE conversation = ?", (conversation,)
        ).fetchone()[0]
    assert last is not None
    rows = [(conversation, last + 1 + index, turn, body) for index, body in enumerate(bodies)]
    connection.executemany("INSERT INTO messages(conversation, seq, turn, body) VALUES (?,?,?,?)", rows)
    return [HistoryRow(row[1], row[3], turn) for row in rows]


def _resume(
    connection: Connection,
    lease: Lease,
    agent: str,
    running: tuple[int, str, int, int, int, int, str, int],
    settings: dict[str, object],
    rules: ClaimRules,
) -> ClaimedTurn:
    turn, run_id, conversation, first_seq, last_seq, attempt, notice, set_aside = running
    connection.execute("UPDATE turns SET attempt = attempt + 1, fence = ? WHERE id = ?", (lease.fence, turn))
    taken = [item for item in _waiting(connection, lease.session, first_seq - 1) if item.seq <= last_seq]
    started = connection.execute(
        "SELECT call_id FROM tool_calls WHERE turn = ? AND ended_at IS NULL", (turn,)
    ).fetchall()
    uuid = connection.execute("SELECT uuid FROM conversations WHERE id = ?", (conversation,)).fetchone()[0]
    return ClaimedTurn(
        lease=lease,
        turn=turn,
        run_id=run_id,
        agent=agent,
        conversation=uuid,
        attempt=attempt + 1,
        events=tuple(item.event for item in taken),
        is_owner=all(item.is_owner for item in taken),
        history=tuple(_load_history(connection, conversation, rules.history_limit)),
        started_calls=frozenset(row[0] for row in started),
        settings=settings,
        notice=notice,
        exhausted=attempt + 1 > rules.max_attempts,
        set_aside=set_aside,
    )


def hold(connection: Connection, turn: ClaimedTurn) -> tuple[int, int]:
    """Check that the turn's lease still holds; the one gate before every write and side effect of a turn.

    Returns the session's newest seq and the conversation's row id. Raises LeaseLost.
    """
    lease = turn.lease
    row = connection.execute(
        "SELECT s.head_seq, t.conversation FROM sessions s JOIN turns t ON t.id = ?"
        " WHERE s.id = ? AND s.owner = ? AND s.fence = ? AND t.state = 'running'",
        (turn.turn, lease.session, lease.owner, lease.fence),
    ).fetchone()
    if row is None:
        raise LeaseLost(f"{lease.key}: fence {lease.fence} no longer holds")
    return row[0], row[1]


def journal(connection: Connection, turn: ClaimedTurn, entry: JournalEntry, now: int) -> bool:
    """Make what a turn did durable; see `TurnStore.journal`."""
    head, conversation = hold(connection, turn)
    append_messages(connection, conversation, turn.turn, entry.messages)
    if entry.tool_started is not None:
        connection.execute(
            "INSERT INTO tool_calls(turn, call_id, name, started_at) VALUES (?,?,?,?)",
            (turn.turn, *entry.tool_started, now),
        )
    if entry.tool_ended is not None:
        connection.execute(
            "UPDATE tool_calls SET ended_at = ? WHERE turn = ? AND call_id = ?",
            (now, turn.turn, entry.tool_ended),
        )
    last = connection.execute("SELECT last_seq FROM turns WHERE id = ?", (turn.turn,)).fetchone()[0]
    return bool(head > last)


def take_steering(
    connection: Connection,
    turn: ClaimedTurn,
    accept: Callable[[MessageEvent, bool, str], str | None],
    encode: Callable[[str], str],
) -> list[HistoryRow]:
    """Move waiting messages into the running turn; see `TurnStore.take_steering`."""
    _, conversation = hold(connection, turn)
    last = connection.execute("SELECT last_seq FROM turns WHERE id = ?", (turn.turn,)).fetchone()[0]
    bodies, taken = [], last
    for item in _waiting(connection, turn.lease.session, last):
        text = accept(item.event, item.is_owner, item.mode)
        if text is None:
            break
        bodies.append(encode(text))
        if item.mode == "steer-backlog":
            # Told to the running turn now, and kept for a turn of its own.
            connection.execute("UPDATE events SET mode = 'followup' WHERE id = ?", (item.event_id,))
            break
        taken = item.seq
    if taken > last:
        connection.execute("UPDATE turns SET last_seq = ? WHERE id = ?", (taken, turn.turn))
    return append_messages(connection, conversation, turn.turn, bodies)


def finish(connection: Connection, turn: ClaimedTurn, end: Finish, now: int) -> bool:
    """Commit the end of a turn with its reply; see `TurnStore.finish`."""
    head, conversation = hold(connection, turn)
    first, last = connection.execute("SELECT first_seq, last_seq FROM turns WHERE id = ?", (turn.turn,)).fetchone()
    append_messages(connection, conversation, turn.turn, end.messages)
    drafts = use_preview(connection, turn.turn, end.drafts, now)
    insert_drafts(connection, drafts, now, turn=turn.turn)
    state = "failed" if end.state is TurnState.FAILED else "answered"
    connection.execute(
        "UPDATE events SET state = ? WHERE session = ? AND seq BETWEEN ? AND ? AND state = 'waiting'",
        (state, turn.lease.session, first, last),
    )
    connection.execute(
        "UPDATE turns SET state = ?, ended_at = ?, model = ?, tokens_in = ?, tokens_out = ?, reason = ? WHERE id = ?",
        (end.state.value, now, end.model, end.tokens_in, end.tokens_out, end.reason, turn.turn),
    )
    connection.execute(
        "UPDATE sessions SET done_seq = ?, owner = NULL, lease_until = 0, touched_at = ? WHERE id = ?",
        (last, now, turn.lease.session),
    )
    return bool(head > last)


def release(connection: Connection, turn: ClaimedTurn) -> None:
    """Give a lease back without an end; an orderly stop does not count as a failed attempt."""
    lease = turn.lease
    row = connection.execute(
        "UPDATE sessions SET owner = NULL, lease_until = 0 WHERE id = ? AND owner = ? AND fence = ? RETURNING id",
        (lease.session, lease.owner, lease.fence),
    ).fetchone()
    if row is not None:
        connection.execute("UPDATE turns SET attempt = attempt - 1 WHERE id = ? AND state = 'running'", (turn.turn,))


def extend(connection: Connection, leases: Sequence[Lease], until: int) -> list[Lease]:
    """Prolong leases; returns those that are lost."""
    lost = []
    for lease in leases:
        changed = connection.execute(
            "UPDATE sessions SET lease_until = ? WHERE id = ? AND owner = ? AND fence = ?",
            (until, lease.session, lease.owner, lease.fence),
        ).rowcount
        if not changed:
            lost.append(lease)
    return lost
