"""Events are stored once, with their verdict and their cursor, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contract.store.world import HERE, KEY, World, draft, texts, waiting
from tidegate.events import EventKind, MessageEvent
from tidegate.sessions.model import (
    AppendStatus,
    CursorUpdate,
    DeliveryKind,
    EventState,
    NewEvent,
    PairingRequest,
    Record,
)


async def test_an_event_that_comes_again_changes_nothing(world: World) -> None:
    event = world.message("once")
    first = (await world.store.append_events([waiting(event)]))[0]
    again = (await world.store.append_events([waiting(replace(event, text="changed"))]))[0]
    assert (again.status, again.event_id) == (AppendStatus.DUPLICATE, first.event_id)
    assert texts(await world.claim()) == ["once"]


async def test_an_event_is_known_for_ever_also_after_a_restart(world: World) -> None:
    event = world.message()
    await world.store.append_events([waiting(event)])
    await world.answer(await world.claim())
    await world.restart()
    assert (await world.store.append_events([waiting(event)]))[0].status is AppendStatus.DUPLICATE
    assert await world.store.waiting_sessions() == []


async def test_an_event_twice_in_one_batch_is_stored_once(world: World) -> None:
    item = world.queued()
    answers = await world.store.append_events([item, item])
    assert [answer.status for answer in answers] == [AppendStatus.STORED, AppendStatus.DUPLICATE]


@pytest.mark.parametrize(
    "other",
    [
        {"revision": "2"},
        {"kind": EventKind.EDIT},
        {"message_id": "another"},
        {"event_id": "another"},
        {"address": replace(HERE, account="second")},
    ],
)
async def test_another_revision_kind_message_or_account_is_another_event(
    world: World, other: dict[str, object]
) -> None:
    event = world.message()
    changed: MessageEvent = replace(event, **other)  # type: ignore[arg-type]
    answers = await world.store.append_events([waiting(event), waiting(changed)])
    assert [answer.status for answer in answers] == [AppendStatus.STORED, AppendStatus.STORED]


async def test_the_cursor_is_stored_with_its_events(world: World) -> None:
    assert await world.store.load_cursor("telegram", "default") is None
    await world.store.append_events([world.queued()], CursorUpdate("telegram", "default", "17"))
    await world.store.append_events([], CursorUpdate("telegram", "default", "18"))
    await world.restart()
    assert await world.store.load_cursor("telegram", "default") == "18"
    assert await world.store.load_cursor("telegram", "second") is None


async def test_a_batch_that_fails_leaves_neither_events_nor_cursor(world: World) -> None:
    class BrokenError(Exception):
        pass

    def broken(_dropped: MessageEvent) -> object:
        raise BrokenError

    await world.say()
    await world.claim()
    rule = replace(waiting(world.message()).verdict.rule, cap=1, drop="new")  # type: ignore[union-attr]
    await world.say(rule=rule)
    item = world.queued(rule=rule)
    refused = NewEvent(item.event, replace(item.verdict, full_notice=broken))  # type: ignore[arg-type]
    with pytest.raises(BrokenError):
        await world.store.append_events([world.queued(key="other"), refused], CursorUpdate("telegram", "default", "9"))
    assert await world.store.load_cursor("telegram", "default") is None
    assert await world.store.session("other") is None
    assert (await world.store.totals()).stored == 2


async def test_events_of_a_session_are_answered_in_the_order_of_the_batch(world: World) -> None:
    await world.store.append_events([world.queued(f"m{n}") for n in range(5)])
    turn = await world.claim()
    assert [event.text for event in turn.events] == [f"m{n}" for n in range(5)]


async def test_events_that_ask_for_no_turn_wake_no_session(world: World) -> None:
    states = [EventState.DENIED, EventState.PAIRING, EventState.IGNORED, EventState.UNROUTED]
    records = [NewEvent(world.message(), Record(state, "why")) for state in states]
    await world.store.append_events(records)
    assert await world.store.waiting_sessions() == []
    assert await world.state_counts() == {state.value: 1 for state in states}


async def test_drafts_of_a_record_are_queued_with_it_once(world: World) -> None:
    record = Record(EventState.UNROUTED, drafts=(draft("nobody answers here", kind=DeliveryKind.NOTICE),))
    item = NewEvent(world.message(), record)
    await world.store.append_events([item])
    await world.store.append_events([item])
    assert await world.notices() == ["nobody answers here"]


async def test_a_pairing_notice_goes_out_only_for_a_new_request(world: World) -> None:
    def stranger(code: str) -> NewEvent:
        event = world.message(sender="stranger")
        now = world.clock.now()
        asked = PairingRequest("telegram", "default", "stranger", "S", code, now, now + 3_600_000_000)
        record = Record(EventState.PAIRING, keep_text=False, drafts=(draft(f"code {code}"),), pairing=asked)
        return NewEvent(event, record)

    await world.store.append_events([stranger("AAAA"), stranger("BBBB")])
    assert await world.notices() == ["code AAAA"]


async def test_group_talk_is_shown_once_with_the_next_message(world: World) -> None:
    await _overhear(world, "one", "two")
    await world.say("now you")
    turn = await world.claim()
    assert texts(turn) == ["heard: one", "heard: two", "now you"]
    await world.answer(turn)
    await world.say("again")
    assert texts(await world.claim())[-1] == "again"
    assert (await world.state_counts())["handled"] == 2


async def test_only_the_newest_group_talk_is_kept(world: World) -> None:
    await _overhear(world, "one", "two", "three", "four", keep=2)
    await world.say("now you")
    assert texts(await world.claim()) == ["heard: three", "heard: four", "now you"]


async def test_group_talk_after_a_message_waits_for_the_next_one(world: World) -> None:
    await world.say("first")
    await _overhear(world, "later")
    turn = await world.claim()
    assert texts(turn) == ["first"]
    await world.answer(turn)
    await world.say("second")
    assert texts(await world.claim())[-2:] == ["heard: later", "second"]


async def _overhear(world: World, *said: str, keep: int = 10) -> None:
    for text in said:
        record = Record(EventState.CONTEXT, session_key=KEY, agent="main", keep=keep)
        await world.store.append_events([NewEvent(world.message(text), record)])
