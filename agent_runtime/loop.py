"""One turn of an agent: the model and its tools take turns until there is an answer.

Everything is written to the journal before the run goes on, so that a run can be cut off at any await and
taken up again without running a tool twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tidegate.agent_runtime.events import (
    Emit,
    MessageStarted,
    ModelFallback,
    RunEnded,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from tidegate.agent_runtime.history import OUTCOME_UNKNOWN, tool_result, without_images
from tidegate.agent_runtime.limits import LoopBreaker, RunLimits, RunMeter, explain_limit
from tidegate.agent_runtime.messages import Message, Role, ToolCall
from tidegate.agent_runtime.models.base import ModelProvider, ModelReply, ModelRequest, ToolDefinition
from tidegate.agent_runtime.turn import EndReason, Journal, TurnInput, TurnOutcome
from tidegate.clock import Clock, SystemClock
from tidegate.errors import ContextTooLong, ModelError, ModelRefused, ModelUnavailable, RunLimitReached
from tidegate.ids import new_id

SKIPPED = "Not run: skipped because a new message came in."
TOO_MANY = "Not run: too many calls in one message."
CUT_OFF = "\n\n(The answer was cut off here: it reached the model's length limit.)"
RUN_ENDED = "Not run: the run reached a limit."
MAX_CALLS_PER_REPLY = 32
PARALLEL_READS = 8
HISTORY_SHARES = (1.0, 0.5, 0.25)
"""Parts of the history budget to try when the model says that the transcript is too long."""

_CLOCK = SystemClock()


class TurnContext(Protocol):
    """Makes the request for each model call of one turn."""

    async def request(
        self, messages: Sequence[Message], tools: tuple[ToolDefinition, ...], share: float = 1.0
    ) -> ModelRequest:
        """Return a request whose transcript is valid and fits `share` of the history budget."""
        ...


class PreparedCall(Protocol):
    """A call that was understood and allowed."""

    @property
    def summary(self) -> str:
        """What the call does, in a few words for a person who watches."""
        ...

    async def run(self, seconds: float | None) -> Message:
        """Run the tool for at most `seconds` and return its result; every failure is an error result."""
        ...


class ToolRunner(Protocol):
    """The tools of one run, behind policy."""

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that the model may see."""
        ...

    def is_known(self, name: str) -> bool:
        """Tell whether `name` is, or stands for, a tool of this run."""
        ...

    def is_read_only(self, name: str) -> bool:
        """Tell whether the tool only reads, so that it may run beside others."""
        ...

    async def prepare(self, call: ToolCall) -> PreparedCall | Message:
        """Return the call ready to run, or the error result that answers it."""
        ...


async def run_turn(
    turn: TurnInput,
    context: TurnContext,
    model: ModelProvider,
    tools: ToolRunner,
    journal: Journal,
    emit: Emit,
    limits: RunLimits,
    clock: Clock = _CLOCK,
) -> TurnOutcome:
    """Run one turn to its end and return how it ended.

    The final reply is not journalled; the session commits it with the outgoing message. Cancelling is safe at
    any await.

    Raises:
        LeaseLost: The turn is no longer ours; the result would be dropped.
    """
    run = _Run(_Parts(context, model, tools, journal, emit, clock), limits, turn.history)
    try:
        outcome = await run.to_the_end(turn)
    except RunLimitReached as limit:
        reply = Message(Role.ASSISTANT, explain_limit(limit))
        outcome = TurnOutcome(EndReason.LIMIT, reply, run.meter.usage, limit=limit.limit)
    except ModelError as error:
        reply = Message(Role.ASSISTANT)
        outcome = TurnOutcome(
            EndReason.FAILED, reply, run.meter.usage, error_kind=error.kind, error_text=str(error)[:300]
        )
    emit(RunEnded(outcome.reason, outcome.usage))
    return outcome


