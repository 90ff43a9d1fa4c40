"""Turns are claimed with a lease, journalled, steered and finished; whoever lost the lease writes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from contract.store.world import HERE, KEY, RULES, START, World, body, draft, end, sent, stale_after, texts
from tidegate.clock import SECOND
from tidegate.errors import LeaseLost
from tidegate.events import MessageEvent
from tidegate.sessions.model import (
    ClaimedTurn,
    ClaimRules,
    DeliveryState,
    JournalEntry,
    NotYet,
    QueueRule,
    SessionChange,
    Settlement,
    TurnState,
)

REST = RULES.last_try_after // SECOND


async def test_a_claim_has_everything_a_run_needs(world: World) -> None:
    await world.say("hello")
    turn = await world.claim()
    assert (turn.lease.key, turn.lease.owner, turn.attempt, turn.agent) == (KEY, "boot-1", 1, "main")
    assert [event.text for event in turn.events] == ["hello"]
    assert [(row.seq, row.turn) for row in turn.history] == [(1, turn.turn)]
    assert (turn.notice, turn.exhausted, turn.started_calls) == ("", False, frozenset())


async def test_nothing_waits_nothing_is_claimed(world: World) -> None:
    assert await world.store.claim("unknown", world.owner, RULES) is None
    await world.say()
    await world.answer(await world.claim())
    assert await world.store.claim(KEY, world.owner, RULES) is None
    assert await world.store.waiting_sessions() == []


async def test_the_fence_rises_with_every_holder(world: World) -> None:
    fences = []
    for _ in range(3):
        await world.say()
        turn = await world.claim()
        fences.append(turn.lease.fence)
        await world.answer(turn)
    await world.say()
    fences.append((await world.claim()).lease.fence)
    await world.restart()
    fences.append((await world.claim()).lease.fence)
    assert fences == sorted(set(fences))


async def test_a_turn_that_crashed_is_taken_again_with_its_transcript(world: World) -> None:
    await world.say("hello")
    turn = await world.claim()
    await world.store.journal(turn, JournalEntry((body("I look"),)))
    await world.store.journal(turn, JournalEntry(tool_started=("call-1", "read")))
    await world.store.journal(turn, JournalEntry((body("found"),), tool_ended="call-1"))
    await world.store.journal(turn, JournalEntry(tool_started=("call-2", "write")))
    await world.restart()
    again = await world.claim()
    assert (again.turn, again.run_id, again.attempt) == (turn.turn, turn.run_id, 2)
    assert texts(again) == ["hello", "I look", "found"]
    assert {row.turn for row in again.history} == {turn.turn}
    assert again.started_calls == {"call-2"}
    assert again.events == turn.events


async def test_messages_that_came_during_a_crashed_turn_are_not_part_of_it(world: World) -> None:
    await world.say("first")
    await world.claim()
    await world.say("second")
    await world.restart()
    again = await world.claim()
    assert [event.text for event in again.events] == ["first"]
    assert await world.answer(again)


async def test_the_fourth_start_of_a_turn_is_exhausted(world: World) -> None:
    await world.say()
    seen = []
    for _ in range(4):
        turn = await world.claim()
        seen.append((turn.attempt, turn.exhausted))
        await world.restart()
        world.clock.advance(REST)
    assert seen == [(1, False), (2, False), (3, False), (4, True)]


async def crash_twice(world: World, *keys: str) -> None:
    """Let the process die two times while the turns of these sessions run."""
    for key in keys:
        await world.say(key=key)
    for _ in range(2):
        for key in keys:
            await world.claim(key)
        await world.restart()


async def test_crashes_in_quick_succession_use_up_no_more_than_two_starts(world: World) -> None:
    await crash_twice(world, KEY)
    for _ in range(5):
        assert await world.store.claim(KEY, world.owner, RULES) == NotYet(START + REST * SECOND)
        await world.restart()
    world.clock.advance(REST)
    turn = await world.claim()
    assert (turn.attempt, turn.exhausted) == (3, False)
    assert await world.answer(turn) is False


async def test_the_rest_counts_from_when_the_turn_was_last_known_to_run(world: World) -> None:
    await crash_twice(world, KEY)
    world.clock.advance(REST - 1)
    assert isinstance(await world.store.claim(KEY, world.owner, RULES), NotYet)
    world.clock.advance(1)
    assert (await world.claim()).attempt == 3


async def test_last_tries_run_one_at_a_time_so_that_a_deadly_turn_takes_no_other_with_it(world: World) -> None:
    await crash_twice(world, "deadly", "harmless")
    await world.say(key="fresh")
    world.clock.advance(REST)
    assert (await world.claim("deadly")).attempt == 3
    assert isinstance(await world.store.claim("harmless", world.owner, RULES), NotYet)
    assert (await world.claim("fresh")).attempt == 1
    await world.restart()
    assert (await world.claim("deadly")).exhausted
    harmless = await world.claim("harmless")
    assert (harmless.attempt, harmless.exhausted) == (3, False)
    assert (await world.claim("fresh")).attempt == 2


async def test_the_next_last_try_begins_when_the_one_before_has_ended(world: World) -> None:
    await crash_twice(world, "one", "two")
    world.clock.advance(REST)
    one = await world.claim("one")
    assert isinstance(await world.store.claim("two", world.owner, RULES), NotYet)
    await world.answer(one)
    assert (await world.claim("two")).attempt == 3


async def test_a_turn_that_rests_before_its_last_try_can_be_stopped(world: World) -> None:
    await crash_twice(world, KEY)
    await world.store.apply_command(await world.command("/stop"), SessionChange(stop=True), lambda _: ())
    await world.say("something else")
    turn = await world.claim()
    assert ([event.text for event in turn.events], turn.attempt) == (["something else"], 1)


async def test_a_last_try_that_was_stopped_in_order_goes_on_at_once(world: World) -> None:
    await crash_twice(world, KEY)
    world.clock.advance(REST)
    await world.claim()
    await world.store.release(world.owner)
    await world.restart()
    assert (await world.claim()).attempt == 3


async def test_an_orderly_stop_is_no_attempt(world: World) -> None:
    await world.say()
    await world.say(key="other")
    for _ in range(5):
        turn = await world.claim()
        assert (turn.attempt, turn.exhausted) == (1, False)
        await world.store.release(world.owner)
        row = await world.store.session(KEY)
        assert row is not None
        assert not row.running
        await world.restart()


async def test_releasing_leaves_the_leases_of_others(world: World) -> None:
    await world.say()
    turn = await world.claim()
    await world.store.release("somebody else")
    await world.store.release("")
    assert not await world.answer(turn)


async def test_a_plan_that_fails_claims_nothing(world: World) -> None:
    def broken(*_arguments: object) -> None:
        raise ZeroDivisionError

    await world.say("hello")
    with pytest.raises(ZeroDivisionError):
        await world.claim(rules=replace(RULES, plan=broken))  # type: ignore[arg-type]
    assert (await world.claim()).attempt == 1


async def test_a_long_session_leaves_nothing_waiting(world: World) -> None:
    for _ in range(12):
        await world.say()
        await world.answer(await world.claim())
    assert await world.state_counts() == {"answered": 12}


async def test_history_is_limited_to_the_newest(world: World) -> None:
    for number in range(5):
        await world.say(f"m{number}")
        await world.answer(await world.claim(), f"a{number}")
    await world.say("last")
    limited = await world.claim(rules=replace(RULES, history_limit=2))
    assert texts(limited) == ["m4", "a4", "last"]


async def test_a_stale_conversation_is_ended_and_says_why_once(world: World) -> None:
    rules = stale_after(3600)
    await world.say("yesterday")
    await world.answer(await world.claim(rules=rules))
    world.clock.advance(4000)
    await world.say("today")
    turn = await world.claim(rules=rules)
    assert (turn.notice, texts(turn)) == ("daily", ["today"])
    await world.answer(turn)
    await world.say("more")
    again = await world.claim(rules=rules)
    assert (again.notice, again.conversation) == ("", turn.conversation)
    listed = await world.store.conversations(KEY, 10)
    assert [(row.end_reason, row.ended_at is None) for row in listed] == [("", True), ("daily", False)]


async def test_the_notice_of_a_new_conversation_survives_a_crash(world: World) -> None:
    rules = stale_after(3600)
    await world.say()
    await world.answer(await world.claim(rules=rules))
    world.clock.advance(4000)
    await world.say()
    await world.claim(rules=rules)
    await world.restart()
    assert (await world.claim(rules=rules)).notice == "daily"


async def test_a_conversation_without_history_is_never_stale(world: World) -> None:
    await world.say()
    turn = await world.claim(rules=stale_after(0))
    assert turn.notice == ""


async def test_a_resumed_old_conversation_goes_on(world: World) -> None:
    rules = stale_after(3600)
    await world.say("old")
    old = await world.claim(rules=rules)
    await world.answer(old)
    world.clock.advance(4000)
    await world.say("new")
    await world.answer(await world.claim(rules=rules))
    await world.store.apply_command(
        await world.command("/resume"), SessionChange(stop=True, resume=old.conversation), lambda _: ()
    )
    await world.say("go on")
    turn = await world.claim(rules=rules)
    assert (turn.conversation, turn.notice, texts(turn)) == (old.conversation, "", ["old", "answer", "go on"])


async def test_a_turn_is_the_owners_only_when_all_its_senders_are(world: World) -> None:
    await world.say(is_owner=True)
    await world.say(is_owner=False, sender="guest")
    assert not (await world.claim()).is_owner


async def test_journal_tells_whether_messages_wait(world: World) -> None:
    await world.say()
    turn = await world.claim()
    assert not await world.store.journal(turn, JournalEntry((body("one"),)))
    await world.say()
    assert await world.store.journal(turn, JournalEntry((body("two"),)))


async def test_a_call_id_that_is_used_twice_is_unfinished_while_the_second_runs(world: World) -> None:
    await world.say()
    turn = await world.claim()
    await world.store.journal(turn, JournalEntry(tool_started=("call", "read")))
    await world.store.journal(turn, JournalEntry(tool_ended="call"))
    await world.store.journal(turn, JournalEntry(tool_started=("call", "read")))
    await world.restart()
    assert (await world.claim()).started_calls == {"call"}


STEER = QueueRule(mode="steer")


def fits(event: MessageEvent, is_owner: bool, mode: str) -> str | None:
    """Accept what may join a running turn of `ann`."""
    return event.text if mode.startswith("steer") and event.sender.id == "ann" else None


async def test_steering_takes_a_prefix_and_stops_at_the_first_that_does_not_fit(world: World) -> None:
    await world.say("start")
    turn = await world.claim()
    await world.say("a", rule=STEER)
    await world.say("b", rule=STEER)
    await world.say("bob", rule=STEER, sender="bob")
    await world.say("c", rule=STEER)
    rows = await world.store.take_steering(turn, fits, body)
    assert [row.body for row in rows] == [body("a"), body("b")]
    assert not await world.store.take_steering(turn, fits, body)
    await world.answer(turn)
    world.clock.advance(1)
    assert [event.text for event in (await world.claim()).events] == ["bob"]
    assert (await world.state_counts()) == {"answered": 3, "waiting": 2}


async def test_steered_messages_survive_a_crash_as_part_of_their_turn(world: World) -> None:
    await world.say("start")
    turn = await world.claim()
    await world.say("a", rule=STEER)
    await world.store.take_steering(turn, fits, body)
    await world.restart()
    again = await world.claim()
    assert texts(again) == ["start", "a"]
    assert not await world.answer(again)


async def test_steer_backlog_tells_the_turn_and_keeps_the_message(world: World) -> None:
    await world.say("start")
    turn = await world.claim()
    await world.say("both", rule=QueueRule(mode="steer-backlog"))
    rows = await world.store.take_steering(turn, fits, body)
    assert [row.body for row in rows] == [body("both")]
    assert not await world.store.take_steering(turn, fits, body)
    assert await world.answer(turn)
    world.clock.advance(1)
    own = await world.claim()
    assert [event.text for event in own.events] == ["both"]
    assert not await world.answer(own)


async def test_finish_commits_reply_history_and_states_together(world: World) -> None:
    await world.say("hello")
    turn = await world.claim()
    assert not await world.store.finish(turn, end(turn, "hi", model="m", tokens_in=1, tokens_out=2))
    assert await world.notices() == ["hi"]
    assert [row.body for row in await world.store.transcript(turn.conversation, 10)] == [body("hello"), body("hi")]
    assert await world.state_counts() == {"answered": 1}


async def test_finish_tells_whether_more_waits(world: World) -> None:
    await world.say()
    turn = await world.claim()
    await world.say()
    assert await world.answer(turn)


@pytest.mark.parametrize(
    ("state", "events"),
    [(TurnState.FAILED, "failed"), (TurnState.ANSWERED, "answered"), (TurnState.STOPPED, "set_aside")],
)
async def test_the_end_of_a_turn_is_the_end_of_its_events(world: World, state: TurnState, events: str) -> None:
    await world.say()
    turn = await world.claim()
    await world.store.finish(turn, end(turn, state=state))
    assert await world.state_counts() == {events: 1}


async def test_the_reply_replaces_a_preview_that_arrived(world: World) -> None:
    await world.say()
    turn = await world.claim()
    preview = await world.store.open_preview(turn, draft("…"))
    await world.store.settle([sent(preview, "msg-7")])
    await world.answer(turn, "done")
    part = await world.store.begin_sending(HERE, world.owner, may_send=True)
    assert part is not None
    assert part.payload == {"body": "done", "edit_of": "msg-7"}


async def test_a_preview_of_unknown_fate_is_reported_and_the_reply_sent_fresh(world: World) -> None:
    await world.say()
    turn = await world.claim()
    first = await world.store.open_preview(turn, draft("…"))
    await world.restart()
    turn = await world.claim()
    second = await world.store.open_preview(turn, draft("…"))
    await world.answer(turn, "done")
    part = await world.store.begin_sending(HERE, world.owner, may_send=True)
    assert part is not None
    assert part.payload == {"body": "done"}
    assert [row.id for row in await world.store.troubled(10)] == [first, second]


async def test_a_preview_that_was_not_sent_is_no_trouble(world: World) -> None:
    await world.say()
    turn = await world.claim()
    preview = await world.store.open_preview(turn, draft("…"))
    await world.store.settle([Settlement(preview, DeliveryState.DEAD)])
    await world.answer(turn, "done")
    assert await world.notices() == ["done"]
    assert await world.store.troubled(10) == []


async def test_a_preview_whose_turn_was_stopped_is_settled_at_the_next_start(world: World) -> None:
    await world.say()
    turn = await world.claim()
    preview = await world.store.open_preview(turn, draft("…"))
    await world.store.apply_command(await world.command(), SessionChange(stop=True), lambda _: ())
    assert await world.store.troubled(10) == []
    await world.restart()
    assert [row.id for row in await world.store.troubled(10)] == [preview]


Lose = Callable[[World, ClaimedTurn], Awaitable[object]]


async def _interrupted(world: World, _turn: ClaimedTurn) -> None:
    await world.say(rule=QueueRule(mode="interrupt"))


async def _stopped(world: World, _turn: ClaimedTurn) -> None:
    await world.store.apply_command(await world.command(), SessionChange(stop=True), lambda _: ())


async def _taken_over(world: World, _turn: ClaimedTurn) -> None:
    await world.restart()
    await world.claim()


async def _claimed_again(world: World, _turn: ClaimedTurn) -> None:
    await world.claim()


async def _finished(world: World, turn: ClaimedTurn) -> None:
    await world.answer(turn, "first")


async def _released(world: World, _turn: ClaimedTurn) -> None:
    await world.store.release(world.owner)


async def _stopped_and_claimed_anew(world: World, turn: ClaimedTurn) -> None:
    await _stopped(world, turn)
    await world.say("newer")
    await world.claim()


LOSSES: list[Lose] = [
    _interrupted,
    _stopped,
    _taken_over,
    _claimed_again,
    _finished,
    _released,
    _stopped_and_claimed_anew,
]


@pytest.mark.parametrize("lose", LOSSES)
async def test_whoever_lost_the_lease_writes_nothing(world: World, lose: Lose) -> None:
    await world.say("hello")
    turn = await world.claim()
    await lose(world, turn)
    before = (await world.store.totals(), await world.store.transcript(turn.conversation, 10))
    with pytest.raises(LeaseLost):
        await world.store.journal(turn, JournalEntry((body("late"),)))
    with pytest.raises(LeaseLost):
        await world.store.journal(turn, JournalEntry(tool_started=("call", "write")))
    with pytest.raises(LeaseLost):
        await world.store.take_steering(turn, lambda event, *_: event.text, body)
    with pytest.raises(LeaseLost):
        await world.store.open_preview(turn, draft("late"))
    with pytest.raises(LeaseLost):
        await world.answer(turn, "late")
    assert await world.store.extend([turn.lease], 60) == [turn.lease]
    assert (await world.store.totals(), await world.store.transcript(turn.conversation, 10)) == before


async def test_extending_tells_only_what_is_lost(world: World) -> None:
    await world.say()
    turn = await world.claim()
    other = replace(turn.lease, fence=turn.lease.fence - 1)
    assert await world.store.extend([turn.lease, other], 60) == [other]


async def test_an_interrupt_that_waited_sets_older_messages_aside_when_claimed(world: World) -> None:
    await world.say("running")
    turn = await world.claim()
    await world.say("a")
    await world.store.release(world.owner)
    turn = await world.claim()
    await world.answer(turn)
    await world.say("now", rule=QueueRule(mode="interrupt"))
    world.clock.advance(1)
    newest = await world.claim()
    assert ([event.text for event in newest.events], newest.set_aside) == (["now"], 1)
    await world.restart()
    again = await world.claim()
    assert ([event.text for event in again.events], again.set_aside) == (["now"], 1)
    await world.answer(again)
    assert await world.state_counts() == {"answered": 2, "set_aside": 1}


async def test_settings_of_a_session_come_with_its_turns(world: World) -> None:
    change = SessionChange(settings={"queue": {"mode": "steer"}})
    await world.store.apply_command(await world.command("/queue steer"), change, lambda _: ())
    await world.say()
    assert (await world.claim()).settings == {"queue": {"mode": "steer"}}


def test_rules_have_sane_limits() -> None:
    rules = ClaimRules(plan=RULES.plan, stale=RULES.stale, encode=RULES.encode)
    assert (rules.max_attempts, rules.last_try_after, rules.history_limit) == (3, 10_000_000, 2000)
