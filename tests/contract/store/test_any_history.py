"""Random histories with restarts: both stores say the same, and every promise of the queue and the outbox holds."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from contract.store.world import HERE, RULES, THERE, World, body, draft, end
from tidegate.errors import LeaseLost
from tidegate.events import MessageEvent
from tidegate.sessions.model import (
    Appended,
    AppendStatus,
    ClaimedTurn,
    DeliveryState,
    EventState,
    JournalEntry,
    NewEvent,
    QueueRule,
    Record,
    SessionChange,
    Settlement,
    TurnState,
)

KEYS = st.sampled_from(["agent:main:a", "agent:main:b"])
PLACES = st.sampled_from([HERE, THERE])
RULE = st.builds(
    QueueRule,
    mode=st.sampled_from(["collect", "steer", "followup", "interrupt", "steer-backlog"]),
    debounce=st.sampled_from([0, 500_000]),
    cap=st.integers(1, 3),
    drop=st.sampled_from(["old", "new", "summarize"]),
    window=st.sampled_from([0, 0, 300_000]),
)
SENDERS = st.sampled_from(["ann", "bob"])


class StoreHistories(RuleBasedStateMachine):
    """Does the same to a store on SQLite and to one in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.directory = tempfile.TemporaryDirectory()
        self.worlds = [World(kind, Path(self.directory.name)) for kind in ("sqlite", "memory")]
        for world in self.worlds:
            self.wait(world.store.open())
        self.turns: list[list[ClaimedTurn]] = []
        self.ours: dict[str, MessageEvent] = {}
        self.answered: dict[str, int] = {}
        self.sent: set[int] = set()
        self.clock_steps = 0

    def teardown(self) -> None:
        try:
            self.finish_everything()
        finally:
            for world in self.worlds:
                self.wait(world.store.close())
            self.loop.close()
            self.directory.cleanup()

    def wait(self, awaitable: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(awaitable)

    def both(self, call: Any) -> tuple[Any, Any]:
        """Do the same to both; returns what each said, where a lost lease is `LeaseLost`."""
        answers = []
        for world in self.worlds:
            try:
                answers.append(self.wait(call(world)))
            except LeaseLost:
                answers.append(LeaseLost)
        return answers[0], answers[1]

    @rule(key=KEYS, place=PLACES, sender=SENDERS, how=RULE, count=st.integers(1, 3), is_owner=st.booleans())
    def say(self, key: str, place: Any, sender: str, how: QueueRule, count: int, is_owner: bool) -> None:
        async def call(world: World) -> list[Appended]:
            items = [
                world.queued(key=key, address=place, sender=sender, rule=how, is_owner=is_owner) for _ in range(count)
            ]
            for item in items:
                self.ours[item.event.message_id] = item.event
            return list(await world.store.append_events(items))

        first, second = self.both(call)
        assert first == second

    @precondition(lambda self: self.ours)
    @rule(data=st.data(), key=KEYS)
    def say_again(self, data: st.DataObject, key: str) -> None:
        event = self.ours[data.draw(st.sampled_from(sorted(self.ours)))]
        item = self.worlds[0].queued(key=key)
        again = NewEvent(event, item.verdict)
        for world in self.worlds[1:]:
            world.queued()
        self.ours.pop(item.event.message_id, None)
        for answers in self.both(lambda world: world.store.append_events([again])):
            assert answers[0].status is AppendStatus.DUPLICATE

    @rule(key=KEYS, keep=st.integers(1, 2))
    def overhear(self, key: str, keep: int) -> None:
        record = Record(EventState.CONTEXT, session_key=key, agent="main", keep=keep)

        async def call(world: World) -> Any:
            return await world.store.append_events([NewEvent(world.message(), record)])

        first, second = self.both(call)
        assert first == second

    @rule(seconds=st.sampled_from([0.1, 0.4, 1.0, 10.0]))
    def pass_time(self, seconds: float) -> None:
        for world in self.worlds:
            world.clock.advance(seconds)

    @rule(key=KEYS)
    def claim(self, key: str) -> None:
        if not any(turn[0].lease.key == key for turn in self.turns if self.holds(turn)):
            self.claim_now(key)

    def claim_now(self, key: str) -> list[ClaimedTurn] | None:
        first, second = self.both(lambda world: world.store.claim(key, world.owner, RULES))
        if isinstance(first, ClaimedTurn):
            assert shape(first) == shape(second)
            self.turns.append([first, second])
            places = {event.address for event in first.events}
            assert len(places) == 1, "a turn answers one place"
            return [first, second]
        assert first == second
        return None

    def holds(self, turn: list[ClaimedTurn]) -> bool:
        lost = [self.wait(w.store.extend([t.lease], 60)) for w, t in zip(self.worlds, turn, strict=True)]
        assert bool(lost[0]) == bool(lost[1])
        return not lost[0]

    def each(self, turn: list[ClaimedTurn], call: Any) -> tuple[Any, Any]:
        by_kind = {world.kind: mine for world, mine in zip(self.worlds, turn, strict=True)}
        return self.both(lambda world: call(world, by_kind[world.kind]))

    @precondition(lambda self: self.turns)
    @rule(data=st.data())
    def journal(self, data: st.DataObject) -> None:
        turn = data.draw(st.sampled_from(self.turns))
        entry = JournalEntry((body("step"),), data.draw(st.sampled_from([None, ("c1", "read"), ("c2", "write")])))
        first, second = self.each(turn, lambda world, mine: world.store.journal(mine, entry))
        assert first == second

    @precondition(lambda self: self.turns)
    @rule(data=st.data())
    def steer(self, data: st.DataObject) -> None:
        turn = data.draw(st.sampled_from(self.turns))

        def accept(event: MessageEvent, is_owner: bool, mode: str) -> str | None:
            same = event.address == turn[0].reply_event.address and event.sender == turn[0].reply_event.sender
            return event.text if same and mode.startswith("steer") else None

        first, second = self.each(turn, lambda world, mine: world.store.take_steering(mine, accept, body))
        assert (first is LeaseLost) == (second is LeaseLost)
        if first is not LeaseLost:
            assert [(row.seq, row.body) for row in first] == [(row.seq, row.body) for row in second]

    @precondition(lambda self: self.turns)
    @rule(data=st.data(), state=st.sampled_from([TurnState.ANSWERED, TurnState.FAILED]))
    def finish(self, data: st.DataObject, state: TurnState) -> None:
        self.finish_now(data.draw(st.sampled_from(self.turns)), state)

    def finish_now(self, turn: list[ClaimedTurn], state: TurnState = TurnState.ANSWERED) -> None:
        said = " ".join(event.message_id for event in turn[0].events)
        first, second = self.each(turn, lambda world, mine: world.store.finish(mine, end(mine, said, state=state)))
        assert first == second
        if first is not LeaseLost:
            for event in turn[0].events:
                assert event.message_id not in self.answered, "no event is answered in two turns"
                self.answered[event.message_id] = turn[0].turn
        self.turns.remove(turn)

    @precondition(lambda self: self.turns)
    @rule(data=st.data())
    def preview(self, data: st.DataObject) -> None:
        turn = data.draw(st.sampled_from(self.turns))
        address = turn[0].reply_event.address
        first, second = self.each(turn, lambda world, mine: world.store.open_preview(mine, draft("…", address)))
        assert first == second
        outcome = data.draw(st.sampled_from([None, DeliveryState.SENT, DeliveryState.DEAD]))
        if outcome is not None and first is not LeaseLost:
            self.both(lambda world: world.store.settle([Settlement(first, outcome, "shown")]))

    @rule(key=KEYS, change=st.sampled_from(["stop", "new", "then", "set"]), late=st.booleans())
    def command(self, key: str, change: str, late: bool) -> None:
        effect = {
            "stop": SessionChange(stop=True),
            "new": SessionChange(stop=True, new_conversation=True),
            "then": SessionChange(stop=True, new_conversation=True, then="then this"),
            "set": SessionChange(settings={"a": 1}),
        }[change]

        async def call(world: World) -> Any:
            number = await world.command(key=key)
            if late:
                item = world.queued(key=key)
                self.ours[item.event.message_id] = item.event
                await world.store.append_events([item])
            done = [await world.store.apply_command(number, effect, lambda c: [draft(f"{c}")]) for _ in range(2)]
            assert done[1] is None
            return done[0]

        first, second = self.both(call)
        assert first == second

    @rule(place=PLACES, outcome=st.sampled_from(list(DeliveryState)), may_send=st.booleans())
    def deliver(self, place: Any, outcome: DeliveryState, may_send: bool) -> None:
        first, second = self.both(lambda world: world.store.begin_sending(place, world.owner, may_send=may_send))
        assert (first is None) == (second is None)
        if first is None:
            return
        assert (first.id, first.state, first.attempt, first.stale) == (
            second.id,
            second.state,
            second.attempt,
            second.stale,
        )
        assert first.address == place
        assert first.payload == second.payload
        self.check_words(first.payload["body"], place)
        if first.state is DeliveryState.SENDING:
            assert first.id not in self.sent, "nothing is sent twice"
            if outcome is DeliveryState.SENT:
                self.sent.add(first.id)
            if outcome is not DeliveryState.SENDING:
                due = self.worlds[0].clock.now() + 100
                self.both(lambda world: world.store.settle([Settlement(first.id, outcome, due_at=due)]))

    def check_words(self, said: str, place: Any) -> None:
        """No word of one place reaches another: replies name message ids, notices their texts."""
        if said.startswith("full: text "):
            assert self.ours[said.removeprefix("full: text ")].address == place
        for number in said.split():
            if number in self.ours and said.replace(" ", "").isdecimal():
                assert self.ours[number].address == place

    @rule(orderly=st.booleans())
    def restart(self, orderly: bool) -> None:
        if orderly:
            self.both(lambda world: world.store.release(world.owner))
        self.both(lambda world: world.restart())

    @invariant()
    def both_say_the_same(self) -> None:
        first, second = self.both(lambda world: world.store.totals())
        assert first == second
        assert sorted(self.wait(self.worlds[0].store.waiting_sessions())) == sorted(
            self.wait(self.worlds[1].store.waiting_sessions())
        )
        lists = self.both(lambda world: world.store.sessions(10))
        assert [(row.key, row.waiting, row.running, row.messages) for row in lists[0]] == [
            (row.key, row.waiting, row.running, row.messages) for row in lists[1]
        ]
        assert [row.id for row in self.wait(self.worlds[0].store.troubled(50))] == [
            row.id for row in self.wait(self.worlds[1].store.troubled(50))
        ]

    def finish_everything(self) -> None:
        """Nothing waits for ever: working off what `waiting_sessions` names ends every event exactly once."""
        self.both(lambda world: world.restart())
        self.turns.clear()
        order: dict[str, int] = {}
        for _ in range(200):
            keys = self.wait(self.worlds[0].store.waiting_sessions())
            if not keys:
                break
            for key in keys:
                turn = self.claim_now(key)
                if turn is not None:
                    newest = int(turn[0].events[-1].message_id)
                    # A message that follows a command keeps the id of the command.
                    if "then this" not in [event.text for event in turn[0].events]:
                        assert newest > order.get(key, 0), "in order"
                        order[key] = newest
                    self.finish_now(turn)
            for world in self.worlds:
                world.clock.advance(1)
        for world in self.worlds:
            assert self.wait(world.store.waiting_sessions()) == []
            assert "waiting" not in self.wait(world.store.totals()).events
            assert "command" not in self.wait(world.store.totals()).events


def shape(turn: ClaimedTurn) -> Any:
    """Return what two stores must agree on about a turn: all but the random ids."""
    return (
        turn.lease,
        turn.turn,
        turn.attempt,
        turn.events,
        turn.is_owner,
        turn.history,
        turn.started_calls,
        turn.settings,
        turn.notice,
        turn.exhausted,
        turn.set_aside,
    )


StoreHistories.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestStoreHistories = StoreHistories.TestCase