@dataclass(frozen=True, slots=True)
class _Batch:
    """Calls that may run side by side: one call, or several that only read."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a run works with."""

    context: TurnContext
    model: ModelProvider
    tools: ToolRunner
    journal: Journal
    emit: Emit
    clock: Clock


class _Run:
    """The state of one run: its transcript so far and what it used."""

    def __init__(self, parts: _Parts, limits: RunLimits, history: Sequence[Message]) -> None:
        self._context = parts.context
        self._model = parts.model
        self._tools = parts.tools
        self._journal = parts.journal
        self._emit = parts.emit
        self._clock = parts.clock
        self.meter = RunMeter(limits, parts.clock)
        self._breaker = LoopBreaker(enabled=limits.loop_breaker)
        self._messages = list(history)
        self._call_ids = {call.id for message in history for call in message.tool_calls}

    async def to_the_end(self, turn: TurnInput) -> TurnOutcome:
        """Finish what a crash left open, then let model and tools take turns."""
        await self._finish_interrupted_calls(turn)
        while True:
            iteration = self.meter.next_iteration()
            self._messages.extend(await self._journal.take_steering())
            self._emit(MessageStarted(iteration))
            reply = await self._ask()
            if not reply.message.tool_calls:
                return self._answered(reply)
            message = self._with_own_ids(reply.message)
            await self._journal.record_message(message)
            self._messages.append(message)
            await self._call_tools(message.tool_calls)

    def _answered(self, reply: ModelReply) -> TurnOutcome:
        message = reply.message
        if reply.stop == "length":
            message = replace(message, text=message.text + CUT_OFF)
        return TurnOutcome(EndReason.ANSWERED, message, self.meter.usage, reply.model, reply.fallback_from)

    async def _finish_interrupted_calls(self, turn: TurnInput) -> None:
        """Answer calls that had started, and run those that had not, of the message a crash cut off.

        A call that a user message follows was set aside by that message; it is not run.
        """
        answered = {message.tool_call_id for message in turn.history if message.role is Role.TOOL}
        waiting: list[ToolCall] = []
        for message in turn.history:
            if message.role is Role.USER:
                waiting.clear()
            for call in message.tool_calls:
                if call.id in answered:
                    continue
                if call.id in turn.started_calls:
                    await self._close(call, OUTCOME_UNKNOWN)
                else:
                    waiting.append(call)
        if waiting:
            await self._call_tools(tuple(waiting))

    async def _ask(self) -> ModelReply:
        """Return a reply with text or tool calls; an empty one is asked for once more.

        Raises:
            ModelError: No model answered, or all it said was nothing.
        """
        for _ in range(2):
            reply = await self._complete()
            self.meter.usage += reply.usage
            if reply.fallback_from:
                self._emit(ModelFallback(reply.fallback_from, reply.model, ""))
            if reply.message.tool_calls or reply.message.text.strip():
                return reply
            if reply.stop == "refusal":
                raise ModelRefused("the model declined to answer", "refused")
        raise ModelUnavailable("the model gave two empty replies", "empty")

    async def _complete(self) -> ModelReply:
        """Call the model, with less history each time it says that the transcript is too long."""
        definitions = self._tools.definitions()
        sent: tuple[Message, ...] | None = None
        for share in HISTORY_SHARES:
            request = await self._context.request(self._messages, definitions, share)
            if request.messages == sent:
                continue
            sent = request.messages
            try:
                return await self._call_model(request)
            except ContextTooLong:
                continue
            except ModelRefused as error:
                images = any(message.images for message in request.messages)
                if error.kind != "format" or not images:
                    raise
                # One bad picture must not spoil every later turn of the conversation.
                return await self._call_model(replace(request, messages=without_images(request.messages)))
        raise ContextTooLong("the shortest transcript does not fit the model")

    async def _call_model(self, request: ModelRequest) -> ModelReply:
        try:
            async with asyncio.timeout(self.meter.seconds_left()) as scope:
                return await self._model.complete(request, self._on_text)
        except TimeoutError as error:
            if scope.expired():
                raise RunLimitReached("the time for one task", "wall_time") from error
            raise ModelUnavailable("the model took too long", "timeout") from error

    def _on_text(self, text: str) -> None:
        self._emit(TextDelta(text))

    def _with_own_ids(self, message: Message) -> Message:
        """Give calls new ids where a provider repeats ids of this conversation or leaves them out."""
        calls = []
        for call in message.tool_calls:
            if not call.id or call.id in self._call_ids:
                call = replace(call, id=f"call_{new_id()}")
            self._call_ids.add(call.id)
            calls.append(call)
        return replace(message, tool_calls=tuple(calls))

    async def _call_tools(self, calls: tuple[ToolCall, ...]) -> None:
        """Run calls in order; a message that comes in meanwhile sets the rest aside."""
        for call in calls[MAX_CALLS_PER_REPLY:]:
            await self._close(call, TOO_MANY)
        batches = _batches(calls[:MAX_CALLS_PER_REPLY], self._tools)
        for index, batch in enumerate(batches):
            news = await self._journal.take_steering()
            if news:
                await self._close_all(batches[index:], SKIPPED)
                self._messages.extend(news)
                return
            try:
                self.meter.check()
                await self._run_batch(batch)
            except RunLimitReached:
                await self._close_all(batches[index:], RUN_ENDED)
                raise

    async def _run_batch(self, batch: _Batch) -> None:
        if len(batch.calls) == 1:
            await self._run_call(batch.calls[0])
            return
        gate = asyncio.Semaphore(PARALLEL_READS)
        limits: list[RunLimitReached] = []

        async def run(call: ToolCall) -> None:
            async with gate:
                try:
                    await self._run_call(call)
                except RunLimitReached as limit:  # kept back, so that the calls beside it still finish
                    limits.append(limit)

        try:
            async with asyncio.TaskGroup() as group:
                for call in batch.calls:
                    group.create_task(run(call), name=f"tool:{call.name}")
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        if limits:
            raise limits[0]

    async def _run_call(self, call: ToolCall) -> None:
        """Run one call between its two journal entries and keep its result."""
        result = self._breaker.before(call, is_known=self._tools.is_known(call.name))
        prepared = result or await self._tools.prepare(call)
        if isinstance(prepared, Message):
            if result is None:
                prepared = self._breaker.after(call, prepared)
            await self._journal.tool_ended(call, prepared)
            self._messages.append(prepared)
            return
        await self._journal.tool_started(call)
        self._emit(ToolStarted(call.id, call.name, prepared.summary, call.arguments))
        started = self._clock.monotonic()
        result = self._breaker.after(call, await prepared.run(self.meter.seconds_left()))
        await self._journal.tool_ended(call, result)
        self._messages.append(result)
        seconds = self._clock.monotonic() - started
        self._emit(ToolEnded(call.id, call.name, result.is_error, seconds, result.text))

    async def _close_all(self, batches: Sequence[_Batch], text: str) -> None:
        """Answer every call of `batches` that has no result yet."""
        answered = {message.tool_call_id for message in self._messages if message.role is Role.TOOL}
        for batch in batches:
            for call in batch.calls:
                if call.id not in answered:
                    await self._close(call, text)

    async def _close(self, call: ToolCall, text: str) -> None:
        """Answer a call that does not run with an error result."""
        result = tool_result(call.id, text, is_error=True)
        await self._journal.tool_ended(call, result)
        self._messages.append(result)


def _batches(calls: Sequence[ToolCall], tools: ToolRunner) -> list[_Batch]:
    """Group neighbouring calls that only read; every other call stands alone."""
    batches: list[list[ToolCall]] = []
    open_for_reads = False
    for call in calls:
        reads = tools.is_read_only(call.name)
        if reads and open_for_reads:
            batches[-1].append(call)
        else:
            batches.append([call])
        open_for_reads = reads
    return [_Batch(tuple(batch)) for batch in batches]
