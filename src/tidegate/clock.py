"""Time, as the product sees it: stored instants in microseconds UTC, deadlines on the monotonic clock."""

from __future__ import annotations

import time
from typing import Protocol

SECOND = 1_000_000
"""Microseconds in a second."""
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class Clock(Protocol):
    """Where every instant comes from, so that tests can move time by hand."""

    def now(self) -> int:
        """Return the present instant, in microseconds since 1970-01-01 UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that never jumps; only differences mean anything."""
        ...


class SystemClock:
    """The machine's own clocks. The present never goes back: a clock that is set back must not hold anybody up."""

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        """Return the present instant, in microseconds since 1970-01-01 UTC. Follows a clock set forward only."""
        monotonic = time.monotonic_ns()
        self._offset = max(self._offset, time.time_ns() - monotonic)
        return (monotonic + self._offset) // 1000

    def monotonic(self) -> float:
        """Return seconds on a clock that never jumps."""
        return time.monotonic()


class ManualClock:
    """A clock for tests: it moves only when told to."""

    def __init__(self, now: int = 1_800_000_000 * SECOND) -> None:
        self._now = now

    def now(self) -> int:
        """Return the present instant, in microseconds since 1970-01-01 UTC."""
        return self._now

    def monotonic(self) -> float:
        """Return the same instant, in seconds."""
        return self._now / SECOND

    def advance(self, seconds: float) -> None:
        """Move the clock forward by `seconds`."""
        self._now += int(seconds * SECOND)
