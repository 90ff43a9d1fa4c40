"""What is told about a run becomes the answer to the messages that wait for it."""

from __future__ import annotations

from fakes.event_loop import on_loop
from tidegate.gateway.bus import EventBus, Fact
from tidegate.gateway.http.answers import MAX_AWAITED, Answers


def told(bus: EventBus, name: str, **data: object) -> None:
    bus.publish(Fact(name, "agent:main:s", {"run": "r1", **data}))


def test_an_answer_grows_and_ends_with_what_it_used() -> None:
    bus = EventBus()
    answers = Answers(bus)
    answer = answers.expect("m1")
    assert answer is not None
    told(bus, "turn.started", messages=["m0", "m1"])
    told(bus, "run.message", number=1)
    for text in ("Let me ", "look.", "<think>secret"):
        told(bus, "run.text", text=text)
    assert answer.visible() == "Let me look."
    told(bus, "run.message", number=2)
    told(bus, "run.text", text="Done")
    assert answer.visible() == "Let me look.\n\nDone"
    told(bus, "turn.done", state="answered", text="Done.", tokens_in=11, tokens_out=7)
    assert (answer.state, answer.text, answer.tokens_in, answer.tokens_out) == ("answered", "Done.", 11, 7)


def test_a_message_that_joins_a_run_gets_what_comes_after() -> None:
    bus = EventBus()
    answers = Answers(bus)
    first, second = answers.expect("m1"), answers.expect("m2")
    assert first is not None
    assert second is not None
    told(bus, "turn.started", messages=["m1"])
    told(bus, "run.text", text="one")
    told(bus, "turn.steered", messages=["m2"])
    told(bus, "run.text", text=" two")
    assert (first.visible(), second.visible()) == ("one two", "two")
    told(bus, "turn.cut_off")
    assert first.state == second.state == "stopped"


@on_loop
async def test_runs_of_others_say_nothing() -> None:
    bus = EventBus()
    answers = Answers(bus)
    answer = answers.expect("m1")
    assert answer is not None
    bus.publish(Fact("turn.started", "s", {"run": "other", "messages": ["x"]}))
    bus.publish(Fact("turn.done", "s", {"run": "other", "state": "answered", "text": "not yours"}))
    assert not await answer.changed(0.01)
    assert answer.state == ""


def test_not_more_wait_than_may_and_those_forgotten_make_room() -> None:
    bus = EventBus()
    answers = Answers(bus)
    for number in range(MAX_AWAITED):
        assert answers.expect(f"m{number}") is not None
    assert answers.expect("one more") is None
    told(bus, "turn.started", messages=["m0"])
    answers.forget("m0")
    answers.forget("m0")
    told(bus, "turn.done", state="answered", text="late")
    assert answers.expect("one more") is not None
