"""Transactions of the inbox: events stored with their verdict, commands carried out once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from sqlite3 import Connection

from tidegate.events import MessageEvent
from tidegate.sessions.codec import decode_event, dump_json, encode_event, event_identity
from tidegate.sessions.model import (
    Appended,
    AppendStatus,
    Changed,
    CursorUpdate,
    Draft,
    Enqueue,
    EventState,
    NewEvent,
    PendingCommand,
    QueuedEvent,
    Record,
    SessionChange,
)
from tidegate.sessions.queueing import MAX_BURST, QueueState, continues, make_room, times_after
from tidegate.sessions.sqlite.outbox import insert_drafts
from tidegate.sessions.sqlite.people import request_pairing

_MAX_ID = 2**63 - 1


def append_events(
    connection: Connection, batch: Sequence[NewEvent], cursor: CursorUpdate | None, now: int
) -> list[Appended]:
    """Store events with their verdicts and the cursor; see `EventStore.append_events`."""
    answers = [_append(connection, item, now) for item in batch]
    if cursor is not None:
        connection.execute(
            "INSERT INTO cursors(channel, account, value) VALUES (?,?,?)"
            " ON CONFLICT(channel, account) DO UPDATE SET value = excluded.value",
            (cursor.channel, cursor.account, cursor.value),
        )
    return answers


def _append(connection: Connection, item: NewEvent, now: int) -> Appended:
    identity = event_identity(item.event)
    known = connection.execute("SELECT id FROM events WHERE identity = ?", (identity,)).fetchone()
    if known is not None:
        return Appended(AppendStatus.DUPLICATE, known[0])
    if isinstance(item.verdict, Enqueue):
        return enqueue(connection, identity, item.event, item.verdict, now)
    return _record(connection, identity, item.event, item.verdict, now)


def session_row(connection: Connection, key: str, agent: str, now: int) -> int:
    row = connection.execute("SELECT id FROM sessions WHERE key = ?", (key,)).fetchone()
    return int(row[0]) if row else new_session(connection, key, agent, now)


def new_session(connection: Connection, key: str, agent: str, now: int) -> int:
    return (
        connection.execute(
            "INSERT INTO sessions(key, agent, created_at, touched_at) VALUES (?,?,?,?)", (key, agent, now, now)
        ).lastrowid
        or 0
    )


def _record(connection: Connection, identity: bytes, event: MessageEvent, verdict: Record, now: int) -> Appended:
    session = session_row(connection, verdict.session_key, verdict.agent, now) if verdict.session_key else None
    cursor = connection.execute(
        "INSERT INTO events(identity, session, state, reason, is_owner, payload) VALUES (?,?,?,?,?,?)",
        (
            identity,
            session,
            verdict.state.value,
            verdict.reason,
            int(verdict.is_owner),
            encode_event(event, keep_text=verdict.keep_text),
        ),
    )
    if verdict.state is EventState.CONTEXT:
        connection.execute(
            "UPDATE events SET state = 'handled' WHERE session = ? AND state = 'context' AND id <="
            " (SELECT id FROM events WHERE session = ? AND state = 'context' ORDER BY id DESC LIMIT 1 OFFSET ?)",
            (session, session, verdict.keep),
        )
    asked = verdict.pairing
    if asked is None or request_pairing(connection, asked, event.address, verdict.pairing_limit, now):
        insert_drafts(connection, verdict.drafts, now)
    return Appended(AppendStatus.STORED, cursor.lastrowid or 0)


def enqueue(connection: Connection, identity: bytes, event: MessageEvent, verdict: Enqueue, now: int) -> Appended:
    """Put an event into its session's queue, as its queue rule says."""
    rule = verdict.rule
    session, state = _queue(connection, verdict, now)
    joins = state.burst_until > now and rule.window > 0 and _joins(connection, session, state, event)
    stopped: tuple[tuple[str, int], ...] = ()
    if rule.mode == "interrupt" and state.running is not None and not joins:
        ended, _, count = stop_session(connection, session, verdict.session_key, now, "interrupt")
        stopped = (ended,) if ended else ()
        state = QueueState(head=state.head, done=state.head, touched_at=now)
        if count and verdict.set_aside_notice:
            insert_drafts(connection, [verdict.set_aside_notice(count)], now)
    free = MAX_BURST if joins else rule.cap
    if state.head - state.taken >= free and _leave_out(connection, session, state, event, verdict, now):
        cursor = connection.execute(
            "INSERT INTO events(identity, session, state, reason, payload) VALUES (?,?,'dropped','queue full',?)",
            (identity, session, encode_event(event)),
        )
        return Appended(AppendStatus.REFUSED, cursor.lastrowid or 0, stopped)
    times = times_after(state, rule, now)
    cursor = connection.execute(
        "INSERT INTO events(identity, session, seq, state, mode, is_owner, joins, payload)"
        " VALUES (?,?,?,'waiting',?,?,?,?)",
        (identity, session, state.head + 1, rule.mode, verdict.is_owner, joins, encode_event(event)),
    )
    connection.execute(
        "UPDATE sessions SET head_seq = ?, not_before = ?, behind = ?, burst_until = ?, burst_ends = ? WHERE id = ?",
        (state.head + 1, times.not_before, times.behind, times.burst_until, times.burst_ends, session),
    )
    return Appended(AppendStatus.STORED, cursor.lastrowid or 0, stopped)


