"""What an operator does to sessions from outside."""

from __future__ import annotations

from contract.store.world import KEY, World, body, end, texts, waiting
from tidegate.sessions.model import Changed, Finish, SessionChange, TurnState
from tidegate.sessions.operating import Answered, Ending, Line, SessionUsage, Usage


async def test_stopping_a_session_ends_its_turn_and_sets_aside_what_waits(world: World) -> None:
    await world.say("one")
    turn = await world.claim()
    await world.say("two")
    done = await world.store.change_session(KEY, SessionChange(stop=True))
    assert done == Changed((KEY, turn.lease.fence), 1)
    assert await world.store.waiting_sessions() == []
    assert await world.store.change_session(KEY, SessionChange(stop=True)) == Changed()
    await world.say("three")
    assert texts(await world.claim())[-1] == "three"


async def test_a_session_that_is_not_there_is_made_only_for_an_agent(world: World) -> None:
    change = SessionChange(settings={"label": "mine"})
    assert await world.store.change_session("agent:main:new", change) is None
    assert await world.store.session("agent:main:new") is None
    assert await world.store.change_session("agent:main:new", change, "main") == Changed()
    row = await world.store.session("agent:main:new")
    assert row is not None
    assert (row.agent, dict(row.settings), row.messages) == ("main", {"label": "mine"}, 0)


async def test_a_setting_is_removed_with_none_and_the_others_stay(world: World) -> None:
    await world.store.change_session(KEY, SessionChange(settings={"label": "x", "queue": {"cap": 3}}), "main")
    await world.store.change_session(KEY, SessionChange(settings={"label": None}))
    assert dict(await world.store.session_settings()) == {KEY: {"queue": {"cap": 3}}}


async def test_a_new_conversation_leaves_the_old_one_listed(world: World) -> None:
    await world.say("old")
    await world.answer(await world.claim())
    await world.store.change_session(KEY, SessionChange(new_conversation=True))
    await world.say("new")
    assert texts(await world.claim()) == ["new"]
    listed = await world.store.conversations(KEY, 10)
    assert [(row.end_reason, row.ended_at is None) for row in listed] == [("", True), ("operator", False)]


async def test_a_note_stands_in_the_transcript_and_the_next_turn_reads_it(world: World) -> None:
    assert await world.store.add_message(KEY, body("lost")) is None
    first = await world.store.add_message(KEY, body("note"), "main")
    assert first is not None
    assert first[1] == 1
    assert await world.store.add_message(KEY, body("more")) == (first[0], 2)
    await world.say("hello")
    assert texts(await world.claim()) == ["note", "more", "hello"]


async def test_a_note_does_not_cut_into_a_running_turn(world: World) -> None:
    await world.say()
    turn = await world.claim()
    assert await world.store.add_message(KEY, body("note"), "main") is None
    await world.answer(turn)
    assert await world.store.add_message(KEY, body("note")) is not None


async def test_usage_is_summed_by_day_and_model(world: World) -> None:
    for model, tokens in (("a/x", 10), ("a/x", 5), ("b/y", 1)):
        await world.say()
        turn = await world.claim()
        await world.store.finish(turn, end(turn, model=model, tokens_in=tokens, tokens_out=2 * tokens))
    began = world.clock.now()
    world.clock.advance(86400)
    await world.say()
    turn = await world.claim()
    await world.store.finish(turn, end(turn, model="a/x", tokens_in=7, tokens_out=1))
    assert await world.store.usage(0) == [
        Usage("2027-01-15", "a/x", 2, 15, 30),
        Usage("2027-01-15", "b/y", 1, 1, 1 * 2),
        Usage("2027-01-16", "a/x", 1, 7, 1),
    ]
    assert await world.store.usage(began + 1) == [Usage("2027-01-16", "a/x", 1, 7, 1)]


async def test_usage_is_summed_by_session_the_newest_day_first(world: World) -> None:
    for key, tokens in ((KEY, 10), ("agent:main:other", 5), (KEY, 1)):
        await world.say(key=key)
        turn = await world.claim(key)
        await world.store.finish(turn, end(turn, model="a/x", tokens_in=tokens, tokens_out=1))
    began = world.clock.now()
    world.clock.advance(86400)
    await world.say()
    turn = await world.claim()
    await world.store.finish(turn, end(turn, model="b/y", tokens_in=7, tokens_out=2))
    newest = SessionUsage(KEY, "main", "2027-01-16", "b/y", 1, 7, 2)
    first = SessionUsage(KEY, "main", "2027-01-15", "a/x", 2, 11, 2)
    other = SessionUsage("agent:main:other", "main", "2027-01-15", "a/x", 1, 5, 1)
    assert await world.store.usage_of_sessions(0) == [newest, first, other]
    assert await world.store.usage_of_sessions(0, KEY) == [newest, first]
    assert await world.store.usage_of_sessions(0, limit=1) == [newest]
    assert await world.store.usage_of_sessions(began + 1) == [newest]


