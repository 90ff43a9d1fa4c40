"""What gives way when more messages wait than a queue may hold, and how the sender and the agent hear of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.events import Address
from tidegate.routing.queue_policy import QueuedItem
from tidegate.routing.queue_settings import DropPolicy

MAX_LINE: Final = 160
"""Characters of one summary line."""


@dataclass(frozen=True, slots=True)
class OverflowDecision:
    """What becomes of a queue when one more message arrives.

    Attributes:
        kept: The waiting messages that stay, in order.
        dropped: The messages that will not be answered, in order; the incoming one may be among them.
        is_accepted: The incoming message joins the queue.
        is_summarized: The dropped messages are told to the agent in a summary; else their senders are told.
    """

    kept: tuple[QueuedItem, ...]
    dropped: tuple[QueuedItem, ...]
    is_accepted: bool
    is_summarized: bool = False


def overflow(waiting: Sequence[QueuedItem], incoming: QueuedItem, cap: int, drop: DropPolicy) -> OverflowDecision:
    """Return what becomes of `waiting` when `incoming` arrives.

    Args:
        waiting: What waits and is neither in flight nor parked for steering. Items that run alone are protected:
            they are neither counted out nor refused.
        cap: Most messages that may wait, at least 1.
    """
    queue = sorted(waiting, key=lambda item: item.seq)
    excess = len(queue) + 1 - max(1, cap)
    if excess <= 0 or incoming.runs_alone:
        return OverflowDecision(tuple(queue), (), True)
    if drop is DropPolicy.NEW:
        return OverflowDecision(tuple(queue), (incoming,), False)
    leaving = [item for item in queue if not item.runs_alone][:excess]
    if not leaving:
        return OverflowDecision(tuple(queue), (incoming,), False)
    kept = tuple(item for item in queue if item not in leaving)
    return OverflowDecision(kept, tuple(leaving), True, drop is DropPolicy.SUMMARIZE)


@dataclass(frozen=True, slots=True)
class OverflowSummary:
    """The messages of one route and one level of rights that were dropped.

    Attributes:
        count: How many; `lines` may hold fewer.
    """

    address: Address
    is_owner: bool
    count: int
    lines: tuple[str, ...]

    def text(self) -> str:
        """Return the summary as the agent reads it, at the beginning of its next turn."""
        noun = "message was" if self.count == 1 else "messages were"
        head = f"[Queue overflow] {self.count} {noun} left out because too many were waiting."
        return "\n".join([head, "Summary:", *(f"- {line}" for line in self.lines)])


def summarize(dropped: Sequence[QueuedItem], cap: int) -> tuple[OverflowSummary, ...]:
    """Return one summary per route and level of rights, in order; each keeps its newest `cap` lines."""
    groups: dict[tuple[Address, bool], list[QueuedItem]] = {}
    for item in sorted(dropped, key=lambda item: item.seq):
        groups.setdefault((item.address, item.is_owner), []).append(item)
    return tuple(
        OverflowSummary(address, is_owner, len(items), tuple(map(_line, items[-max(1, cap) :])))
        for (address, is_owner), items in groups.items()
    )


def summary_line(text: str) -> str:
    """Return one line of a summary for what somebody said."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…"


def _line(item: QueuedItem) -> str:
    return summary_line(item.text) or ("(attachment)" if item.has_media else "(no text)")
