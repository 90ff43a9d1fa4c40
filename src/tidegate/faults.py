"""Named commit points at which a test may make the process die, to prove what survives."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import NoReturn


class CrashPoint(StrEnum):
    """A place right after something became durable, or right after it left the process.

    `TIDEGATE_CRASH_AT=<point>[:N]` ends the process hard the Nth time the point is reached.
    """

    EVENT_STORED = "event-stored"
    TURN_CLAIMED = "turn-claimed"
    REPLY_JOURNALLED = "reply-journalled"
    TOOL_STARTED = "tool-started"
    TOOL_ENDED = "tool-ended"
    REPLY_IN_OUTBOX = "reply-in-outbox"
    SENDING_STORED = "sending-stored"
    SENT = "sent"
    RECEIPT_STORED = "receipt-stored"
    CURSOR_CONFIRMED = "cursor-confirmed"


DESCRIPTIONS: dict[CrashPoint, str] = {
    CrashPoint.EVENT_STORED: "an inbound event and its cursor were committed",
    CrashPoint.TURN_CLAIMED: "a session's waiting events were joined into a turn and leased",
    CrashPoint.REPLY_JOURNALLED: "a model message was committed (tool calls or the final reply)",
    CrashPoint.TOOL_STARTED: "the start of a tool call was committed; the tool has not run",
    CrashPoint.TOOL_ENDED: "the result of a tool call was committed",
    CrashPoint.REPLY_IN_OUTBOX: "the final reply was committed to the outbox",
    CrashPoint.SENDING_STORED: "the intent to send one part was committed; nothing was sent yet",
    CrashPoint.SENT: "the platform accepted a part; the receipt is not stored yet",
    CrashPoint.RECEIPT_STORED: "the receipt of a part was committed",
    CrashPoint.CURSOR_CONFIRMED: "the platform was told that the events up to the cursor are ours",
}


class Faults:
    """Counts how often each point is reached and kills the process at the armed one."""

    def __init__(self, spec: str | None = None) -> None:
        """Arm the point named by `spec` (`point` or `point:N`); None arms nothing.

        Raises:
            ValueError: The point is unknown or N is not a positive number.
        """
        self._point: CrashPoint | None = None
        self._left = 0
        if spec:
            name, _, count = spec.partition(":")
            if name not in set(CrashPoint):
                known = ", ".join(CrashPoint)
                raise ValueError(f"TIDEGATE_CRASH_AT: unknown point {name!r}; known points: {known}")
            if count and not (count.isdecimal() and int(count) > 0):
                raise ValueError(f"TIDEGATE_CRASH_AT: {count!r} is not a positive number")
            self._point, self._left = CrashPoint(name), int(count or 1)

    def reached(self, point: CrashPoint) -> None:
        """Tell that `point` was passed; does not return if it is the armed one."""
        if self._point is point:
            self._left -= 1
            if self._left == 0:
                _die()


def _die() -> NoReturn:
    """End the process as SIGKILL would: no cleanup, no flush. 137 reads as killed."""
    os._exit(137)
