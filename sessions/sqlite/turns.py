"""Transactions of turns: claim, journal, steer, finish. Every write shows its lease."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from sqlite3 import Connection
from typing import NamedTuple

from tidegate.errors import LeaseLost
from tidegate.events import MessageEvent
from tidegate.ids import new_id
from tidegate.sessions.codec import decode_event
from tidegate.sessions.model import (
    ClaimedTurn,
    ClaimRules,
    EventState,
    Finish,
    HistoryRow,
    JournalEntry,
    Lease,
    NotYet,
    Overflow,
    QueuedEvent,
    SessionFacts,
    TurnPlan,
    TurnState,
)
from tidegate.sessions.queueing import Suspect, belongs_to_turn, is_ahead, last_try_at, overflow_of
from tidegate.sessions.sqlite.inbox import load_waiting
from tidegate.sessions.sqlite.outbox import insert_drafts, sent_preview, use_preview

LEASE_MICROSECONDS = 60_000_000
"""How long a lease lasts unless it is extended."""
MAX_WAITING_LOADED = 500
"""Most waiting events that one claim looks at."""


_EVENT_STATE = {
    TurnState.ANSWERED: EventState.ANSWERED,
    TurnState.FAILED: EventState.FAILED,
    TurnState.STOPPED: EventState.SET_ASIDE,
}


class Held(NamedTuple):
    """What a turn that holds its lease may need: newest seq of the session, transcript, the seqs it answers."""

    head: int
    conversation: int
    first: int
    last: int


def claim(connection: Connection, key: str, owner: str, rules: ClaimRules, now: int) -> ClaimedTurn | NotYet | None:
    """Take a session's lease and its next turn; see `TurnStore.claim`."""
    row = connection.execute(
        "SELECT s.id, s.agent, s.conversation, s.done_seq, s.not_before, s.settings, s.fence, s.lease_until, t.attempt"
        " FROM sessions s"
        " LEFT JOIN turns t ON t.session = s.id AND t.state = 'running' WHERE s.key = ? AND s.head_seq > s.done_seq",
        (key,),
    ).fetchone()
    if row is None:
        return None
    session, agent, conversation, done, not_before, settings, fence, lease_until, attempt = row
    lease = Lease(session, key, owner, fence + 1)
    loaded_settings = json.loads(settings) if settings else {}
    if attempt is not None:
        suspect = Suspect(attempt, rules.max_attempts, lease_until - LEASE_MICROSECONDS, rules.last_try_after)
        if at := last_try_at(suspect, others=_last_try_runs(connection, lease, rules), now=now):
            return NotYet(at)
        _take_lease(connection, lease, now)
        return _resume(connection, lease, agent, loaded_settings, rules)
    if is_ahead(not_before, now):
        return NotYet(not_before)
    waiting = load_waiting(connection, session, done, MAX_WAITING_LOADED)
    if not waiting:
        connection.execute("UPDATE sessions SET done_seq = head_seq WHERE id = ?", (session,))
        return None
    return _begin(connection, lease, (agent, conversation), waiting, loaded_settings, rules, now)


def _last_try_runs(connection: Connection, lease: Lease, rules: ClaimRules) -> bool:
    """Tell whether another session of this owner is on the last try of its turn."""
    found = connection.execute(
        "SELECT 1 FROM turns t JOIN sessions s ON s.id = t.session WHERE t.state = 'running' AND t.attempt = ?"
        " AND s.owner = ? AND s.id <> ? LIMIT 1",
        (rules.max_attempts, lease.owner, lease.session),
    ).fetchone()
    return found is not None


def _take_lease(connection: Connection, lease: Lease, now: int) -> None:
    connection.execute(
        "UPDATE sessions SET owner = ?, fence = ?, lease_until = ?, touched_at = ? WHERE id = ?",
        (lease.owner, lease.fence, now + LEASE_MICROSECONDS, now, lease.session),
    )


