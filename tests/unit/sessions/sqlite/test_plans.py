"""No statement of the daily work walks through a table that grows for ever."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from pathlib import Path

from contract.store.world import HERE, KEY, World, body, draft, sent
from tidegate.sessions.model import (
    CursorUpdate,
    EventState,
    JournalEntry,
    NewEvent,
    QueueRule,
    Record,
    SessionChange,
)
from tidegate.sessions.sqlite.store import SqliteStore

GROWING = re.compile(r"^SCAN (events|e|deliveries|turns|t|messages|m|tool_calls)(?! USING)\b(?!.*USING)")


def test_every_statement_finds_its_rows_by_an_index(tmp_path: Path) -> None:
    statements: list[str] = []
    asyncio.run(_a_day(World("sqlite", tmp_path), statements))
    asked = {text for text in statements if re.match(r"\s*(SELECT|UPDATE|INSERT|DELETE)", text)}
    assert len(asked) > 60
    connection = sqlite3.connect(tmp_path / "state.db")
    try:
        for text in sorted(asked):
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")]
            assert not [step for step in plan if GROWING.match(step)], f"{text}\n{plan}"
    finally:
        connection.close()


async def _a_day(world: World, statements: list[str]) -> None:
    store = world.store
    assert isinstance(store, SqliteStore)
    await store.open()
    await store._writer.run(lambda c: c.set_trace_callback(statements.append))
    await store.totals()
    reader = store._reader._connection
    assert reader is not None
    await reader.set_trace_callback(statements.append)
    talk = Record(EventState.CONTEXT, session_key=KEY, agent="main", keep=1)
    for _ in range(3):
        await store.append_events([NewEvent(world.message(), talk)], CursorUpdate("telegram", "default", "1"))
    rule = QueueRule(mode="steer", window=1000)
    await world.say(rule=rule)
    await world.say(rule=rule)
    world.clock.advance(1)
    turn = await world.claim()
    for _ in range(3):
        await world.say(rule=QueueRule(cap=1))
    await world.say(rule=rule)
    await store.journal(turn, JournalEntry((body("a"),), ("call", "read"), "call"))
    await store.take_steering(turn, lambda event, *_: event.text, body)
    await store.extend([turn.lease], 60)
    await store.settle([sent(await store.open_preview(turn, draft("…")))])
    await store.release(world.owner)
    turn = await world.claim()
    await world.answer(turn)
    await world.notices()
    world.clock.advance(5)
    await world.say()
    await world.claim()
    await world.say(rule=QueueRule(mode="interrupt"))
    change = SessionChange(stop=True, resume=turn.conversation, then="then", settings={"a": 1})
    await store.apply_command(await world.command(), change, lambda _: [draft("done")])
    await store.pending_commands()
    await store.open_lanes(HERE.channel, HERE.account)
    await store.report([row.id for row in await store.troubled(10)], [draft("digest")])
    await store.waiting_sessions()
    await store.sessions(10)
    await store.session(KEY)
    await store.conversations(KEY, 10)
    await store.transcript(turn.conversation, 10)
    await store.totals()
    await store.session_settings()
    await store.close()
