"""The seam between a run and the session that ordered it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tidegate.agent_runtime.messages import Message, ToolCall, Usage


@dataclass(frozen=True, slots=True)
class TurnInput:
    """What a run starts from.

    Attributes:
        history: The conversation so far, oldest first, ending with the user messages of this turn and, when
            the turn was interrupted by a crash, what it had already journalled.
        started_calls: Ids of tool calls that had started before a crash and have no recorded end.
        attempt: 1 for the first try of this turn.
    """

    history: tuple[Message, ...]
    started_calls: frozenset[str] = frozenset()
    attempt: int = 1


class Journal(Protocol):
    """Where a run writes what it did, before it goes on. Each method raises LeaseLost when the turn is no
    longer ours; the run must then end at once."""

    async def record_message(self, message: Message) -> None:
        """Make an assistant message with tool calls durable."""
        ...

    async def tool_started(self, call: ToolCall) -> None:
        """Make it durable that a tool is about to run. From here on the call is never run again."""
        ...

    async def tool_ended(self, call: ToolCall, result: Message) -> None:
        """Make the result of a call durable, as a tool message of the transcript.

        Also used for calls that never started (refused, skipped).
        """
        ...

    async def take_steering(self) -> Sequence[Message]:
        """Take user messages that arrived for this run; they are durable parts of the transcript already."""
        ...


class EndReason(StrEnum):
    """Why a run ended."""

    ANSWERED = "answered"
    LIMIT = "limit"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """How a run ended.

    Attributes:
        reply: The final assistant message, not journalled yet: the session commits it together with the
            outgoing parts.
        usage: Tokens of all model calls of this run.
        model: `provider/model` that gave the reply; empty when none did.
        fallback_from: The model that was asked first, when another one answered.
        limit: Which limit ended it.
        error_kind: Failure class of the model error that ended it.
        error_text: What failed, for the operator: never the provider's own text, never a secret.
    """

    reason: EndReason
    reply: Message
    usage: Usage
    model: str = ""
    fallback_from: str = ""
    limit: str = ""
    error_kind: str = ""
    error_text: str = ""
