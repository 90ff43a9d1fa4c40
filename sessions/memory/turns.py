"""Transactions of turns in memory; the twin of `sqlite/turns.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tidegate.errors import LeaseLost
from tidegate.events import MessageEvent
from tidegate.ids import new_id
from tidegate.sessions.memory.inbox import end_conversation
from tidegate.sessions.memory.outbox import insert_drafts, sent_preview, use_preview
from tidegate.sessions.memory.tables import ConversationRow, SessionRow, Tables, TurnRow
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

LEASE_MICROSECONDS = 60_000_000
MAX_WAITING_LOADED = 500
_EVENT_STATE = {
    TurnState.ANSWERED: EventState.ANSWERED,
    TurnState.FAILED: EventState.FAILED,
    TurnState.STOPPED: EventState.SET_ASIDE,
}


def claim(tables: Tables, key: str, owner: str, rules: ClaimRules, now: int) -> ClaimedTurn | NotYet | None:
    """Take a session's lease and its next turn."""
    row = tables.session(key)
    if row is None or not row.waits:
        return None
    turn = tables.running_turn(row.id)
    if turn is not None:
        suspect = Suspect(turn.attempt, rules.max_attempts, row.lease_until - LEASE_MICROSECONDS, rules.last_try_after)
        if at := last_try_at(suspect, others=_last_try_runs(tables, row, owner, rules), now=now):
            return NotYet(at)
        return _resume(tables, _take_lease(tables, row, owner, now), turn, rules)
    if is_ahead(row.queue.not_before, now):
        return NotYet(row.queue.not_before)
    waiting = tables.waiting(row.id, row.queue.done)[:MAX_WAITING_LOADED]
    if not waiting:
        tables.sessions[row.id] = replace(row, queue=replace(row.queue, done=row.queue.head))
        return None
    return _begin(tables, row, waiting, owner, rules, now)


def _last_try_runs(tables: Tables, row: SessionRow, owner: str, rules: ClaimRules) -> bool:
    others = (other for other in tables.sessions.values() if other.owner == owner and other.id != row.id)
    running = (tables.running_turn(other.id) for other in others)
    return any(turn is not None and turn.attempt == rules.max_attempts for turn in running)


def _take_lease(tables: Tables, row: SessionRow, owner: str, now: int) -> SessionRow:
    held = replace(row, owner=owner, fence=row.fence + 1, lease_until=now + LEASE_MICROSECONDS, touched_at=now)
    tables.sessions[row.id] = held
    return held


def _begin(
    tables: Tables, row: SessionRow, waiting: list[QueuedEvent], owner: str, rules: ClaimRules, now: int
) -> ClaimedTurn:
    conversation, notice = _conversation(tables, row, rules, now)
    plan = _plan(tables, row.id, waiting, rules)
    taken = waiting[: plan.take]
    for item in taken[: plan.set_aside]:
        tables.events[item.event_id] = replace(
            tables.events[item.event_id], state=EventState.SET_ASIDE, reason="interrupt"
        )
    row = _take_lease(tables, tables.sessions[row.id], owner, now)
    answered = taken[plan.set_aside :]
    turn = TurnRow(
        id=max(tables.turns, default=0) + 1,
        run_id=new_id(),
        session=row.id,
        conversation=conversation.id,
        first_seq=answered[0].seq,
        last_seq=taken[-1].seq,
        set_aside=plan.set_aside,
        attempt=1,
        fence=row.fence,
        started_at=now,
        notice=notice,
    )
    tables.turns[turn.id] = turn
    tables.running[row.id] = turn.id
    append_messages(tables, conversation.id, turn.id, [rules.encode(text) for text in plan.texts])
    return _claimed(tables, row, turn, rules, answered)


def _claimed(
    tables: Tables, row: SessionRow, turn: TurnRow, rules: ClaimRules, answered: Sequence[QueuedEvent]
) -> ClaimedTurn:
    said = tables.messages.get(turn.conversation, ())
    own = sum(number == turn.id for _, _, number in said) if turn.attempt == 1 else 0
    history = [HistoryRow(*row) for row in said]
    return ClaimedTurn(
        lease=Lease(row.id, row.key, row.owner or "", row.fence),
        turn=turn.id,
        run_id=turn.run_id,
        agent=row.agent,
        conversation=tables.conversations[turn.conversation].uuid,
        attempt=turn.attempt,
        events=tuple(item.event for item in answered),
        is_owner=all(item.is_owner for item in answered),
        history=tuple(history[-(rules.history_limit + own) :]),
        started_calls=frozenset(
            call for (number, call), ended in tables.tool_calls.items() if number == turn.id and not ended
        ),
        settings=dict(row.settings),
        notice=turn.notice,
        exhausted=turn.attempt > rules.max_attempts,
        set_aside=turn.set_aside,
    )


def _conversation(tables: Tables, row: SessionRow, rules: ClaimRules, now: int) -> tuple[ConversationRow, str]:
    reason = ""
    if row.conversation:
        if tables.messages.get(row.conversation):
            facts = SessionFacts(row.key, row.agent, row.current_since, row.touched_at, row.settings, has_history=True)
            reason = rules.stale(facts, now) or ""
        if not reason:
            return tables.conversations[row.conversation], ""
        end_conversation(tables, row.conversation, now, reason)
    return begin_conversation(tables, row, now), reason


def begin_conversation(tables: Tables, row: SessionRow, now: int) -> ConversationRow:
    """Make a new current conversation."""
    fresh = ConversationRow(max(tables.conversations, default=0) + 1, new_id(), row.id, now)
    tables.conversations[fresh.id] = fresh
    tables.sessions[row.id] = replace(row, conversation=fresh.id, current_since=now)
    return fresh


