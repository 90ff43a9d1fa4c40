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
    Record,
    SessionChange,
)
from tidegate.sessions.sqlite.outbox import insert_drafts
from tidegate.sessions.sqlite.people import request_pairing

MAX_WINDOW_STRETCH = 5
"""A debounce window that is renewed by more messages ends after this many times its length at the latest."""
MAX_STEERING = 200
"""Most messages that may wait behind a turn in the modes whose messages are exempt from the cap."""


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


def _session(connection: Connection, key: str, agent: str, now: int) -> int:
    row = connection.execute("SELECT id FROM sessions WHERE key = ?", (key,)).fetchone()
    if row is None:
        row = connection.execute(
            "INSERT INTO sessions(key, agent, created_at, touched_at) VALUES (?,?,?,?) RETURNING id",
            (key, agent, now, now),
        ).fetchone()
    return int(row[0])


def _record(connection: Connection, identity: bytes, event: MessageEvent, verdict: Record, now: int) -> Appended:
    session = _session(connection, verdict.session_key, verdict.agent, now) if verdict.session_key else None
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
            "UPDATE events SET state = 'handled' WHERE session = ? AND state = 'context' AND id NOT IN"
            " (SELECT id FROM events WHERE session = ? AND state = 'context' ORDER BY id DESC LIMIT ?)",
            (session, session, verdict.keep),
        )
    asked = verdict.pairing
    if asked is None or request_pairing(connection, asked, event.address, verdict.pairing_limit, now):
        insert_drafts(connection, verdict.drafts, now)
    return Appended(AppendStatus.STORED, cursor.lastrowid or 0)


def enqueue(connection: Connection, identity: bytes, event: MessageEvent, verdict: Enqueue, now: int) -> Appended:
    """Put an event into its session's queue, as its queue rule says."""
    rule = verdict.rule
    _session(connection, verdict.session_key, verdict.agent, now)
    session, head, done, owner, not_before, window_ends = connection.execute(
        "SELECT id, head_seq, done_seq, owner, not_before, window_ends FROM sessions WHERE key = ?",
        (verdict.session_key,),
    ).fetchone()
    stopped: tuple[tuple[str, int], ...] = ()
    if rule.mode == "interrupt" and head > done:
        ended, count = stop_session(connection, session, verdict.session_key, now, "interrupt")
        stopped = (ended,) if ended else ()
        done, owner, not_before = head, None, 0
        if count and verdict.set_aside_notice:
            insert_drafts(connection, [verdict.set_aside_notice(count)], now)
    refused = head - done >= rule.cap and _make_room(connection, session, head, done, event, verdict, now)
    if refused:
        cursor = connection.execute(
            "INSERT INTO events(identity, session, state, reason, payload) VALUES (?,?,'dropped','queue full',?)",
            (identity, session, encode_event(event)),
        )
        return Appended(AppendStatus.REFUSED, cursor.lastrowid or 0, stopped)
    joins = False
    if rule.window and owner is None:
        joins = window_ends > 0 and not_before > now and _same_sender_before(connection, session, head, event)
        window_ends = window_ends if joins else now + MAX_WINDOW_STRETCH * rule.window
        not_before = min(now + rule.window, window_ends)
    else:
        joins = window_ends > 0 and bool(event.album) and _same_album_before(connection, session, head, event)
        # An idle session with nothing waiting starts at once; behind a run, or in the quiet time after one, the
        # newest message starts that time anew.
        waits = owner is not None or (head > done and window_ends == 0)
        not_before = now + rule.debounce if waits else 0
        window_ends = 0
    cursor = connection.execute(
        "INSERT INTO events(identity, session, seq, state, mode, is_owner, joins, payload)"
        " VALUES (?,?,?,'waiting',?,?,?,?)",
        (identity, session, head + 1, rule.mode, int(verdict.is_owner), int(joins), encode_event(event)),
    )
    connection.execute(
        "UPDATE sessions SET head_seq = ?, not_before = ?, window_ends = ? WHERE id = ?",
        (head + 1, not_before, window_ends, session),
    )
    return Appended(AppendStatus.STORED, cursor.lastrowid or 0, stopped)


def _before(connection: Connection, session: int, head: int) -> MessageEvent | None:
    row = connection.execute(
        "SELECT payload FROM events WHERE session = ? AND seq = ? AND state = 'waiting'", (session, head)
    ).fetchone()
    return decode_event(row[0]) if row else None


def _same_sender_before(connection: Connection, session: int, head: int, event: MessageEvent) -> bool:
    before = _before(connection, session, head)
    return before is not None and (before.sender.id, before.address) == (event.sender.id, event.address)


