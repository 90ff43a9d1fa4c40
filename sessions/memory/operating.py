"""What an operator does, in memory; the twin of `sqlite/operating.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from tidegate.clock import SECOND, Clock
from tidegate.sessions.memory.inbox import change_row, session_row
from tidegate.sessions.memory.tables import SessionRow, Tables
from tidegate.sessions.memory.turns import append_messages, begin_conversation
from tidegate.sessions.model import Changed, SessionChange
from tidegate.sessions.operating import Line, Usage

Result = TypeVar("Result")


def _find(tables: Tables, key: str, agent: str, now: int) -> SessionRow | None:
    return session_row(tables, key, agent, now) if agent else tables.session(key)


def change_session(tables: Tables, key: str, change: SessionChange, agent: str, now: int) -> Changed | None:
    """Change a session."""
    row = _find(tables, key, agent, now)
    return change_row(tables, row, change, now, "operator") if row is not None else None


def add_message(tables: Tables, key: str, body: str, agent: str, now: int) -> tuple[str, int] | None:
    """Append to a transcript."""
    row = _find(tables, key, agent, now)
    if row is None or tables.running_turn(row.id) is not None:
        return None
    current = tables.conversations.get(row.conversation) or begin_conversation(tables, row, now)
    said = append_messages(tables, current.id, 0, [body])
    tables.sessions[row.id] = replace(tables.sessions[row.id], touched_at=now)
    return current.uuid, said[0].seq


def lines(tables: Tables, conversation: str, limit: int, before: int) -> list[Line]:
    """Return messages of a conversation, oldest first."""
    number = next((row.id for row in tables.conversations.values() if row.uuid == conversation), 0)
    said = [row for row in tables.messages.get(number, ()) if not before or row[0] < before]
    found = []
    for seq, body, turn in said[max(0, len(said) - limit) :]:
        row = tables.turns.get(turn)
        found.append(Line(seq, body, row.started_at, row.run_id, row.model) if row else Line(seq, body))
    return found


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

    async def add_message(self, key: str, body: str, agent: str = "") -> tuple[str, int] | None:
        """See `OperatorStore`."""
        return self._write(lambda t: add_message(t, key, body, agent, self._clock.now()))

    async def lines(self, conversation: str, limit: int, before: int = 0) -> Sequence[Line]:
        """See `OperatorStore`."""
        return lines(self._read(), conversation, limit, before)

    async def usage(self, since: int) -> Sequence[Usage]:
        """See `OperatorStore`."""
        return usage(self._read(), since)
