"""Transactions of the inbox in memory; the twin of `sqlite/inbox.py`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from tidegate.events import MessageEvent
from tidegate.sessions.codec import decode_event, encode_event, event_identity
from tidegate.sessions.memory.outbox import insert_drafts
from tidegate.sessions.memory.people import request_pairing
from tidegate.sessions.memory.tables import EventRow, SessionRow, Tables
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
    TurnState,
)
from tidegate.sessions.queueing import MAX_BURST, QueueState, continues, make_room, times_after

MAX_COMMANDS = 500


def append_events(tables: Tables, batch: Sequence[NewEvent], cursor: CursorUpdate | None, now: int) -> list[Appended]:
    """Store events with their verdicts and the cursor."""
    answers = [_append(tables, item, now) for item in batch]
    if cursor is not None:
        tables.cursors[cursor.channel, cursor.account] = cursor.value
    return answers


def _append(tables: Tables, item: NewEvent, now: int) -> Appended:
    identity = event_identity(item.event)
    known = tables.event_ids.get(identity)
    if known is not None:
        return Appended(AppendStatus.DUPLICATE, known)
    if isinstance(item.verdict, Enqueue):
        return _enqueue(tables, identity, item.event, item.verdict, now)
    return _record(tables, identity, item.event, item.verdict, now)


def _insert(tables: Tables, row: EventRow) -> int:
    number = max(tables.events, default=0) + 1
    tables.events[number] = replace(row, id=number)
    tables.event_ids[row.identity] = number
    return number


def session_row(tables: Tables, key: str, agent: str, now: int) -> SessionRow:
    row = tables.session(key)
    if row is None:
        row = SessionRow(max(tables.sessions, default=0) + 1, key, agent, now, now)
        tables.sessions[row.id] = row
        tables.session_ids[key] = row.id
    return row


def _record(tables: Tables, identity: bytes, event: MessageEvent, verdict: Record, now: int) -> Appended:
    session = session_row(tables, verdict.session_key, verdict.agent, now).id if verdict.session_key else None
    kept = decode_event(encode_event(event, keep_text=verdict.keep_text))
    number = _insert(
        tables,
        EventRow(0, identity, kept, verdict.state, verdict.reason, session, is_owner=verdict.is_owner),
    )
    if verdict.state is EventState.CONTEXT and session is not None:
        talk = list(tables.of_session(session, EventState.CONTEXT))
        for row in talk[: max(0, len(talk) - verdict.keep)]:
            tables.events[row.id] = replace(row, state=EventState.HANDLED)
    asked = verdict.pairing
    if asked is None or request_pairing(tables, asked, event.address, verdict.pairing_limit, now):
        insert_drafts(tables, verdict.drafts, now)
    return Appended(AppendStatus.STORED, number)


def _enqueue(tables: Tables, identity: bytes, event: MessageEvent, verdict: Enqueue, now: int) -> Appended:
    rule = verdict.rule
    row = session_row(tables, verdict.session_key, verdict.agent, now)
    state = tables.queue(row)
    joins = state.burst_until > now and rule.window > 0 and _joins(tables, row.id, state, event)
    stopped: tuple[tuple[str, int], ...] = ()
    if rule.mode == "interrupt" and state.running is not None and not joins:
        ended, _, count = stop_session(tables, row, "interrupt", now)
        stopped = (ended,) if ended else ()
        row = tables.sessions[row.id]
        state = QueueState(head=state.head, done=state.head, touched_at=now)
        if count and verdict.set_aside_notice:
            insert_drafts(tables, [verdict.set_aside_notice(count)], now)
    free = MAX_BURST if joins else rule.cap
    if state.head - state.taken >= free and _leave_out(tables, row.id, state, event, verdict, now):
        number = _insert(tables, EventRow(0, identity, event, EventState.DROPPED, "queue full", row.id))
        return Appended(AppendStatus.REFUSED, number, stopped)
    times = times_after(state, rule, now)
    number = _insert(
        tables,
        EventRow(
            0,
            identity,
            event,
            EventState.WAITING,
            session=row.id,
            seq=state.head + 1,
            mode=rule.mode,
            is_owner=verdict.is_owner,
            joins=joins,
        ),
    )
    queue = QueueState(
        state.head + 1, state.done, None, times.not_before, times.behind, times.burst_until, times.burst_ends
    )
    tables.sessions[row.id] = replace(row, queue=queue)
    return Appended(AppendStatus.STORED, number, stopped)


def _joins(tables: Tables, session: int, state: QueueState, event: MessageEvent) -> bool:
    waiting = tables.waiting(session, state.taken)
    return bool(waiting) and waiting[-1].seq == state.head and continues(waiting[-1].event, event)


def _leave_out(
    tables: Tables, session: int, state: QueueState, event: MessageEvent, verdict: Enqueue, now: int
) -> bool:
    room = make_room(tables.waiting(session, state.taken), event, verdict, is_running=state.running is not None)
    for reason, items in (("summarize", room.summarized), ("queue full", room.dropped)):
        for item in items:
            row = tables.events[item.event_id]
            tables.events[row.id] = replace(row, state=EventState.DROPPED, reason=reason)
    told = (event,) if room.refused else room.notices
    if verdict.full_notice:
        insert_drafts(tables, [verdict.full_notice(left_out) for left_out in told], now)
    return room.refused


def stop_session(
    tables: Tables, row: SessionRow, reason: str, now: int, before: int | None = None
) -> tuple[tuple[str, int] | None, int, int]:
    """End the running turn and set what waits aside; see the twin."""
    head, done = row.queue.head, row.queue.done

    def is_meant(event: EventRow) -> bool:
        return before is None or event.id < before

    upto = max((e.seq or 0 for e in tables.events.values() if e.session == row.id and is_meant(e)), default=0)
    upto = max(upto, done)
    turn = tables.running_turn(row.id)
    ended = turn if turn is not None and turn.first_seq <= upto else None
    left_out = [e for e in tables.of_session(row.id, EventState.DROPPED) if e.reason == "summarize" and is_meant(e)]
    waiting = [e for e in tables.of_session(row.id, EventState.WAITING) if (e.seq or 0) <= upto]
    for event in [*left_out, *waiting]:
        tables.events[event.id] = replace(event, state=EventState.SET_ASIDE, reason=reason)
    if ended is not None:
        tables.turns[ended.id] = replace(ended, state=TurnState.STOPPED, ended_at=now, reason=reason)
        del tables.running[row.id]
    if ended is not None or turn is None:
        queue = QueueState(head, head if before is None else upto)
        tables.sessions[row.id] = replace(row, owner=None, fence=row.fence + 1, queue=queue)
    waited = sum(1 for event in waiting if ended is None or (event.seq or 0) > ended.last_seq)
    stopped = (row.key, ended.fence) if ended is not None else None
    return stopped, waited + len(left_out), len(waiting) + len(left_out)


def pending_commands(tables: Tables) -> list[PendingCommand]:
    """Return commands that are not carried out yet, oldest first."""
    found = []
    for row in tables.events.values():
        if row.state is EventState.COMMAND and row.session is not None:
            session = tables.sessions[row.session]
            found.append(PendingCommand(row.id, session.key, session.agent, row.is_owner, row.event))
    return found[:MAX_COMMANDS]


def apply_command(
    tables: Tables,
    event_id: int,
    change: SessionChange,
    reply: Callable[[Changed], Sequence[Draft]],
    now: int,
) -> Changed | None:
    """Carry out a command once."""
    command = tables.events.get(event_id)
    if command is None or command.state is not EventState.COMMAND or command.session is None:
        return None
    tables.events[event_id] = replace(command, state=EventState.HANDLED)
    row = tables.sessions[command.session]
    done = change_row(tables, row, change, now, "command", before=event_id)
    insert_drafts(tables, reply(done), now)
    if change.then:
        event = replace(command.event, text=change.then)
        derived = hashlib.blake2b(command.identity + b"then", digest_size=16).digest()
        _enqueue(tables, derived, event, Enqueue(row.key, row.agent, change.then_rule, command.is_owner), now)
    return done


def change_row(
    tables: Tables, row: SessionRow, change: SessionChange, now: int, reason: str, before: int | None = None
) -> Changed:
    """Carry out a change of a session, except for what it enqueues; `before` as for `stop_session`."""
    target, done = 0, Changed()
    if change.resume:
        mine = (c.id for c in tables.conversations.values() if c.uuid == change.resume and c.session == row.id)
        target = next(mine, 0)
        done = replace(done, found=bool(target))
    if change.stop and done.found:
        ended, waited, _ = stop_session(tables, row, reason, now, before)
        row = tables.sessions[row.id]
        done = replace(done, stopped=ended, set_aside=waited)
    if (change.new_conversation or change.resume) and done.found:
        end_conversation(tables, row.conversation, now, reason)
        row = tables.sessions[row.id] = replace(row, conversation=target, touched_at=now, current_since=now)
        if target:
            resumed = tables.conversations[target]
            tables.conversations[target] = replace(resumed, ended_at=None, end_reason="")
    if change.settings:
        merged = {**row.settings, **change.settings}
        kept = {name: value for name, value in merged.items() if value is not None}
        tables.sessions[row.id] = replace(row, settings=kept)
    return done


def end_conversation(tables: Tables, conversation: int, now: int, reason: str) -> None:
    """Note when and why a conversation ended, unless that is known."""
    row = tables.conversations.get(conversation)
    if row is not None and row.ended_at is None:
        tables.conversations[conversation] = replace(row, ended_at=now, end_reason=reason)