async def test_the_turn_that_answered_a_message_is_found_over_a_restart(world: World) -> None:
    message = world.message("hello")
    assert await world.store.answered(message) is None
    await world.store.append_events([waiting(message)])
    assert await world.store.answered(message) is None
    turn = await world.claim()
    running = await world.store.answered(message)
    assert running is not None
    assert (running.state, running.run) == (TurnState.RUNNING, turn.run_id)
    await world.store.finish(turn, end(turn, "hi", model="a/x", tokens_in=3, tokens_out=4))
    await world.restart()
    assert await world.store.answered(message) == Answered(
        turn.run_id, TurnState.ANSWERED, turn.conversation, "a/x", 3, 4, (body("hello"), body("hi"))
    )
    assert await world.store.answered(world.message("hello")) is None


async def test_lines_of_a_transcript_name_their_run_and_its_time(world: World) -> None:
    await world.store.add_message(KEY, body("note"), "main")
    await world.say("hello")
    turn = await world.claim()
    await world.store.finish(turn, end(turn, "hi", model="a/x"))
    began = world.clock.now()
    lines = await world.store.lines(turn.conversation, 10)
    assert lines == [
        Line(1, body("note")),
        Line(2, body("hello"), began, turn.run_id, "a/x"),
        Line(3, body("hi"), began, turn.run_id, "a/x"),
    ]
    assert await world.store.lines(turn.conversation, 1) == lines[2:]
    assert await world.store.lines(turn.conversation, 1, before=3) == lines[1:2]
    assert await world.store.lines("nothing", 5) == []


async def test_the_last_line_of_a_turn_without_a_whole_answer_tells_how_it_ended(world: World) -> None:
    await world.say("fails")
    turn = await world.claim()
    failed = Finish((), (), TurnState.FAILED, reason="auth", told="No key.")
    await world.store.finish(turn, failed)
    failed_at = world.clock.now()
    world.clock.advance(5)
    await world.say("is stopped")
    cut = await world.claim()
    await world.store.change_session(KEY, SessionChange(stop=True))
    stopped_at = world.clock.now()
    world.clock.advance(5)
    await world.restart()
    lines = await world.store.lines(turn.conversation, 10)
    failure = Ending(TurnState.FAILED, failed_at, "auth", "No key.")
    stop = Ending(TurnState.STOPPED, stopped_at, "operator")
    assert [line.ending for line in lines] == [failure, stop]
    assert await world.store.lines(turn.conversation, 1, before=2) == lines[:1]
    # What was said until then is of that turn, and its end comes after it.
    await world.store.add_message(KEY, body("half an ans"), run=cut.run_id)
    await world.store.add_message(KEY, body("a note"), run=turn.run_id)
    lines = await world.store.lines(turn.conversation, 10)
    assert [(line.run, line.ending) for line in lines[1:]] == [(cut.run_id, None), (cut.run_id, stop), ("", None)]
    assert (await world.store.lines(turn.conversation, 1, before=3))[0].ending is None


async def test_the_oldest_sessions_of_a_kind_are_forgotten_and_busy_ones_stay(world: World) -> None:
    keys = [f"agent:main:openai:{number}" for number in range(5)]
    for key in [*keys, "agent:main:openai-user:ann"]:
        world.clock.advance(1)
        await world.say(f"hello {key}", key=key)
        turn = await world.claim(key)
        await world.store.finish(turn, end(turn, "hi"))
    await world.notices()
    await world.say("more", key=keys[0])
    world.clock.advance(1)
    await world.store.change_session(keys[0], SessionChange(settings={"label": "busy"}))
    kind = ["agent:*:openai:*"]
    assert await world.store.prune_sessions(kind, 2, limit=1) == 1
    assert await world.store.session(keys[0]) is not None
    assert await world.store.prune_sessions(kind, 2) >= 1
    left = {row.key for row in await world.store.sessions(100)}
    assert {keys[0], "agent:main:openai-user:ann"} <= left
    assert len(left - {"agent:main:openai-user:ann"}) <= 3
    assert await world.store.prune_sessions([], 0) == 0
    await world.restart()
    gone = next(key for key in keys if key not in left)
    assert await world.store.session(gone) is None
    # A session of the same key begins anew.
    await world.say("again", key=gone)
    assert texts(await world.claim(gone)) == ["again"]
