"""Queries that only look; they run on a reading connection of their own and never wait for a writer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiosqlite

from tidegate.errors import StoreUnavailable
from tidegate.events import Address
from tidegate.sessions.model import (
    RECENT,
    ConversationSummary,
    Delivery,
    DeliveryState,
    HistoryRow,
    SessionSummary,
    Totals,
)
from tidegate.sessions.sqlite.outbox import COLUMNS, row_to_delivery
from tidegate.sessions.titles import title_of

_SESSION = (
    "SELECT s.key, s.agent, COALESCE(c.uuid, ''), s.head_seq - s.done_seq, s.owner IS NOT NULL,"
    " (SELECT COALESCE(MAX(seq), 0) FROM messages m WHERE m.conversation = s.conversation),"
    " COALESCE(c.started_at, s.created_at), s.touched_at, s.settings"
    " FROM {sessions} s LEFT JOIN conversations c ON c.id = s.conversation"
)


class Reader:
    """The reading side of the database, opened when first used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: aiosqlite.Connection | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def close(self) -> None:
        """Close the connection, if it was ever opened; it is not opened again."""
        async with self._opening:
            self._closed = True
            if self._connection is not None:
                await self._connection.close()
                self._connection = None

    async def rows(self, sql: str, *values: Any) -> Sequence[Any]:
        """Return all rows of a query. Raises StoreUnavailable."""
        try:
            connection = self._connection or await self._open()
            return list(await connection.execute_fetchall(sql, values))
        except (aiosqlite.Error, ValueError) as error:
            # aiosqlite answers ValueError when the connection was closed meanwhile.
            raise StoreUnavailable(f"{self._path}: {error}") from error

    async def _open(self) -> aiosqlite.Connection:
        async with self._opening:
            if self._closed:
                raise StoreUnavailable("the store is closed")
            if self._connection is None:
                if not self._is_there():
                    raise StoreUnavailable(f"{self._path}: no such file")
                uri = f"file:{quote(str(self._path))}?mode=ro"
                self._connection = await aiosqlite.connect(uri, uri=True)
            return self._connection

    def _is_there(self) -> bool:
        # Asked first: a connection that fails to open leaves its thread to end some time later.
        return self._path.exists()

    async def waiting_sessions(self) -> list[str]:
        """Return keys of sessions in which something waits or runs."""
        rows = await self.rows("SELECT key FROM sessions WHERE head_seq > done_seq LIMIT 1000")
        return [row[0] for row in rows]

    async def open_lanes(self, channel: str, account: str) -> list[Address]:
        """Return the addresses for which parts are due or being sent."""
        rows = await self.rows(
            "SELECT DISTINCT chat, thread FROM deliveries WHERE channel = ? AND account = ?"
            " AND settled_at IS NULL AND kind <> 'preview' LIMIT 1000",
            channel,
            account,
        )
        return [Address(channel, account, chat, thread) for chat, thread in rows]

    async def troubled(self, limit: int) -> list[Delivery]:
        """Return parts that ended badly and were not reported yet."""
        rows = await self.rows(
            f"SELECT {COLUMNS} FROM deliveries WHERE trouble = 1 ORDER BY id LIMIT ?",
            limit,
        )
        return [row_to_delivery(row) for row in rows]

    async def deliveries(self, states: Sequence[DeliveryState], since: int, limit: int) -> list[Delivery]:
        """Return parts in one of these states, the newest first; looks at the newest `RECENT` rows only."""
        marks = ",".join("?" * len(states))
        rows = await self.rows(
            f"SELECT {COLUMNS} FROM deliveries WHERE id > (SELECT COALESCE(MAX(id), 0) FROM deliveries) - ?"
            f" AND state IN ({marks}) AND created_at >= ? AND (kind <> 'preview' OR state = 'unknown')"
            " ORDER BY id DESC LIMIT ?",
            RECENT,
            *(state.value for state in states),
            since,
            limit,
        )
        return [row_to_delivery(row) for row in rows]

    async def delivery(self, number: int) -> Delivery | None:
        """Return one part."""
        rows = await self.rows(f"SELECT {COLUMNS} FROM deliveries WHERE id = ?", number)
        return row_to_delivery(rows[0]) if rows else None

    async def load_cooldowns(self) -> list[tuple[str, str, str, int, int, str]]:
        """Return all cool-downs."""
        rows = await self.rows("SELECT provider, model, credential, until_at, failures, reason FROM cooldowns")
        return [tuple(row) for row in rows]

    async def sessions(self, limit: int) -> list[SessionSummary]:
        """Return the sessions, the most recently used first."""
        rows = await self.rows(
            _SESSION.format(sessions="(SELECT * FROM sessions ORDER BY touched_at DESC, id DESC LIMIT ?)")
            + " ORDER BY s.touched_at DESC, s.id DESC",
            limit,
        )
        return [_session(row) for row in rows]

    async def session(self, key: str) -> SessionSummary | None:
        """Return one session."""
        rows = await self.rows(_SESSION.format(sessions="sessions") + " WHERE s.key = ?", key)
        return _session(rows[0]) if rows else None

    async def conversations(self, key: str, limit: int) -> list[ConversationSummary]:
        """Return the conversations of a session, the newest first."""
        rows = await self.rows(
            "SELECT c.uuid, c.started_at, c.ended_at, c.end_reason,"
            " (SELECT COALESCE(MAX(seq), 0) FROM messages m WHERE m.conversation = c.id),"
            " COALESCE((SELECT body FROM messages m WHERE m.conversation = c.id ORDER BY seq LIMIT 1), '')"
            " FROM conversations c JOIN sessions s ON s.id = c.session WHERE s.key = ? ORDER BY c.id DESC LIMIT ?",
            key,
            limit,
        )
        return [ConversationSummary(row[0], row[1], row[2], row[3], row[4], title_of(row[5])) for row in rows]

    async def transcript(self, conversation: str, limit: int) -> list[HistoryRow]:
        """Return the last messages of a conversation, oldest first."""
        rows = await self.rows(
            "SELECT m.seq, m.body FROM messages m JOIN conversations c ON c.id = m.conversation WHERE c.uuid = ?"
            " ORDER BY m.seq DESC LIMIT ?",
            conversation,
            limit,
        )
        return [HistoryRow(*row) for row in reversed(rows)]

    async def totals(self) -> Totals:
        """Return counts for `status`."""
        stored = (await self.rows("SELECT COALESCE(MAX(id), 0) FROM events"))[0][0]
        events = await self.rows("SELECT state, COUNT(*) FROM events WHERE id > ? GROUP BY state", stored - RECENT)
        deliveries = await self.rows(
            "SELECT state, COUNT(*) FROM deliveries WHERE kind <> 'preview' AND settled_at IS NOT NULL"
            " AND id > (SELECT COALESCE(MAX(id), 0) FROM deliveries) - ? GROUP BY state",
            RECENT,
        )
        open_parts = await self.rows(
            "SELECT state, COUNT(*) FROM deliveries INDEXED BY deliveries_open WHERE settled_at IS NULL"
            " AND kind <> 'preview' GROUP BY state"
        )
        sessions, running, waiting = (
            await self.rows(
                "SELECT (SELECT COUNT(*) FROM sessions), (SELECT COUNT(s.owner) FROM turns t JOIN sessions s"
                " ON s.id = t.session WHERE t.state = 'running'),"
                " (SELECT COALESCE(SUM(head_seq - done_seq), 0) FROM sessions WHERE head_seq > done_seq)",
            )
        )[0]
        return Totals(dict(events), dict([*deliveries, *open_parts]), sessions, running, waiting, stored)

    async def session_settings(self) -> dict[str, dict[str, Any]]:
        """Return the settings of every session that has any."""
        rows = await self.rows("SELECT key, settings FROM sessions WHERE settings <> ''")
        return {key: json.loads(text) for key, text in rows}


def _session(row: Sequence[Any]) -> SessionSummary:
    settings = json.loads(row[8]) if row[8] else {}
    return SessionSummary(row[0], row[1], row[2], row[3], bool(row[4]), row[5], row[6], row[7], settings)
