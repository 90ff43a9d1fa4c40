"""Transactions of an operator: a session changed from outside, a note in a transcript, what was used."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Any

from tidegate.clock import Clock
from tidegate.events import MessageEvent
from tidegate.sessions.codec import dump_json, event_identity
from tidegate.sessions.model import Changed, SessionChange, TurnState
from tidegate.sessions.operating import Answered, Ending, Line, SessionUsage, Usage
from tidegate.sessions.sqlite.inbox import change_row, session_row
from tidegate.sessions.sqlite.reads import Reader
from tidegate.sessions.sqlite.turns import append_messages, begin_conversation
from tidegate.sessions.sqlite.writer import Writer


def change_session(connection: Connection, key: str, change: SessionChange, agent: str, now: int) -> Changed | None:
    """Change a session; see `OperatorStore.change_session`."""
    session = _find(connection, key, agent, now)
    return change_row(connection, session, change, now, "operator") if session is not None else None


def add_message(connection: Connection, key: str, body: str, agent: str, run: str, now: int) -> tuple[str, int] | None:
    """Append to a transcript; see `OperatorStore.add_message`."""
    session = _find(connection, key, agent, now)
    if session is None:
        return None
    conversation, uuid, runs = connection.execute(
        "SELECT s.conversation, COALESCE(c.uuid, ''), EXISTS (SELECT 1 FROM turns t WHERE t.session = s.id"
        " AND t.state = 'running') FROM sessions s LEFT JOIN conversations c ON c.id = s.conversation WHERE s.id = ?",
        (session,),
    ).fetchone()
    if runs:
        return None
    if not uuid:
        conversation, uuid = begin_conversation(connection, session, now)
    rows = append_messages(connection, conversation, _last_turn(connection, session, run), [body])
    connection.execute("UPDATE sessions SET touched_at = ? WHERE id = ?", (now, session))
    return uuid, rows[0].seq


def _last_turn(connection: Connection, session: int, run: str) -> int:
    """Return the session's last turn if it is that of a run, else 0."""
    if not run:
        return 0
    row = connection.execute(
        "SELECT m.turn, t.run_id FROM sessions s JOIN messages m ON m.conversation = s.conversation"
        " JOIN turns t ON t.id = m.turn WHERE s.id = ? ORDER BY m.seq DESC LIMIT 1",
        (session,),
    ).fetchone()
    return row[0] if row is not None and row[1] == run else 0


def _find(connection: Connection, key: str, agent: str, now: int) -> int | None:
    if agent:
        return session_row(connection, key, agent, now)
    row = connection.execute("SELECT id FROM sessions WHERE key = ?", (key,)).fetchone()
    return row[0] if row else None


_PRUNE = (
    "DELETE FROM tool_calls WHERE turn IN (SELECT t.id FROM turns t JOIN json_each(?1) j ON t.session = j.value)",
    "DELETE FROM messages WHERE conversation IN"
    " (SELECT c.id FROM conversations c JOIN json_each(?1) j ON c.session = j.value)",
    "DELETE FROM turns WHERE session IN (SELECT value FROM json_each(?1))",
    "DELETE FROM conversations WHERE session IN (SELECT value FROM json_each(?1))",
    "DELETE FROM events WHERE session IN (SELECT value FROM json_each(?1))",
    "DELETE FROM deliveries WHERE settled_at IS NOT NULL AND channel = 'webchat' AND trouble <> 1 AND chat IN"
    " (SELECT s.key FROM sessions s JOIN json_each(?1) j ON s.id = j.value)",
    "DELETE FROM sessions WHERE id IN (SELECT value FROM json_each(?1))",
)
"""All of a session; one pass over each table for all sessions that go."""


def prune_sessions(connection: Connection, keys: Sequence[str], keep: int, limit: int) -> int:
    """Forget sessions; see `OperatorStore.prune_sessions`."""
    pattern = " OR ".join("s.key GLOB ?" for _ in keys) or "0"
    rows = connection.execute(
        f"SELECT s.id FROM (SELECT * FROM sessions s WHERE {pattern}"
        " ORDER BY touched_at DESC, id DESC LIMIT -1 OFFSET ?) s WHERE s.head_seq <= s.done_seq"
        " AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.session = s.id AND t.state = 'running')"
        " AND NOT EXISTS (SELECT 1 FROM events e WHERE e.state = 'command' AND e.session = s.id)"
        " AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.channel = 'webchat' AND d.account = 'default'"
        " AND d.chat = s.key AND d.settled_at IS NULL)"
        " ORDER BY s.touched_at, s.id LIMIT ?",
        (*keys, keep, limit),
    ).fetchall()
    going = dump_json([row[0] for row in rows])
    for sql in _PRUNE if rows else ():
        connection.execute(sql, (going,))
    return len(rows)


