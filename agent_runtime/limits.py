"""What a run may use up, and when a run that repeats itself is stopped."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum

from tidegate.agent_runtime.history import tool_result
from tidegate.agent_runtime.messages import Message, ToolCall, Usage
from tidegate.clock import Clock
from tidegate.errors import RunLimitReached

WARN_AT = 10
"""Identical calls (tool, arguments, result) after which the model is told that it repeats itself."""
BLOCK_AT = 20
"""The call that would be this many identical ones is not run any more."""
END_AT = 30
"""The call that would be this many identical ones ends the run."""
UNKNOWN_TOOLS = 10
"""Calls of tools that do not exist after which the run ends."""

LOOP_NOTE = (
    "\n\n[Note: this exact call has now returned this exact result {count} times. "
    "Repeating it will not change anything; try something else or answer.]"
)
BLOCKED = (
    "Not run: this exact call has returned the same result {count} times in this run. "
    "Try something else or answer with what you have."
)


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Most of each resource that one run may use; 0 means no limit.

    Attributes:
        iterations: Model calls.
        wall_time: Seconds.
        tokens: Input, output and cache writes of all model calls; cache reads are not counted.
        loop_breaker: End runs that repeat the same call with the same result.
    """

    iterations: int = 90
    wall_time: float = 3600.0
    tokens: int = 2_000_000
    loop_breaker: bool = True


class RunMeter:
    """Counts what one run uses."""

    def __init__(self, limits: RunLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._started = clock.monotonic()
        self._iterations = 0
        self.usage = Usage()

    def next_iteration(self) -> int:
        """Count one model call that is about to be made and return its number, from 1.

        Raises:
            RunLimitReached: It would be one too many, or time or tokens are used up.
        """
        self.check()
        if self._limits.iterations and self._iterations >= self._limits.iterations:
            raise RunLimitReached(f"{self._limits.iterations} steps", "iterations")
        self._iterations += 1
        return self._iterations

    def check(self) -> None:
        """Raise RunLimitReached if time or tokens are used up."""
        if self.seconds_left() == 0:
            raise RunLimitReached(f"{self._limits.wall_time:.0f} seconds", "wall_time")
        used = self.usage.input + self.usage.output + self.usage.cache_write
        if self._limits.tokens and used >= self._limits.tokens:
            raise RunLimitReached(f"{self._limits.tokens} tokens", "tokens")

    def seconds_left(self) -> float | None:
        """Return the seconds left, not below 0; None without a limit."""
        if not self._limits.wall_time:
            return None
        return max(0.0, self._started + self._limits.wall_time - self._clock.monotonic())


class Verdict(Enum):
    """What to do about a call that has been made before."""

    RUN = "run"
    WARN = "warn"
    BLOCK = "block"
    END = "end"


def judge_repeats(count: int) -> Verdict:
    """Return what follows from `count` identical calls."""
    if count >= END_AT:
        return Verdict.END
    if count >= BLOCK_AT:
        return Verdict.BLOCK
    return Verdict.WARN if count >= WARN_AT else Verdict.RUN


class LoopBreaker:
    """Notices calls that are repeated with the same arguments and the same result."""

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled
        self._last_result: dict[bytes, bytes] = {}
        self._counts: Counter[bytes] = Counter()
        self._unknown = 0

    def before(self, call: ToolCall, *, is_known: bool) -> Message | None:
        """Return the error result of a call that must not run any more, else None.

        Raises:
            RunLimitReached: The run goes in circles.
        """
        if not self._enabled:
            return None
        if not is_known:
            self._unknown += 1
            if self._unknown >= UNKNOWN_TOOLS:
                raise RunLimitReached(f"{self._unknown} calls of tools that do not exist", "loop")
        last = self._last_result.get(_call_key(call))
        if last is None:
            return None
        count = self._counts[last] + 1
        match judge_repeats(count):
            case Verdict.END:
                raise RunLimitReached(f"{call.name} called {count} times with the same result", "loop")
            case Verdict.BLOCK:
                self._counts[last] = count
                return tool_result(call.id, BLOCKED.format(count=count - 1), is_error=True)
        return None

    def after(self, call: ToolCall, result: Message) -> Message:
        """Count a result and return it, with a note when it was seen too often."""
        key = _call_key(call)
        result_key = hashlib.sha256(key + result.text.encode("utf-8", "replace")).digest()
        self._counts[result_key] += 1
        count = self._counts[result_key]
        self._last_result[key] = result_key
        if self._enabled and judge_repeats(count) is not Verdict.RUN:
            return replace(result, text=result.text + LOOP_NOTE.format(count=count))
        return result


def _call_key(call: ToolCall) -> bytes:
    return hashlib.sha256(f"{call.name}\0{call.arguments}".encode("utf-8", "replace")).digest()


_EXPLANATIONS = {
    "iterations": "I stopped: this task reached its limit of {detail}.",
    "wall_time": "I stopped: this task reached its time limit of {detail}.",
    "tokens": "I stopped: this task reached its budget of {detail}.",
    "loop": "I stopped because I was going in circles ({detail}).",
}


def explain_limit(error: RunLimitReached) -> str:
    """Return what the user is told about a run that a limit ended."""
    words = _EXPLANATIONS.get(error.limit, "I stopped: this task reached a limit ({detail}).")
    return words.format(detail=error) + " What was done so far is kept; write again to go on from here."