def _plan(tables: Tables, session: int, waiting: list[QueuedEvent], rules: ClaimRules) -> TurnPlan:
    talk = [row for row in tables.of_session(session, EventState.CONTEXT) if row.id < waiting[0].event_id]
    for row in talk:
        tables.events[row.id] = replace(row, state=EventState.HANDLED)
    said = [row.event for row in talk]
    left_out = [row.queued for row in tables.of_session(session, EventState.DROPPED) if row.reason == "summarize"]
    if not left_out:
        return rules.plan(waiting, said, Overflow())
    first_plan = rules.plan(waiting, (), Overflow())
    answered = waiting[first_plan.set_aside : first_plan.take]
    address, is_owner = answered[-1].event.address, all(item.is_owner for item in answered)
    told = [item for item in left_out if belongs_to_turn(item, address, is_owner=is_owner)]
    for item in told:
        tables.events[item.event_id] = replace(tables.events[item.event_id], reason="summarized")
    return rules.plan(waiting, said, overflow_of(told))


def append_messages(tables: Tables, conversation: int, turn: int, bodies: Sequence[str]) -> list[HistoryRow]:
    """Append to a transcript."""
    before = tables.messages.get(conversation, ())
    rows = [(len(before) + 1 + index, body, turn) for index, body in enumerate(bodies)]
    tables.messages[conversation] = (*before, *rows)
    return [HistoryRow(*row) for row in rows]


def _resume(tables: Tables, row: SessionRow, turn: TurnRow, rules: ClaimRules) -> ClaimedTurn:
    turn = tables.turns[turn.id] = replace(turn, attempt=turn.attempt + 1, fence=row.fence)
    taken = [item for item in tables.waiting(row.id, turn.first_seq - 1) if item.seq <= turn.last_seq]
    return replace(_claimed(tables, row, turn, rules, taken), preview=sent_preview(tables, turn.id))


def hold(tables: Tables, turn: ClaimedTurn) -> tuple[SessionRow, TurnRow]:
    """Check that the turn's lease still holds. Raises LeaseLost."""
    lease = turn.lease
    row, running = tables.sessions.get(lease.session), tables.running_turn(lease.session)
    if (
        row is None
        or running is None
        or running.id != turn.turn
        or (row.owner, row.fence) != (lease.owner, lease.fence)
    ):
        raise LeaseLost(f"{lease.key}: fence {lease.fence} no longer holds")
    return row, running


def journal(tables: Tables, turn: ClaimedTurn, entry: JournalEntry) -> bool:
    """Make an entry durable."""
    row, running = hold(tables, turn)
    append_messages(tables, running.conversation, turn.turn, entry.messages)
    if entry.tool_started is not None:
        tables.tool_calls[turn.turn, entry.tool_started[0]] = False
    if entry.tool_ended is not None and (turn.turn, entry.tool_ended) in tables.tool_calls:
        tables.tool_calls[turn.turn, entry.tool_ended] = True
    return row.queue.head > running.last_seq


def take_steering(
    tables: Tables,
    turn: ClaimedTurn,
    accept: Callable[[MessageEvent, bool, str], str | None],
    encode: Callable[[str], str],
) -> list[HistoryRow]:
    """Move waiting messages into the running turn."""
    row, running = hold(tables, turn)
    bodies, taken = [], running.last_seq
    for item in tables.waiting(row.id, running.last_seq)[:MAX_WAITING_LOADED]:
        text = accept(item.event, item.is_owner, item.mode)
        if text is None:
            break
        bodies.append(encode(text))
        if item.mode == "steer-backlog":
            tables.events[item.event_id] = replace(tables.events[item.event_id], mode="followup")
            break
        taken = item.seq
    tables.turns[running.id] = replace(running, last_seq=taken)
    return append_messages(tables, running.conversation, turn.turn, bodies)


def finish(tables: Tables, turn: ClaimedTurn, end: Finish, now: int) -> bool:
    """Commit the end of a turn with its reply."""
    row, running = hold(tables, turn)
    append_messages(tables, running.conversation, turn.turn, end.messages)
    insert_drafts(tables, use_preview(tables, turn.turn, end.drafts), now, turn=turn.turn)
    for item in tables.waiting(row.id, running.first_seq - 1):
        if item.seq <= running.last_seq:
            tables.events[item.event_id] = replace(tables.events[item.event_id], state=_EVENT_STATE[end.state])
    tables.turns[running.id] = replace(
        running,
        state=end.state,
        model=end.model,
        tokens_in=end.tokens_in,
        tokens_out=end.tokens_out,
        ended_at=now,
        reason=end.reason,
        told=end.told,
    )
    del tables.running[row.id]
    queue = replace(row.queue, done=running.last_seq)
    tables.sessions[row.id] = replace(row, owner=None, lease_until=0, touched_at=now, queue=queue)
    return row.queue.head > running.last_seq


def release(tables: Tables, owner: str) -> None:
    """Give back every lease of an owner."""
    for row in list(tables.sessions.values()):
        if row.owner == owner:
            tables.sessions[row.id] = replace(row, owner=None, lease_until=0)
            turn = tables.running_turn(row.id)
            if turn is not None:
                tables.turns[turn.id] = replace(turn, attempt=turn.attempt - 1)


def extend(tables: Tables, leases: Sequence[Lease], until: int) -> list[Lease]:
    """Prolong leases; returns those that are lost."""
    lost = []
    for lease in leases:
        row = tables.sessions.get(lease.session)
        if row is None or (row.owner, row.fence) != (lease.owner, lease.fence):
            lost.append(lease)
        else:
            tables.sessions[row.id] = replace(row, lease_until=until)
    return lost
