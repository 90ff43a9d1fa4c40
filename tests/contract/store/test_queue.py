"""When a session's waiting messages may be taken, what joins what, and what a full queue leaves out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contract.store.world import HERE, KEY, RULES, THERE, World, texts
from tidegate.errors import LeaseLost
from tidegate.sessions.model import AppendStatus, JournalEntry, NotYet, QueueRule

DEBOUNCE = QueueRule().debounce
FOLLOWUP = QueueRule(mode="followup")
BURST = QueueRule(mode="followup", window=800_000)


async def taken_from(world: World) -> int | None:
    """Return how many microseconds from now the session may be taken; None when it was taken."""
    claimed = await world.store.claim(KEY, world.owner, RULES)
    return claimed.at - world.clock.now() if isinstance(claimed, NotYet) else None


async def test_an_idle_session_starts_at_once(world: World) -> None:
    await world.say()
    assert await taken_from(world) is None


async def test_a_second_message_before_the_start_does_not_delay_it(world: World) -> None:
    await world.say()
    await world.say()
    assert await taken_from(world) is None


async def test_behind_a_run_the_newest_message_starts_the_quiet_time_anew(world: World) -> None:
    await world.say()
    turn = await world.claim()
    await world.say()
    world.clock.advance(0.3)
    await world.say()
    await world.answer(turn)
    assert await taken_from(world) == DEBOUNCE
    world.clock.advance(0.3)
    await world.say()
    assert await taken_from(world) == DEBOUNCE
    world.clock.advance(0.5)
    assert len((await world.claim()).events) == 3


async def test_quiet_time_that_passed_during_the_run_is_not_waited_for_again(world: World) -> None:
    await world.say()
    turn = await world.claim()
    await world.say()
    world.clock.advance(60)
    await world.answer(turn)
    assert await taken_from(world) is None


async def test_messages_without_end_do_not_keep_a_session_waiting_for_ever(world: World) -> None:
    await world.say()
    turn = await world.claim()
    await world.say()
    await world.answer(turn)
    for _ in range(200):
        world.clock.advance(0.1)
        if await taken_from(world) is None:
            return
        await world.say(rule=QueueRule(cap=1000))
    pytest.fail("never taken")


async def test_a_restart_does_not_wait_for_the_quiet_time_of_an_unfinished_turn(world: World) -> None:
    await world.say()
    await world.claim()
    await world.restart()
    assert await taken_from(world) is None


async def test_a_burst_of_one_sender_joins_within_its_window(world: World) -> None:
    await world.say("a", rule=BURST)
    world.clock.advance(0.5)
    await world.say("b", rule=BURST)
    assert await taken_from(world) == BURST.window
    world.clock.advance(0.8)
    assert [event.text for event in (await world.claim()).events] == ["a", "b"]


async def test_a_window_that_is_renewed_without_end_ends(world: World) -> None:
    await world.say(rule=BURST)
    for _ in range(50):
        world.clock.advance(0.1)
        if await taken_from(world) is None:
            return
        await world.say(rule=BURST)
    pytest.fail("never taken")


async def test_senders_that_alternate_do_not_renew_each_others_windows_without_end(world: World) -> None:
    for number in range(100):
        await world.say(rule=BURST, sender=f"p{number % 2}")
        world.clock.advance(0.1)
        if await taken_from(world) is None:
            return
    pytest.fail("never taken")


async def test_another_sender_does_not_join_a_burst(world: World) -> None:
    await world.say("a", rule=BURST)
    await world.say("b", rule=BURST, sender="bob")
    world.clock.advance(10)
    assert [event.text for event in (await world.claim()).events] == ["a"]


async def test_a_message_after_the_window_does_not_join(world: World) -> None:
    await world.say("a", rule=BURST)
    world.clock.advance(2)
    await world.say("b", rule=BURST)
    world.clock.advance(2)
    assert [event.text for event in (await world.claim()).events] == ["a"]


async def test_the_files_of_one_album_join(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.say(name, rule=BURST, album="album-1")
    world.clock.advance(0.8)
    assert [event.text for event in (await world.claim()).events] == ["a", "b", "c"]


async def test_a_burst_behind_a_run_joins_too(world: World) -> None:
    await world.say("first", rule=FOLLOWUP)
    turn = await world.claim()
    for name in ("a", "b"):
        await world.say(name, rule=BURST, album="album-1")
        world.clock.advance(0.2)
    world.clock.advance(2)
    await world.say("c", rule=FOLLOWUP)
    await world.answer(turn)
    world.clock.advance(2)
    assert [event.text for event in (await world.claim()).events] == ["a", "b"]


async def test_a_message_does_not_join_one_that_a_run_has_taken(world: World) -> None:
    await world.say("a", rule=BURST)
    world.clock.advance(0.79)
    await world.say("b", rule=BURST)
    world.clock.advance(0.8)
    turn = await world.claim()
    await world.say("c", rule=BURST)
    await world.answer(turn)
    world.clock.advance(2)
    assert [event.text for event in (await world.claim()).events] == ["c"]


async def test_a_file_or_command_does_not_wait_for_the_window_before_it(world: World) -> None:
    await world.say("a", rule=BURST)
    await world.say("file", rule=replace(BURST, window=0))
    assert await taken_from(world) is None


async def test_a_full_queue_drops_the_oldest_and_tells_its_sender(world: World) -> None:
    await _running(world)
    for text in ("a", "b", "c"):
        await world.say(text, rule=QueueRule(cap=2, drop="old"))
    assert await world.notices() == ["full: a"]
    assert (await world.state_counts()) == {"waiting": 3, "dropped": 1}


async def test_a_full_queue_refuses_the_newest_and_tells_its_sender(world: World) -> None:
    await _running(world)
    answers = [await world.say(text, rule=QueueRule(cap=2, drop="new")) for text in ("a", "b", "c")]
    assert [answer.status for answer in answers][2] is AppendStatus.REFUSED
    assert await world.notices() == ["full: c"]
    again = world.message("d")
    assert again.text == "d"


async def test_a_full_queue_summarises_what_it_drops_for_the_next_turn(world: World) -> None:
    turn = await _running(world)
    for text in ("a", "b", "c", "d"):
        await world.say(text, rule=QueueRule(cap=2))
    await world.answer(turn)
    world.clock.advance(1)
    turn = await world.claim()
    assert texts(turn)[-2:] == ["left out 2: a, b", "c\nd"]
    await world.answer(turn)
    await world.say("e")
    assert texts(await world.claim())[-1] == "e"
    assert await world.notices() == ["answer", "answer"]


async def test_what_was_said_elsewhere_is_never_summarised_but_its_sender_told(world: World) -> None:
    await _running(world)
    await world.say("there", address=THERE, rule=QueueRule(cap=1))
    await world.say("here", rule=QueueRule(cap=1))
    assert await world.notices(THERE) == ["full: there"]
    assert await world.notices(HERE) == []


async def test_a_summary_waits_for_a_turn_in_its_own_place(world: World) -> None:
    turn = await _running(world)
    rule = QueueRule(cap=2)
    await world.say("secret a", rule=rule)
    await world.say("there", address=THERE, rule=rule)
    await world.say("b", rule=rule)
    await world.answer(turn)
    world.clock.advance(1)
    there = await world.claim()
    assert there.reply_event.address == THERE
    assert texts(there)[-1] == "there"
    assert not any("left out" in text for text in texts(there))
    await world.answer(there)
    assert texts(await world.claim())[-2:] == ["left out 1: secret a", "b"]


async def test_what_a_guest_said_is_not_summarised_into_a_turn_of_the_owner(world: World) -> None:
    turn = await _running(world)
    rule = QueueRule(mode="followup", cap=2)
    await world.say("guest 1", is_owner=False, sender="guest", rule=rule)
    await world.say("owner", rule=rule)
    await world.say("guest 2", is_owner=False, sender="guest", rule=rule)
    await world.answer(turn)
    world.clock.advance(1)
    owners = await world.claim()
    assert texts(owners)[-1] == "owner"
    await world.answer(owners)
    assert texts(await world.claim())[-2:] == ["left out 1: guest 1", "guest 2"]


async def test_a_lower_cap_is_reached_with_the_next_message(world: World) -> None:
    await _running(world)
    for number in range(6):
        await world.say(f"m{number}")
    await world.say("last", rule=QueueRule(cap=2, drop="old"))
    assert await world.notices() == [f"full: m{number}" for number in range(5)]


async def test_messages_that_may_steer_do_not_count_against_the_cap(world: World) -> None:
    await _running(world)
    for number in range(5):
        await world.say(f"m{number}", rule=QueueRule(mode="steer", cap=1))
    assert (await world.state_counts()) == {"waiting": 6}


async def test_the_files_of_an_album_count_as_one_message(world: World) -> None:
    await _running(world)
    for number in range(5):
        await world.say(f"m{number}", rule=replace(BURST, cap=1), album="album-1")
    assert (await world.state_counts()) == {"waiting": 6}


async def test_an_interrupt_ends_the_turn_and_sets_what_waits_aside(world: World) -> None:
    turn = await _running(world)
    await world.say("waits")
    answer = await world.say("now", rule=QueueRule(mode="interrupt"))
    assert answer.stopped == ((KEY, turn.lease.fence),)
    assert await world.notices() == ["set aside 2"]
    with pytest.raises(LeaseLost):
        await world.store.journal(turn, JournalEntry(("{}",)))
    newest = await world.claim()
    assert [event.text for event in newest.events] == ["now"]
    assert newest.lease.fence > turn.lease.fence
    assert (await world.state_counts()) == {"set_aside": 2, "waiting": 1}


async def test_an_interrupt_of_an_idle_session_is_a_message_like_any(world: World) -> None:
    answer = await world.say("now", rule=QueueRule(mode="interrupt"))
    assert answer.stopped == ()
    assert len((await world.claim()).events) == 1
    assert await world.notices() == []


async def test_the_pieces_of_one_message_do_not_interrupt_each_other(world: World) -> None:
    rule = replace(BURST, mode="interrupt")
    await world.say("piece 1", rule=rule, continues=True)
    await world.say("piece 2", rule=rule)
    world.clock.advance(2)
    assert texts(await world.claim()) == ["piece 1\npiece 2"]
    assert await world.notices() == []


async def _running(world: World):  # type: ignore[no-untyped-def]
    await world.say("running")
    return await world.claim()