def _line(seq: int, body: str, at: int, run: str, model: str, is_last: int, *end: Any) -> Line:
    state, ended_at, reason, told = end
    if not is_last or state not in (TurnState.STOPPED, TurnState.FAILED):
        return Line(seq, body, at, run, model)
    return Line(seq, body, at, run, model, Ending(TurnState(state), ended_at or 0, reason, told))


class SqliteOperating:
    """The part of the store that an operator uses; see `OperatorStore`."""

    _writer: Writer
    _reader: Reader
    _clock: Clock

    async def change_session(self, key: str, change: SessionChange, agent: str = "") -> Changed | None:
        """See `OperatorStore`."""
        now = self._clock.now()
        return await self._writer.run(lambda c: change_session(c, key, change, agent, now))

    async def add_message(self, key: str, body: str, agent: str = "", run: str = "") -> tuple[str, int] | None:
        """See `OperatorStore`."""
        now = self._clock.now()
        return await self._writer.run(lambda c: add_message(c, key, body, agent, run, now))

    async def lines(self, conversation: str, limit: int, before: int = 0) -> Sequence[Line]:
        """See `OperatorStore`."""
        rows = await self._reader.rows(
            "SELECT m.seq, m.body, COALESCE(t.started_at, 0), COALESCE(t.run_id, ''), COALESCE(t.model, ''),"
            " n.seq IS NULL, t.state, t.ended_at, t.reason, t.told"
            " FROM messages m JOIN conversations c ON c.id = m.conversation LEFT JOIN turns t ON t.id = m.turn"
            " LEFT JOIN messages n ON n.conversation = m.conversation AND n.seq = m.seq + 1 AND n.turn = m.turn"
            " WHERE c.uuid = ? AND m.seq < ? ORDER BY m.seq DESC LIMIT ?",
            conversation,
            before or 2**62,
            limit,
        )
        return [_line(*row) for row in reversed(rows)]

    async def usage(self, since: int) -> Sequence[Usage]:
        """See `OperatorStore`."""
        rows = await self._reader.rows(
            "SELECT date(started_at / 1000000, 'unixepoch') AS day, model, COUNT(*), SUM(tokens_in), SUM(tokens_out)"
            " FROM turns WHERE started_at >= ? GROUP BY day, model ORDER BY day, model",
            since,
        )
        return [Usage(*row) for row in rows]

    async def usage_of_sessions(self, since: int, key: str = "", limit: int = 10_000) -> Sequence[SessionUsage]:
        """See `OperatorStore`."""
        rows = await self._reader.rows(
            "SELECT s.key, s.agent, date(t.started_at / 1000000, 'unixepoch') AS day, t.model, COUNT(*),"
            " SUM(t.tokens_in), SUM(t.tokens_out) FROM turns t JOIN sessions s ON s.id = t.session"
            " WHERE t.started_at >= ? AND (? = '' OR s.key = ?) GROUP BY s.key, s.agent, day, t.model"
            " ORDER BY day DESC, s.key, t.model LIMIT ?",
            since,
            key,
            key,
            limit,
        )
        return [SessionUsage(*row) for row in rows]

    async def answered(self, event: MessageEvent) -> Answered | None:
        """See `OperatorStore`."""
        rows = await self._reader.rows(
            "SELECT t.id, t.run_id, t.state, t.conversation, COALESCE(c.uuid, ''), t.model, t.tokens_in, t.tokens_out"
            " FROM events e JOIN turns t ON t.session = e.session AND e.seq BETWEEN t.first_seq AND t.last_seq"
            " LEFT JOIN conversations c ON c.id = t.conversation WHERE e.identity = ? ORDER BY t.id DESC LIMIT 1",
            event_identity(event),
        )
        if not rows:
            return None
        turn, run, state, number, conversation, model, tokens_in, tokens_out = rows[0]
        bodies = await self._reader.rows(
            "SELECT body FROM messages WHERE conversation = ? AND turn = ? ORDER BY seq", number, turn
        )
        said = tuple(str(row[0]) for row in bodies)
        return Answered(run, TurnState(state), conversation, model, tokens_in, tokens_out, said)

    async def prune_sessions(self, keys: Sequence[str], keep: int, limit: int = 200) -> int:
        """See `OperatorStore`."""
        return await self._writer.run(lambda c: prune_sessions(c, keys, keep, limit))
