"""A chat command and its answer are one step, carried out once."""

from __future__ import annotations

import pytest

from contract.store.world import KEY, World, draft, texts
from tidegate.sessions.model import Changed, QueueRule, SessionChange


async def test_a_stored_command_waits_until_it_is_carried_out(world: World) -> None:
    first = await world.command("/stop")
    second = await world.command("/status", key="other")
    await world.restart()
    pending = await world.store.pending_commands()
    assert [(row.event_id, row.session_key, row.event.text) for row in pending] == [
        (first, KEY, "/stop"),
        (second, "other", "/status"),
    ]
    assert all(row.is_owner and row.agent == "main" for row in pending)
    await world.store.apply_command(first, SessionChange(), lambda _: ())
    assert [row.event_id for row in await world.store.pending_commands()] == [second]


async def test_a_command_is_carried_out_once(world: World) -> None:
    number = await world.command()
    change = SessionChange(then="hello")
    assert await world.store.apply_command(number, change, lambda _: [draft("done")]) is not None
    assert await world.store.apply_command(number, change, lambda _: [draft("again")]) is None
    assert await world.store.apply_command(999, change, lambda _: [draft("unknown")]) is None
    assert await world.notices() == ["done"]
    assert len((await world.claim()).events) == 1


async def test_a_message_is_no_command(world: World) -> None:
    stored = await world.say()
    assert await world.store.apply_command(stored.event_id, SessionChange(stop=True), lambda _: ()) is None


async def test_an_answer_that_fails_undoes_the_command(world: World) -> None:
    def broken(_changed: Changed) -> list[object]:
        raise ZeroDivisionError

    await world.say()
    turn = await world.claim()
    number = await world.command()
    with pytest.raises(ZeroDivisionError):
        await world.store.apply_command(number, SessionChange(stop=True), broken)  # type: ignore[arg-type]
    assert len(await world.store.pending_commands()) == 1
    assert not await world.answer(turn)


async def test_stop_ends_the_turn_and_counts_only_what_waited(world: World) -> None:
    await world.say("a")
    await world.say("b")
    turn = await world.claim()
    for _ in range(3):
        await world.say()
    changed = await world.store.apply_command(await world.command(), SessionChange(stop=True), lambda c: [_told(c)])
    assert changed == Changed(stopped=(KEY, turn.lease.fence), set_aside=3)
    assert await world.notices() == ["set aside 3"]
    assert await world.store.waiting_sessions() == []
    assert (await world.state_counts())["set_aside"] == 5
    await world.say("next")
    assert [event.text for event in (await world.claim()).events] == ["next"]


async def test_stop_without_a_run_sets_what_waits_aside(world: World) -> None:
    await world.say(rule=QueueRule(window=800_000))
    changed = await world.store.apply_command(await world.command(), SessionChange(stop=True), lambda _: ())
    assert changed == Changed(set_aside=1)


async def test_stop_counts_messages_that_were_left_for_a_summary(world: World) -> None:
    await world.say()
    await world.claim()
    for _ in range(3):
        await world.say(rule=QueueRule(cap=1))
    changed = await world.store.apply_command(await world.command(), SessionChange(stop=True), lambda _: ())
    assert changed is not None
    assert changed.set_aside == 3
    await world.say("next")
    assert texts(await world.claim())[-1] == "next"


async def test_a_message_that_came_after_the_command_is_not_set_aside(world: World) -> None:
    await world.say("before")
    turn = await world.claim()
    await world.say("waits")
    number = await world.command()
    await world.say("instead")
    changed = await world.store.apply_command(number, SessionChange(stop=True), lambda _: ())
    assert changed == Changed(stopped=(KEY, turn.lease.fence), set_aside=1)
    newer = await world.claim()
    assert [event.text for event in newer.events] == ["instead"]
    await world.answer(newer)
    assert await world.state_counts() == {"set_aside": 2, "answered": 1, "handled": 1}


async def test_a_turn_that_began_after_the_command_goes_on(world: World) -> None:
    number = await world.command()
    await world.say("newer")
    turn = await world.claim()
    changed = await world.store.apply_command(number, SessionChange(stop=True), lambda _: ())
    assert changed == Changed()
    assert not await world.answer(turn)


async def test_new_begins_a_conversation_and_keeps_the_old_one_listed(world: World) -> None:
    await world.say("old")
    old = await world.claim()
    await world.answer(old)
    change = SessionChange(stop=True, new_conversation=True, then="fresh")
    await world.store.apply_command(await world.command("/new fresh"), change, lambda _: ())
    turn = await world.claim()
    assert (texts(turn), turn.notice) == (["fresh"], "")
    assert turn.conversation != old.conversation
    listed = await world.store.conversations(KEY, 10)
    assert [(row.id, row.title, row.end_reason) for row in listed] == [
        (turn.conversation, "fresh", ""),
        (old.conversation, "old", "command"),
    ]


async def test_resume_of_something_unknown_changes_nothing(world: World) -> None:
    await world.say()
    turn = await world.claim()
    other = await world.store.apply_command(
        await world.command(key="other"), SessionChange(stop=True, resume=turn.conversation), lambda c: [_told(c)]
    )
    assert other == Changed(found=False)
    mine = await world.store.apply_command(
        await world.command(), SessionChange(stop=True, resume="nothing"), lambda _: ()
    )
    assert mine == Changed(found=False)
    assert not await world.answer(turn)


async def test_settings_merge_and_none_removes(world: World) -> None:
    for settings in ({"a": 1, "b": 2}, {"b": None, "c": {"d": 3}}):
        await world.store.apply_command(await world.command(), SessionChange(settings=settings), lambda _: ())
    assert await world.store.session_settings() == {KEY: {"a": 1, "c": {"d": 3}}}
    cleared = SessionChange(settings={"a": None, "c": None})
    await world.store.apply_command(await world.command(), cleared, lambda _: ())
    await world.restart()
    assert await world.store.session_settings() == {}


async def test_what_follows_a_command_waits_by_its_rule(world: World) -> None:
    await world.say()
    turn = await world.claim()
    change = SessionChange(then="later", then_rule=QueueRule(mode="followup"))
    await world.store.apply_command(await world.command("/new later"), change, lambda _: ())
    assert await world.answer(turn)
    world.clock.advance(1)
    later = await world.claim()
    assert [(event.text, event.sender.id) for event in later.events] == [("later", "ann")]
    assert later.is_owner


def _told(changed: Changed):  # type: ignore[no-untyped-def]
    return draft(f"set aside {changed.set_aside}")
