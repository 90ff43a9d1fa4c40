"""What a run tells about itself while it goes on. Watching only: nothing that must happen hangs on these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.agent_runtime.messages import Usage


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the model's visible text."""

    text: str


@dataclass(frozen=True, slots=True)
class MessageStarted:
    """The model begins a message; text of an earlier message of the run is complete."""

    iteration: int


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call begins. `arguments` is the JSON that the model wrote."""

    call_id: str
    name: str
    summary: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A tool call ended. `result` is what the model is told."""

    call_id: str
    name: str
    is_error: bool
    seconds: float
    result: str = ""


@dataclass(frozen=True, slots=True)
class ModelFallback:
    """The run goes on with another model."""

    failed: str
    chosen: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over."""

    reason: str
    usage: Usage


RunEvent = TextDelta | MessageStarted | ToolStarted | ToolEnded | ModelFallback | RunEnded
Emit = Callable[[RunEvent], None]
"""Takes an event; must return at once and never raise."""