def _same_album_before(connection: Connection, session: int, head: int, event: MessageEvent) -> bool:
    before = _before(connection, session, head)
    return before is not None and before.album == event.album and before.address == event.address


def _make_room(
    connection: Connection,
    session: int,
    head: int,
    done: int,
    event: MessageEvent,
    verdict: Enqueue,
    now: int,
) -> bool:
    """Apply the overflow policy of a queue that may be full; True when the new message is refused."""
    rule = verdict.rule
    running = connection.execute(
        "SELECT last_seq FROM turns WHERE session = ? AND state = 'running'", (session,)
    ).fetchone()
    behind = max(done, running[0] if running else 0)
    waiting = connection.execute(
        "SELECT id, payload, is_owner FROM events WHERE session = ? AND seq > ? AND state = 'waiting' ORDER BY seq",
        (session, behind),
    ).fetchall()
    # Messages on their way into the running turn are exempt from the cap, up to a bound of its own.
    limit = MAX_STEERING if running and rule.mode in ("steer", "steer-backlog") else rule.cap
    if len(waiting) < limit:
        return False
    if rule.drop == "new":
        if verdict.full_notice:
            insert_drafts(connection, [verdict.full_notice(event)], now)
        return True
    oldest_id, payload, was_owner = waiting[0]
    oldest = decode_event(payload)
    summarize = rule.drop == "summarize" and oldest.address == event.address and bool(was_owner) == verdict.is_owner
    connection.execute(
        "UPDATE events SET state = 'dropped', reason = ? WHERE id = ?",
        ("summarize" if summarize else "queue full", oldest_id),
    )
    if not summarize and verdict.full_notice:
        insert_drafts(connection, [verdict.full_notice(oldest)], now)
    return False


def stop_session(
    connection: Connection, session: int, key: str, now: int, reason: str
) -> tuple[tuple[str, int] | None, int]:
    """End the running turn and set everything that waits aside.

    Returns the ended turn as (key, fence of its lease), or None, and how many messages stay unanswered.
    """
    running = connection.execute(
        "UPDATE turns SET state = 'stopped', ended_at = ?, reason = ? WHERE session = ? AND state = 'running'"
        " RETURNING fence",
        (now, reason, session),
    ).fetchone()
    count = connection.execute(
        "UPDATE events SET state = 'set_aside', reason = ? WHERE session = ? AND state = 'waiting'",
        (reason, session),
    ).rowcount
    connection.execute(
        "UPDATE sessions SET done_seq = head_seq, owner = NULL, fence = fence + 1, not_before = 0, window_ends = 0"
        " WHERE id = ?",
        (session,),
    )
    return ((key, running[0]) if running else None), count


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
    key, agent, conversation, settings = connection.execute(
        "SELECT key, agent, conversation, settings FROM sessions WHERE id = ?", (session,)
    ).fetchone()
    done = Changed()
    if change.resume:
        found = connection.execute(
            "SELECT id FROM conversations WHERE uuid = ? AND session = ?", (change.resume, session)
        ).fetchone()
        done = replace(done, found=found is not None)
    if change.stop and done.found:
        ended, count = stop_session(connection, session, key, now, "command")
        # The stopped turn's own message is told apart from those that only waited.
        done = replace(done, stopped=ended, set_aside=max(0, count - 1) if ended else count)
    if (change.new_conversation or change.resume) and done.found:
        _end_conversation(connection, conversation, now, "command")
        target = found[0] if change.resume else 0
        connection.execute("UPDATE sessions SET conversation = ?, touched_at = ? WHERE id = ?", (target, now, session))
        if target:
            connection.execute("UPDATE conversations SET ended_at = NULL, end_reason = '' WHERE id = ?", (target,))
    if change.settings:
        merged = {**json.loads(settings or "{}"), **change.settings}
        kept = {name: value for name, value in merged.items() if value is not None}
        connection.execute("UPDATE sessions SET settings = ? WHERE id = ?", (dump_json(kept) if kept else "", session))
    insert_drafts(connection, reply(done), now)
    if change.then:
        event = replace(decode_event(payload), text=change.then)
        derived = hashlib.blake2b(identity + b"then", digest_size=16).digest()
        enqueue(connection, derived, event, Enqueue(key, agent, change.then_rule, bool(is_owner)), now)
    return done


def _end_conversation(connection: Connection, conversation: int, now: int, reason: str) -> None:
    connection.execute(
        "UPDATE conversations SET ended_at = ?, end_reason = ? WHERE id = ? AND ended_at IS NULL",
        (now, reason, conversation),
    )