def _begin(
    connection: Connection,
    lease: Lease,
    current: tuple[str, int],
    waiting: list[QueuedEvent],
    settings: dict[str, object],
    rules: ClaimRules,
    now: int,
) -> ClaimedTurn:
    conversation, uuid, notice, history = _conversation(connection, lease, current, settings, rules, now)
    plan = _plan(connection, lease.session, waiting, rules)
    taken = waiting[: plan.take]
    if plan.set_aside:
        connection.executemany(
            "UPDATE events SET state = 'set_aside', reason = 'interrupt' WHERE id = ?",
            [(item.event_id,) for item in taken[: plan.set_aside]],
        )
    _take_lease(connection, lease, now)
    answered = taken[plan.set_aside :]
    run_id = new_id()
    turn = connection.execute(
        "INSERT INTO turns(run_id, session, conversation, first_seq, last_seq, set_aside, attempt, fence, state,"
        " notice, started_at) VALUES (?,?,?,?,?,?,1,?,'running',?,?)",
        (
            run_id,
            lease.session,
            conversation,
            answered[0].seq,
            taken[-1].seq,
            plan.set_aside,
            lease.fence,
            notice,
            now,
        ),
    ).lastrowid
    bodies = [rules.encode(text) for text in plan.texts]
    history += append_messages(connection, conversation, turn or 0, bodies, history[-1].seq if history else 0)
    return ClaimedTurn(
        lease=lease,
        turn=turn or 0,
        run_id=run_id,
        agent=current[0],
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
    lease: Lease,
    current: tuple[str, int],
    settings: dict[str, object],
    rules: ClaimRules,
    now: int,
) -> tuple[int, str, str, list[HistoryRow]]:
    """Return the conversation to go on with (row, public id), why it is a new one if it is, and what was said in it."""
    agent, conversation = current
    reason = ""
    if conversation:
        uuid, since, touched_at = connection.execute(
            "SELECT c.uuid, s.current_since, s.touched_at FROM conversations c JOIN sessions s ON s.id = c.session"
            " WHERE c.id = ?",
            (conversation,),
        ).fetchone()
        history = _load_history(connection, conversation, rules.history_limit)
        if history:
            reason = (
                rules.stale(SessionFacts(lease.key, agent, since, touched_at, settings, has_history=True), now) or ""
            )
        if not reason:
            return conversation, uuid, "", history
        connection.execute(
            "UPDATE conversations SET ended_at = ?, end_reason = ? WHERE id = ?", (now, reason, conversation)
        )
    row, uuid = begin_conversation(connection, lease.session, now)
    return row, uuid, reason, []


def begin_conversation(connection: Connection, session: int, now: int) -> tuple[int, str]:
    """Make a new current conversation; returns its row and its public id."""
    uuid = new_id()
    row = connection.execute(
        "INSERT INTO conversations(uuid, session, started_at) VALUES (?,?,?)", (uuid, session, now)
    ).lastrowid
    connection.execute("UPDATE sessions SET conversation = ?, current_since = ? WHERE id = ?", (row, now, session))
    return row or 0, uuid


def _plan(connection: Connection, session: int, waiting: list[QueuedEvent], rules: ClaimRules) -> TurnPlan:
    """Choose the next turn, with the group talk before it and what a full queue left out; both are told once."""
    talk = connection.execute(
        "SELECT id, payload FROM events WHERE session = ? AND state = 'context' AND id < ? ORDER BY id",
        (session, waiting[0].event_id),
    ).fetchall()
    if talk:
        connection.executemany("UPDATE events SET state = 'handled' WHERE id = ?", [(row[0],) for row in talk])
    said = [decode_event(row[1]) for row in talk]
    left_out = connection.execute(
        "SELECT seq, payload, is_owner, joins, mode, id FROM events WHERE session = ? AND state = 'dropped'"
        " AND reason = 'summarize' ORDER BY seq",
        (session,),
    ).fetchall()
    if not left_out:
        return rules.plan(waiting, said, Overflow())
    first_plan = rules.plan(waiting, (), Overflow())
    answered = waiting[first_plan.set_aside : first_plan.take]
    address, is_owner = answered[-1].event.address, all(item.is_owner for item in answered)
    items = [QueuedEvent(r[0], decode_event(r[1]), bool(r[2]), bool(r[3]), r[4], r[5]) for r in left_out]
    told = [item for item in items if belongs_to_turn(item, address, is_owner=is_owner)]
    connection.executemany("UPDATE events SET reason = 'summarized' WHERE id = ?", [(i.event_id,) for i in told])
    return rules.plan(waiting, said, overflow_of(told))


def _load_history(connection: Connection, conversation: int, limit: int) -> list[HistoryRow]:
    rows = connection.execute(
        "SELECT seq, body, turn FROM messages WHERE conversation = ? ORDER BY seq DESC LIMIT ?",
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
    settings: dict[str, object],
    rules: ClaimRules,
) -> ClaimedTurn:
    turn, run_id, conversation, first_seq, last_seq, attempt, notice, set_aside = connection.execute(
        "UPDATE turns SET attempt = attempt + 1, fence = ? WHERE session = ? AND state = 'running'"
        " RETURNING id, run_id, conversation, first_seq, last_seq, attempt, notice, set_aside",
        (lease.fence, lease.session),
    ).fetchone()
    room = last_seq - first_seq + 1
    taken = [i for i in load_waiting(connection, lease.session, first_seq - 1, room) if i.seq <= last_seq]
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
        attempt=attempt,
        events=tuple(item.event for item in taken),
        is_owner=all(item.is_owner for item in taken),
        history=tuple(_load_history(connection, conversation, rules.history_limit)),
        started_calls=frozenset(row[0] for row in started),
        settings=settings,
        notice=notice,
        exhausted=attempt > rules.max_attempts,
        set_aside=set_aside,
        preview=sent_preview(connection, turn),
    )