def _queue(connection: Connection, verdict: Enqueue, now: int) -> tuple[int, QueueState]:
    row = connection.execute(
        "SELECT s.id, s.head_seq, s.done_seq, t.last_seq, s.not_before, s.behind, s.burst_until, s.burst_ends,"
        " s.touched_at FROM sessions s LEFT JOIN turns t ON t.session = s.id AND t.state = 'running' WHERE s.key = ?",
        (verdict.session_key,),
    ).fetchone()
    if row is None:
        return new_session(connection, verdict.session_key, verdict.agent, now), QueueState(touched_at=now)
    session, head, done, running, not_before, behind, burst_until, burst_ends, touched_at = row
    return session, QueueState(head, done, running, not_before, bool(behind), burst_until, burst_ends, touched_at)


def _joins(connection: Connection, session: int, state: QueueState, event: MessageEvent) -> bool:
    if state.head <= state.taken:
        return False
    row = connection.execute(
        "SELECT payload FROM events WHERE session = ? AND seq = ? AND state = 'waiting'", (session, state.head)
    ).fetchone()
    return row is not None and continues(decode_event(row[0]), event)


def _leave_out(
    connection: Connection, session: int, state: QueueState, event: MessageEvent, verdict: Enqueue, now: int
) -> bool:
    """Apply the overflow policy of a queue that may be full; True when the new message is refused."""
    waiting = load_waiting(connection, session, state.taken, -1)
    room = make_room(waiting, event, verdict, is_running=state.running is not None)
    for reason, items in (("summarize", room.summarized), ("queue full", room.dropped)):
        connection.executemany(
            "UPDATE events SET state = 'dropped', reason = ? WHERE id = ?", [(reason, item.event_id) for item in items]
        )
    told = (event,) if room.refused else room.notices
    if verdict.full_notice:
        insert_drafts(connection, [verdict.full_notice(left_out) for left_out in told], now)
    return room.refused


def load_waiting(connection: Connection, session: int, after: int, limit: int) -> list[QueuedEvent]:
    """Return the waiting events behind a seq, oldest first; a negative limit means all."""
    rows = connection.execute(
        "SELECT seq, payload, is_owner, joins, mode, id FROM events WHERE session = ? AND seq > ?"
        " AND state = 'waiting' ORDER BY seq LIMIT ?",
        (session, after, limit),
    ).fetchall()
    return [QueuedEvent(r[0], decode_event(r[1]), bool(r[2]), bool(r[3]), r[4], r[5]) for r in rows]


def stop_session(
    connection: Connection, session: int, key: str, now: int, reason: str, before: int | None = None
) -> tuple[tuple[str, int] | None, int, int]:
    """End the running turn and set what waits aside; with `before`, only what was stored before that event.

    Returns the ended turn as (key, fence of its lease) or None, how many messages had only waited, and how many
    stay unanswered in all. Messages that a full queue left out for a summary count: there will be none.
    """
    done, head, running, first, last, fence = connection.execute(
        "SELECT s.done_seq, s.head_seq, t.id, t.first_seq, t.last_seq, t.fence FROM sessions s"
        " LEFT JOIN turns t ON t.session = s.id AND t.state = 'running' WHERE s.id = ?",
        (session,),
    ).fetchone()
    stored_before = _MAX_ID if before is None else before
    upto = connection.execute(
        "SELECT COALESCE(MAX(seq), ?) FROM events WHERE session = ? AND seq > ? AND id < ?",
        (done, session, done, stored_before),
    ).fetchone()[0]
    ended = running if running is not None and first <= upto else None
    left_out = connection.execute(
        "UPDATE events SET state = 'set_aside', reason = ? WHERE session = ? AND state = 'dropped'"
        " AND reason = 'summarize' AND id < ?",
        (reason, session, stored_before),
    ).rowcount
    count, waited = connection.execute(
        "SELECT COUNT(*), COALESCE(SUM(seq > ?), 0) FROM events WHERE session = ? AND seq > ? AND seq <= ?"
        " AND state = 'waiting'",
        (last if ended else done, session, done, upto),
    ).fetchone()
    connection.execute(
        "UPDATE events SET state = 'set_aside', reason = ? WHERE session = ? AND seq > ? AND seq <= ?"
        " AND state = 'waiting'",
        (reason, session, done, upto),
    )
    if ended is not None:
        connection.execute(
            "UPDATE turns SET state = 'stopped', ended_at = ?, reason = ? WHERE id = ?", (now, reason, ended)
        )
    if ended is not None or running is None:
        connection.execute(
            "UPDATE sessions SET done_seq = ?, owner = NULL, fence = fence + 1, not_before = 0, behind = 0,"
            " burst_until = 0, burst_ends = 0 WHERE id = ?",
            (head if before is None else upto, session),
        )
    return ((key, fence) if ended is not None else None), waited + left_out, count + left_out


