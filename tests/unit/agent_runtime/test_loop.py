"""The run loop: order of journal entries, resuming, steering, limits, cancelling."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.fake_model import check_openai
from fakes.recording_journal import CutOff, RecordingJournal
from tidegate.agent_runtime.events import RunEnded, RunEvent, TextDelta, ToolEnded, ToolStarted
from tidegate.agent_runtime.history import OUTCOME_UNKNOWN, tool_result, valid_history
from tidegate.agent_runtime.limits import RunLimits
from tidegate.agent_runtime.loop import MAX_CALLS_PER_REPLY, SKIPPED, run_turn
from tidegate.agent_runtime.messages import Image, Message, Role, ToolCall
from tidegate.agent_runtime.models.base import ModelReply, ModelRequest, OnText, ToolDefinition
from tidegate.agent_runtime.models.openai_wire import Dialect, encode_request
from tidegate.agent_runtime.models.scripted import ScriptedModel, Step, ask_for, say
from tidegate.agent_runtime.turn import EndReason, TurnInput, TurnOutcome
from tidegate.clock import ManualClock
from tidegate.errors import ContextTooLong, LeaseLost, ModelRefused, ModelUnavailable


def user(text: str) -> Message:
    return Message(Role.USER, text)


def call(call_id: str, name: str = "write") -> ToolCall:
    return ToolCall(call_id, name, f'{{"id": "{call_id}"}}')


class PlainContext:
    """Sends the whole repaired history; with a smaller share only its newest half."""

    async def request(
        self, messages: Sequence[Message], tools: tuple[ToolDefinition, ...], share: float = 1.0
    ) -> ModelRequest:
        history = valid_history(messages)
        return ModelRequest("m", ("", ""), history if share == 1.0 else history[-1:], tools)


class Tools:
    """Counts what really ran. `read` only reads, `write` does not, `refused` is refused."""

    def __init__(self, cut: CutOff | None = None) -> None:
        self.ran: list[str] = []
        self.running = 0
        self.most_at_once = 0
        self.cut = cut or CutOff()

    def definitions(self) -> tuple[ToolDefinition, ...]:
        return ()

    def is_known(self, name: str) -> bool:
        return name in ("read", "write", "refused")

    def is_read_only(self, name: str) -> bool:
        return name == "read"

    async def prepare(self, call: ToolCall) -> Prepared | Message:
        await self.cut.checkpoint()
        if call.name == "refused" or not self.is_known(call.name):
            return tool_result(call.id, "no", is_error=True)
        return Prepared(self, call)


class Prepared:
    summary = "does it"

    def __init__(self, tools: Tools, call: ToolCall) -> None:
        self._tools = tools
        self._call = call

    async def run(self, seconds: float | None) -> Message:
        tools = self._tools
        tools.ran.append(self._call.id)
        tools.running += 1
        tools.most_at_once = max(tools.most_at_once, tools.running)
        await tools.cut.checkpoint()
        tools.running -= 1
        return tool_result(self._call.id, "done")


class Run:
    """One run with everything around it, for a test to look at."""

    def __init__(self, steps: Iterable[Step], history: Sequence[Message] = (user("go"),)) -> None:
        self.journal = RecordingJournal(history)
        self.model = ScriptedModel(steps)
        self.tools = Tools()
        self.events: list[RunEvent] = []
        self.clock = ManualClock()

    def go(self, turn: TurnInput | None = None, limits: RunLimits | None = None) -> TurnOutcome:
        return asyncio.run(
            run_turn(
                turn or self.journal.turn(),
                PlainContext(),
                self.model,
                self.tools,
                self.journal,
                self.events.append,
                limits or RunLimits(),
                self.clock,
            )
        )

    def results(self) -> list[tuple[str, str]]:
        return [(m.tool_call_id, m.text) for m in self.journal.messages if m.role is Role.TOOL]


def test_an_answer_ends_the_run_and_is_not_journalled() -> None:
    run = Run([say("hello")])
    outcome = run.go()
    assert (outcome.reason, outcome.reply.text, outcome.model) == (EndReason.ANSWERED, "hello", "scripted/model")
    assert run.journal.log == []
    assert run.events[1:] == [TextDelta("hello"), RunEnded("answered", outcome.usage)]


def test_each_step_is_journalled_before_the_next_one() -> None:
    run = Run([ask_for(call("a"), call("b")), say("done")])
    outcome = run.go()
    assert run.journal.log == ["message write,write", "start a", "end a", "start b", "end b"]
    assert outcome.usage.input == 20
    names = [type(event).__name__ for event in run.events if isinstance(event, ToolStarted | ToolEnded)]
    assert names == ["ToolStarted", "ToolEnded"] * 2


def test_reads_run_side_by_side_and_their_results_keep_the_order_of_the_calls() -> None:
    run = Run([ask_for(call("a", "read"), call("b", "read"), call("c"), call("d", "read")), say("done")])
    run.go()
    assert run.tools.most_at_once == 2
    assert run.tools.ran.index("c") == 2
    sent = run.model.requests[1].messages
    assert [message.tool_call_id for message in sent[2:]] == ["a", "b", "c", "d"]


def test_a_refused_call_is_answered_without_a_start() -> None:
    run = Run([ask_for(call("a", "refused"), call("b")), say("done")])
    run.go()
    assert run.journal.log[1:] == ["error a", "start b", "end b"]


def test_a_message_that_comes_in_sets_the_remaining_calls_aside() -> None:
    run = Run([ask_for(call("a"), call("b"), call("c")), say("ok, stopped")])
    run.journal.steering = [(), (), (user("stop that"),)]
    run.go()
    assert run.tools.ran == ["a"]
    assert run.results() == [("a", "done"), ("b", SKIPPED), ("c", SKIPPED)]
    assert run.model.requests[1].messages[-1] == user("stop that")


def test_a_message_that_waits_is_part_of_the_next_model_call() -> None:
    run = Run([say("both")])
    run.journal.steering = [(user("and this"),)]
    run.go()
    assert run.model.requests[0].messages == (user("go"), user("and this"))


def test_after_a_crash_nothing_that_started_runs_again() -> None:
    asked = Message(Role.ASSISTANT, tool_calls=(call("a"), call("b"), call("c")))
    history = (user("go"), asked, tool_result("a", "done"))
    run = Run([say("all right")], history)
    run.journal.closed, run.journal.open = {"a"}, {"b"}
    run.go()
    assert run.tools.ran == ["c"]
    assert run.results() == [("a", "done"), ("b", OUTCOME_UNKNOWN), ("c", "done")]


def test_calls_of_an_earlier_turn_that_was_cut_off_are_not_run() -> None:
    history = (user("go"), Message(Role.ASSISTANT, tool_calls=(call("a"),)), user("something else"))
    run = Run([say("fine")], history)
    run.go()
    assert run.tools.ran == []
    assert run.model.requests[0].messages[2].text == OUTCOME_UNKNOWN


def test_ids_that_a_provider_repeats_become_unique() -> None:
    run = Run([ask_for(call("x")), ask_for(call("x")), ask_for(call("")), say("done")])
    run.go()
    ids = [call_id for call_id, _ in run.results()]
    assert len(set(ids)) == 3
    assert "" not in ids


def test_more_calls_than_anyone_needs_are_not_all_run() -> None:
    run = Run([ask_for(*(call(f"c{n}") for n in range(MAX_CALLS_PER_REPLY + 5))), say("done")])
    run.go()
    assert len(run.tools.ran) == MAX_CALLS_PER_REPLY
    assert len(run.results()) == MAX_CALLS_PER_REPLY + 5


def test_the_iteration_limit_ends_the_run_with_an_explanation() -> None:
    run = Run([ask_for(call(f"c{n}")) for n in range(5)])
    outcome = run.go(limits=RunLimits(iterations=3))
    assert (outcome.reason, outcome.limit) == (EndReason.LIMIT, "iterations")
    assert "3 steps" in outcome.reply.text
    assert len(run.model.requests) == 3


def test_the_token_limit_ends_the_run_before_the_next_call() -> None:
    run = Run([ask_for(call("a")), say("never")])
    outcome = run.go(limits=RunLimits(tokens=15))
    assert outcome.limit == "tokens"
    assert len(run.model.requests) == 1
    assert run.results()[0][1].startswith("Not run")


def test_the_time_limit_ends_a_model_that_never_answers() -> None:
    class Silent:
        async def complete(self, request: ModelRequest, on_text: OnText) -> ModelReply:
            await asyncio.Event().wait()
            raise AssertionError

    run = Run([])
    run.model = Silent()  # type: ignore[assignment]
    outcome = run.go(limits=RunLimits(wall_time=0.05))
    assert (outcome.reason, outcome.limit) == (EndReason.LIMIT, "wall_time")


@pytest.mark.parametrize("name", ["read", "write"])
def test_a_call_repeated_for_ever_is_warned_about_blocked_and_ends_the_run(name: str) -> None:
    steps = [ask_for(ToolCall(f"c{n}", name, '{"path": "a"}')) for n in range(40)]
    run = Run(steps)
    outcome = run.go()
    assert (outcome.reason, outcome.limit) == (EndReason.LIMIT, "loop")
    texts = [text for _, text in run.results()]
    assert len(run.tools.ran) == 19
    assert "Note" not in texts[8]
    assert "returned this exact result 10 times" in texts[9]
    assert texts[19].startswith("Not run")
    assert len(texts) == 30


def test_calls_of_tools_that_do_not_exist_end_the_run() -> None:
    run = Run([ask_for(ToolCall(f"c{n}", "fly", f"{n}")) for n in range(40)])
    assert run.go().limit == "loop"
    assert len(run.model.requests) == 10


def test_identical_calls_side_by_side_end_the_run_with_every_call_answered() -> None:
    calls = [ToolCall(f"c{n}", "read", "{}") for n in range(28)]
    run = Run([ask_for(*calls), ask_for(*(ToolCall(f"d{n}", "read", "{}") for n in range(5)))])
    assert run.go().limit == "loop"
    assert len(run.results()) == 33


def test_an_answer_that_was_cut_off_says_so() -> None:
    assert "cut off" in Run([say("half", stop="length")]).go().reply.text


def test_an_empty_reply_is_asked_for_once_more() -> None:
    assert Run([say(""), say("now")]).go().reply.text == "now"


def test_two_empty_replies_are_a_failure_of_their_own_kind() -> None:
    outcome = Run([say(""), say("  \n")]).go()
    assert (outcome.reason, outcome.error_kind) == (EndReason.FAILED, "empty")


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (ModelUnavailable("x", "rate_limit"), "rate_limit"),
        (ModelRefused("x", "auth"), "auth"),
        (say("", stop="refusal"), "refused"),
        (TimeoutError(), "timeout"),
    ],
)
def test_a_model_failure_ends_the_run_with_its_kind(step: Step, kind: str) -> None:
    run = Run([ask_for(call("a")), step])
    outcome = run.go()
    assert (outcome.reason, outcome.error_kind) == (EndReason.FAILED, kind)
    assert run.results() == [("a", "done")]


def test_a_transcript_that_is_too_long_is_sent_again_shorter() -> None:
    run = Run([ContextTooLong("long"), say("short")], (user("one"), Message(Role.ASSISTANT, "two"), user("three")))
    assert run.go().reply.text == "short"
    assert run.model.requests[1].messages == (user("three"),)


def test_a_transcript_that_cannot_get_shorter_is_not_sent_again() -> None:
    run = Run([ContextTooLong("long"), say("never")])
    assert run.go().error_kind == "context_overflow"


def test_a_picture_that_the_model_does_not_accept_is_left_out() -> None:
    picture = Message(Role.USER, "look", (Image("sha256:1", "image/tiff"),))
    run = Run([ModelRefused("bad picture", "format"), say("I cannot see it")], (picture,))
    assert run.go().reply.text == "I cannot see it"
    assert run.model.requests[1].messages[0].images == ()
    assert run.model.requests[1].messages[0].text.startswith("look\n[a picture")


@pytest.mark.parametrize("name", ["read", "write"])
def test_a_lost_lease_ends_the_run_at_once(name: str) -> None:
    class Lost(RecordingJournal):
        async def tool_started(self, call: ToolCall) -> None:
            raise LeaseLost("gone")

    run = Run([ask_for(call("a", name), call("b", name))])
    run.journal = Lost((user("go"),))
    with pytest.raises(LeaseLost):
        run.go()
    assert run.tools.ran == []


REPLIES = st.lists(st.lists(st.sampled_from(["read", "read", "write", "refused"]), min_size=1, max_size=4), max_size=3)
STEERING = st.lists(st.sampled_from([(), (), (), (user("new"),)]), max_size=8)


def run_twice(replies: list[list[str]], steering: list[tuple[Message, ...]], at: int) -> int:
    """Cut a run off at its `at`-th await, take it up again, and check what must hold. Return the awaits."""
    steps: list[Step] = [
        ask_for(*(call(f"{number}-{place}", name) for place, name in enumerate(names)))
        for number, names in enumerate(replies)
    ]
    cut = CutOff(at)
    tools = Tools(cut)
    journal = RecordingJournal([user("go")], cut)
    journal.steering = list(steering)

    class Model(ScriptedModel):
        async def complete(self, request: ModelRequest, on_text: OnText) -> ModelReply:
            await cut.checkpoint()
            encoded = json.loads(await encode_request(request, "p", Dialect(), None))
            assert check_openai(encoded["messages"]) == ""
            return await super().complete(request, on_text)

    async def run(script: Sequence[Step]) -> bool:
        body = run_turn(journal.turn(), PlainContext(), Model(script), tools, journal, lambda event: None, RunLimits())
        async with asyncio.TaskGroup() as group:
            cut.task = task = group.create_task(body)
        return not task.cancelled()

    finished = asyncio.run(run([*steps, say("end")]))
    assert finished == (at == 0 or cut.reached < at)
    if not finished:
        done = sum(1 for message in journal.messages if message.tool_calls)
        assert asyncio.run(run([*steps[done:], say("end")]))
    assert len(tools.ran) == len(set(tools.ran)), "a tool ran twice"
    assert not journal.open, "a started call has no end"
    return cut.reached


def test_a_run_may_be_cut_off_at_each_of_its_awaits() -> None:
    replies = [["read", "read", "write"], ["write", "refused", "read"]]
    steering: list[tuple[Message, ...]] = [(), (), (), (), (user("new"),)]
    for at in range(1, run_twice(replies, steering, 0) + 1):
        run_twice(replies, steering, at)


@settings(max_examples=60, deadline=None)
@given(replies=REPLIES, steering=STEERING, fraction=st.floats(0, 1))
def test_a_run_cut_off_anywhere_leaves_a_valid_transcript_and_resumes_without_repeating(
    replies: list[list[str]], steering: list[tuple[Message, ...]], fraction: float
) -> None:
    run_twice(replies, steering, max(1, round(fraction * run_twice(replies, steering, 0))))