def hold(connection: Connection, turn: ClaimedTurn) -> Held:
    """Check that the turn's lease still holds; the one gate before every write and side effect of a turn.

    Raises:
        LeaseLost: The session has another holder, or the turn was ended from outside.
    """
    lease = turn.lease
    row = connection.execute(
        "SELECT s.head_seq, t.conversation, t.first_seq, t.last_seq FROM sessions s JOIN turns t ON t.id = ?"
        " WHERE s.id = ? AND s.owner = ? AND s.fence = ? AND t.session = s.id AND t.state = 'running'",
        (turn.turn, lease.session, lease.owner, lease.fence),
    ).fetchone()
    if row is None:
        raise LeaseLost(f"{lease.key}: fence {lease.fence} no longer holds")
    return Held(*row)


def journal(connection: Connection, turn: ClaimedTurn, entry: JournalEntry, now: int) -> bool:
    """Make what a turn did durable; see `TurnStore.journal`."""
    held = hold(connection, turn)
    append_messages(connection, held.conversation, turn.turn, entry.messages)
    if entry.tool_started is not None:
        # A provider may name two calls of one turn alike; the later one is the one that may be unfinished.
        connection.execute(
            "INSERT OR REPLACE INTO tool_calls(turn, call_id, name, started_at) VALUES (?,?,?,?)",
            (turn.turn, *entry.tool_started, now),
        )
    if entry.tool_ended is not None:
        connection.execute(
            "UPDATE tool_calls SET ended_at = ? WHERE turn = ? AND call_id = ?",
            (now, turn.turn, entry.tool_ended),
        )
    return held.head > held.last


def take_steering(
    connection: Connection,
    turn: ClaimedTurn,
    accept: Callable[[MessageEvent, bool, str], str | None],
    encode: Callable[[str], str],
) -> list[HistoryRow]:
    """Move waiting messages into the running turn; see `TurnStore.take_steering`."""
    held = hold(connection, turn)
    bodies, taken = [], held.last
    for item in load_waiting(connection, turn.lease.session, held.last, MAX_WAITING_LOADED):
        text = accept(item.event, item.is_owner, item.mode)
        if text is None:
            break
        bodies.append(encode(text))
        if item.mode == "steer-backlog":
            # Told to the running turn now, and kept for a turn of its own.
            connection.execute("UPDATE events SET mode = 'followup' WHERE id = ?", (item.event_id,))
            break
        taken = item.seq
    if taken > held.last:
        connection.execute("UPDATE turns SET last_seq = ? WHERE id = ?", (taken, turn.turn))
    return append_messages(connection, held.conversation, turn.turn, bodies)


def finish(connection: Connection, turn: ClaimedTurn, end: Finish, now: int) -> bool:
    """Commit the end of a turn with its reply; see `TurnStore.finish`."""
    held = hold(connection, turn)
    append_messages(connection, held.conversation, turn.turn, end.messages)
    drafts = use_preview(connection, turn.turn, end.drafts, now)
    insert_drafts(connection, drafts, now, turn=turn.turn)
    connection.execute(
        "UPDATE events SET state = ? WHERE session = ? AND seq BETWEEN ? AND ? AND state = 'waiting'",
        (_EVENT_STATE[end.state].value, turn.lease.session, held.first, held.last),
    )
    connection.execute(
        "UPDATE turns SET state = ?, ended_at = ?, model = ?, tokens_in = ?, tokens_out = ?, reason = ?, told = ?"
        " WHERE id = ?",
        (end.state.value, now, end.model, end.tokens_in, end.tokens_out, end.reason, end.told, turn.turn),
    )
    connection.execute(
        "UPDATE sessions SET done_seq = ?, owner = NULL, lease_until = 0, touched_at = ? WHERE id = ?",
        (held.last, now, turn.lease.session),
    )
    return held.head > held.last


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


def release(connection: Connection, owner: str) -> None:
    """Give back every lease of an owner; see `TurnStore.release`. Whoever holds a lease has a running turn."""
    held = connection.execute(
        "SELECT t.id, s.id FROM turns t JOIN sessions s ON s.id = t.session WHERE t.state = 'running' AND s.owner = ?",
        (owner,),
    ).fetchall()
    connection.executemany("UPDATE turns SET attempt = attempt - 1 WHERE id = ?", [(turn,) for turn, _ in held])
    connection.executemany(
        "UPDATE sessions SET owner = NULL, lease_until = 0 WHERE id = ?", [(session,) for _, session in held]
    )