def pending_commands(connection: Connection) -> list[PendingCommand]:
    """Return commands that are not carried out yet, oldest first."""
    rows = connection.execute(
        "SELECT e.id, s.key, s.agent, e.is_owner, e.payload FROM events e JOIN sessions s ON s.id = e.session"
        " WHERE e.state = 'command' ORDER BY e.id LIMIT 500"
    ).fetchall()
    return [PendingCommand(r[0], r[1], r[2], bool(r[3]), decode_event(r[4])) for r in rows]


def apply_command(
    connection: Connection,
    event_id: int,
    change: SessionChange,
    reply: Callable[[Changed], Sequence[Draft]],
    now: int,
) -> Changed | None:
    """Carry out a command once; see `EventStore.apply_command`."""
    row = connection.execute(
        "UPDATE events SET state = 'handled' WHERE id = ? AND state = 'command'"
        " RETURNING session, payload, is_owner, identity",
        (event_id,),
    ).fetchone()
    if row is None:
        return None
    session, payload, is_owner, identity = row
    key, agent = connection.execute("SELECT key, agent FROM sessions WHERE id = ?", (session,)).fetchone()
    # A message that came after the command was not meant by it.
    done = change_row(connection, session, change, now, "command", before=event_id)
    insert_drafts(connection, reply(done), now)
    if change.then:
        event = replace(decode_event(payload), text=change.then)
        derived = hashlib.blake2b(identity + b"then", digest_size=16).digest()
        enqueue(connection, derived, event, Enqueue(key, agent, change.then_rule, bool(is_owner)), now)
    return done


def change_row(
    connection: Connection, session: int, change: SessionChange, now: int, reason: str, before: int | None = None
) -> Changed:
    """Carry out a change of a session, except for what it enqueues; `before` as for `stop_session`."""
    key, conversation, settings = connection.execute(
        "SELECT key, conversation, settings FROM sessions WHERE id = ?", (session,)
    ).fetchone()
    done, target = Changed(), 0
    if change.resume:
        found = connection.execute(
            "SELECT id FROM conversations WHERE uuid = ? AND session = ?", (change.resume, session)
        ).fetchone()
        target = found[0] if found else 0
        done = replace(done, found=found is not None)
    if change.stop and done.found:
        # The stopped turn's own messages are told apart from those that only waited.
        ended, waited, _ = stop_session(connection, session, key, now, reason, before=before)
        done = replace(done, stopped=ended, set_aside=waited)
    if (change.new_conversation or change.resume) and done.found:
        _end_conversation(connection, conversation, now, reason)
        connection.execute(
            "UPDATE sessions SET conversation = ?, touched_at = ?, current_since = ? WHERE id = ?",
            (target, now, now, session),
        )
        if target:
            connection.execute("UPDATE conversations SET ended_at = NULL, end_reason = '' WHERE id = ?", (target,))
    if change.settings:
        merged = {**json.loads(settings or "{}"), **change.settings}
        kept = {name: value for name, value in merged.items() if value is not None}
        connection.execute("UPDATE sessions SET settings = ? WHERE id = ?", (dump_json(kept) if kept else "", session))
    return done


def _end_conversation(connection: Connection, conversation: int, now: int, reason: str) -> None:
    connection.execute(
        "UPDATE conversations SET ended_at = ?, end_reason = ? WHERE id = ? AND ended_at IS NULL",
        (now, reason, conversation),
    )
