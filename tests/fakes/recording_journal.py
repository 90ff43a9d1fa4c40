"""A journal in memory that keeps what a store would keep, and can cut a run off at any of its awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tidegate.agent_runtime.messages import Message, ToolCall
from tidegate.agent_runtime.turn import TurnInput


class CutOff:
    """Cancels the task that was armed when the `at`-th checkpoint is reached; 0 never does."""

    def __init__(self, at: int = 0) -> None:
        self.at = at
        self.reached = 0
        self.task: asyncio.Task[object] | None = None

    async def checkpoint(self) -> None:
        """An await at which a run may be cancelled."""
        self.reached += 1
        if self.reached == self.at and self.task is not None:
            self.task.cancel()
        await asyncio.sleep(0)


class RecordingJournal:
    """Implements `Journal`.

    Attributes:
        log: What happened, in order, as short words.
        steering: Batches of messages; one batch is handed out for each time that it is this batch's turn.
    """

    def __init__(self, history: Sequence[Message], cut: CutOff | None = None) -> None:
        self.messages = list(history)
        self.open: set[str] = set()
        self.closed: set[str] = set()
        self.log: list[str] = []
        self.steering: list[tuple[Message, ...]] = []
        self._cut = cut or CutOff()

    def turn(self, attempt: int = 1) -> TurnInput:
        """Return what a run would be started from now."""
        return TurnInput(tuple(self.messages), frozenset(self.open), attempt)

    async def record_message(self, message: Message) -> None:
        """Keep an assistant message."""
        await self._cut.checkpoint()
        self.messages.append(message)
        self.log.append(f"message {','.join(call.name for call in message.tool_calls)}")
        await self._cut.checkpoint()

    async def tool_started(self, call: ToolCall) -> None:
        """Keep the start of a call."""
        await self._cut.checkpoint()
        assert call.id not in self.open | self.closed, "a call must start once"
        self.open.add(call.id)
        self.log.append(f"start {call.id}")
        await self._cut.checkpoint()

    async def tool_ended(self, call: ToolCall, result: Message) -> None:
        """Keep a result."""
        await self._cut.checkpoint()
        assert call.id not in self.closed, "a call must end once"
        assert result.tool_call_id == call.id
        self.open.discard(call.id)
        self.closed.add(call.id)
        self.messages.append(result)
        self.log.append(f"{'error' if result.is_error else 'end'} {call.id}")
        await self._cut.checkpoint()

    async def take_steering(self) -> Sequence[Message]:
        """Hand out the next batch of messages."""
        await self._cut.checkpoint()
        taken = self.steering.pop(0) if self.steering else ()
        self.messages.extend(taken)
        await self._cut.checkpoint()
        return taken
