"""What people look at."""

from __future__ import annotations

import pytest

from contract.store.world import KEY, World, body, draft, sent
from tidegate.errors import StoreUnavailable
from tidegate.events import MessageEvent
from tidegate.sessions.model import EventState, JournalEntry, NewEvent, Record


async def test_sessions_are_listed_the_most_recently_used_first(world: World) -> None:
    for key in ("a", "b", "c"):
        world.clock.advance(1)
        await world.say(key=key)
    world.clock.advance(1)
    turn = await world.claim("a")
    rows = await world.store.sessions(2)
    assert [row.key for row in rows] == ["a", "c"]
    assert (rows[0].running, rows[0].waiting, rows[0].messages) == (True, 1, 1)
    assert rows[0].conversation == turn.conversation
    assert (rows[1].running, rows[1].waiting, rows[1].messages, rows[1].conversation) == (False, 1, 0, "")


async def test_one_session_is_found_by_its_key(world: World) -> None:
    assert await world.store.session(KEY) is None
    await world.say()
    turn = await world.claim()
    world.clock.advance(5)
    await world.answer(turn)
    row = await world.store.session(KEY)
    assert row is not None
    assert (row.key, row.agent, row.waiting, row.running, row.messages) == (KEY, "main", 0, False, 2)
    assert row.touched_at == world.clock.now()
    assert row.started_at == world.clock.now() - 5_000_000


async def test_a_transcript_is_the_newest_messages_in_order(world: World) -> None:
    await world.say("hello")
    turn = await world.claim()
    await world.store.journal(turn, JournalEntry((body("a"), body("b"))))
    assert [(row.seq, row.body) for row in await world.store.transcript(turn.conversation, 2)] == [
        (2, body("a")),
        (3, body("b")),
    ]
    assert await world.store.transcript(turn.conversation, 0) == []
    assert await world.store.transcript("unknown", 5) == []


async def test_conversations_have_a_short_title(world: World) -> None:
    await world.say("word " * 40)
    await world.claim()
    [row] = await world.store.conversations(KEY, 5)
    assert row.title == ("word " * 12)[:60] + "…"
    assert (row.messages, row.ended_at, row.end_reason) == (1, None, "")
    assert await world.store.conversations("unknown", 5) == []


async def test_totals_count_by_state(world: World) -> None:
    await world.say()
    await world.answer(await world.claim())
    await world.say()
    await world.claim()
    await world.say()
    await world.say(key="other")
    await world.store.append_events([NewEvent(world.message(), Record(EventState.DENIED))])
    [number] = await world.store.add_deliveries([draft("a")])
    await world.store.settle([sent(number)])
    totals = await world.store.totals()
    assert totals.events == {"answered": 1, "waiting": 3, "denied": 1}
    assert totals.deliveries == {"due": 1, "sent": 1}
    assert (totals.sessions, totals.running, totals.waiting, totals.stored) == (2, 1, 3, 5)


async def test_what_a_stranger_says_is_not_kept(world: World) -> None:
    event: MessageEvent = world.message("a secret of a stranger")
    await world.store.append_events([NewEvent(event, Record(EventState.DENIED, keep_text=False))])
    await world.store.close()
    if world.kind == "sqlite":
        content = b"".join(path.read_bytes() for path in world.path.parent.iterdir())
        assert b"secret of a stranger" not in content
        assert b"ann" in content


async def test_a_closed_store_says_so(world: World) -> None:
    await world.store.close()
    with pytest.raises(StoreUnavailable):
        await world.say()
    with pytest.raises(StoreUnavailable):
        await world.store.sessions(1)
    with pytest.raises(StoreUnavailable):
        await world.store.claim(KEY, world.owner, None)  # type: ignore[arg-type]


async def test_statistics_name_the_place(world: World) -> None:
    assert str(world.store.statistics()["path"]).endswith("state.db" if world.kind == "sqlite" else "memory")
