"""What an operator does, in memory; the twin of `sqlite/operating.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TypeVar

from tidegate.clock import SECOND, Clock
from tidegate.events import MessageEvent
from tidegate.sessions.codec import event_identity
from tidegate.sessions.memory.inbox import change_row, session_row
from tidegate.sessions.memory.tables import DeliveryRow, SessionRow, Tables, TurnRow
from tidegate.sessions.memory.turns import append_messages, begin_conversation
from tidegate.sessions.model import Changed, EventState, SessionChange, TurnState
from tidegate.sessions.operating import Answered, Ending, Line, SessionUsage, Usage

Result = TypeVar("Result")


def _find(tables: Tables, key: str, agent: str, now: int) -> SessionRow | None:
    return session_row(tables, key, agent, now) if agent else tables.session(key)


def change_session(tables: Tables, key: str, change: SessionChange, agent: str, now: int) -> Changed | None:
    """Change a session."""
    row = _find(tables, key, agent, now)
    return change_row(tables, row, change, now, "operator") if row is not None else None


def add_message(tables: Tables, key: str, body: str, agent: str, run: str, now: int) -> tuple[str, int] | None:
    """Append to a transcript."""
    row = _find(tables, key, agent, now)
    if row is None or tables.running_turn(row.id) is not None:
        return None
    current = tables.conversations.get(row.conversation) or begin_conversation(tables, row, now)
    before = tables.messages.get(current.id, ())
    last = tables.turns.get(before[-1][2]) if run and before else None
    turn = last.id if last is not None and last.run_id == run else 0
    said = append_messages(tables, current.id, turn, [body])
    tables.sessions[row.id] = replace(tables.sessions[row.id], touched_at=now)
    return current.uuid, said[0].seq


def lines(tables: Tables, conversation: str, limit: int, before: int) -> list[Line]:
    """Return messages of a conversation, oldest first."""
    number = next((row.id for row in tables.conversations.values() if row.uuid == conversation), 0)
    said = [row for row in tables.messages.get(number, ()) if not before or row[0] < before]
    followed = {(seq - 1, turn) for seq, _, turn in tables.messages.get(number, ())}
    found = []
    for seq, body, turn in said[max(0, len(said) - limit) :]:
        row = tables.turns.get(turn)
        if row is None:
            found.append(Line(seq, body))
            continue
        ending = None if (seq, turn) in followed else _ending(row)
        found.append(Line(seq, body, row.started_at, row.run_id, row.model, ending))
    return found


def _ending(row: TurnRow) -> Ending | None:
    if row.state not in (TurnState.STOPPED, TurnState.FAILED):
        return None
    return Ending(row.state, row.ended_at, row.reason, row.told)


def usage(tables: Tables, since: int) -> list[Usage]:
    """Return what turns used, by day and model."""
    found: dict[tuple[str, str], Usage] = {}
    for turn in tables.turns.values():
        if turn.started_at < since:
            continue
        day = datetime.fromtimestamp(turn.started_at // SECOND, UTC).date().isoformat()
        old = found.get((day, turn.model), Usage(day, turn.model, 0, 0, 0))
        found[day, turn.model] = Usage(
            day, turn.model, old.turns + 1, old.tokens_in + turn.tokens_in, old.tokens_out + turn.tokens_out
        )
    return [found[key] for key in sorted(found)]


def usage_of_sessions(tables: Tables, since: int, key: str, limit: int) -> list[SessionUsage]:
    """Return what turns used, by session, day and model."""
    found: dict[tuple[str, str, str], SessionUsage] = {}
    names = {row.id: row for row in tables.sessions.values()}
    for turn in tables.turns.values():
        session = names[turn.session]
        if turn.started_at < since or key not in ("", session.key):
            continue
        day = datetime.fromtimestamp(turn.started_at // SECOND, UTC).date().isoformat()
        where = (session.key, day, turn.model)
        old = found.get(where, SessionUsage(session.key, session.agent, day, turn.model, 0, 0, 0))
        tokens = (old.tokens_in + turn.tokens_in, old.tokens_out + turn.tokens_out)
        found[where] = SessionUsage(session.key, session.agent, day, turn.model, old.turns + 1, *tokens)
    rows = sorted(found.values(), key=lambda row: (row.session, row.model))
    return sorted(rows, key=lambda row: row.day, reverse=True)[:limit]


def answered(tables: Tables, event: MessageEvent) -> Answered | None:
    """Return the newest turn that a message was part of."""
    identity = event_identity(event)
    row = next((item for item in tables.events.values() if item.identity == identity), None)
    if row is None or row.seq is None:
        return None
    turns = [t for t in tables.turns.values() if t.session == row.session and t.first_seq <= row.seq <= t.last_seq]
    if not turns:
        return None
    turn = max(turns, key=lambda item: item.id)
    conversation = tables.conversations.get(turn.conversation)
    bodies = tuple(body for _, body, number in tables.messages.get(turn.conversation, ()) if number == turn.id)
    uuid = conversation.uuid if conversation is not None else ""
    return Answered(turn.run_id, turn.state, uuid, turn.model, turn.tokens_in, turn.tokens_out, bodies)


def prune_sessions(tables: Tables, keys: Sequence[str], keep: int, limit: int) -> int:
    """Forget sessions."""
    found = [row for row in tables.sessions.values() if any(fnmatchcase(row.key, pattern) for pattern in keys)]
    found.sort(key=lambda row: (row.touched_at, row.id), reverse=True)
    going = [row for row in found[keep:] if not _is_busy(tables, row)][::-1][:limit]
    for row in going:
        turns = {turn.id for turn in tables.turns.values() if turn.session == row.id}
        tables.tool_calls = {key: done for key, done in tables.tool_calls.items() if key[0] not in turns}
        tables.turns = {key: turn for key, turn in tables.turns.items() if key not in turns}
        for conversation in [c for c in tables.conversations.values() if c.session == row.id]:
            tables.messages.pop(conversation.id, None)
            del tables.conversations[conversation.id]
        for event in [item for item in tables.events.values() if item.session == row.id]:
            del tables.events[event.id]
            tables.event_ids.pop(event.identity, None)
        settled = [d.id for d in tables.deliveries.values() if _is_of(d, row.key) and not d.is_open]
        for delivery in settled:
            del tables.deliveries[delivery]
        del tables.sessions[row.id]
        tables.session_ids.pop(row.key, None)
    return len(going)


def _is_busy(tables: Tables, row: SessionRow) -> bool:
    commands = any(e.state is EventState.COMMAND and e.session == row.id for e in tables.events.values())
    on_its_way = any(d.is_open and _is_of(d, row.key) for d in tables.deliveries.values())
    return row.waits or row.id in tables.running or commands or on_its_way


def _is_of(delivery: DeliveryRow, key: str) -> bool:
    return (delivery.address.channel, delivery.address.chat) == ("webchat", key)


class MemoryOperating:
    """The part of the store that an operator uses; see `OperatorStore`."""

    _clock: Clock

    def _read(self) -> Tables:
        raise NotImplementedError

    def _write(self, work: Callable[[Tables], Result]) -> Result:
        raise NotImplementedError

    async def change_session(self, key: str, change: SessionChange, agent: str = "") -> Changed | None:
        """See `OperatorStore`."""
        return self._write(lambda t: change_session(t, key, change, agent, self._clock.now()))

    async def add_message(self, key: str, body: str, agent: str = "", run: str = "") -> tuple[str, int] | None:
        """See `OperatorStore`."""
        return self._write(lambda t: add_message(t, key, body, agent, run, self._clock.now()))

    async def lines(self, conversation: str, limit: int, before: int = 0) -> Sequence[Line]:
        """See `OperatorStore`."""
        return lines(self._read(), conversation, limit, before)

    async def usage(self, since: int) -> Sequence[Usage]:
        """See `OperatorStore`."""
        return usage(self._read(), since)

    async def usage_of_sessions(self, since: int, key: str = "", limit: int = 10_000) -> Sequence[SessionUsage]:
        """See `OperatorStore`."""
        return usage_of_sessions(self._read(), since, key, limit)

    async def answered(self, event: MessageEvent) -> Answered | None:
        """See `OperatorStore`."""
        return answered(self._read(), event)

    async def prune_sessions(self, keys: Sequence[str], keep: int, limit: int = 200) -> int:
        """See `OperatorStore`."""
        return self._write(lambda t: prune_sessions(t, keys, keep, limit))
