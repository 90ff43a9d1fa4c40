"""Pure rules of a session's queue: when it may be taken, what joins what, what a full queue leaves out.

Every store asks these inside its own transaction, so that all of them treat a queue alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.clock import HOUR, SECOND
from tidegate.events import Address, MessageEvent
from tidegate.sessions.model import Enqueue, Overflow, QueuedEvent, QueueRule

MAX_WINDOW_STRETCH = 5
"""A debounce window that is renewed by more messages ends after this many times its length at the latest."""
MAX_QUIET_STRETCH = 10
"""The quiet time after a run ends after this many times its length, however many messages go on arriving."""
MAX_STEERING = 200
"""Most messages that may wait behind a turn in the modes whose messages are exempt from the cap."""
MAX_BURST = 200
"""Most events that may join the waiting ones without counting against the cap."""
STEERING = frozenset({"steer", "steer-backlog"})


@dataclass(frozen=True, slots=True)
class QueueState:
    """The queue of a session as its row has it.

    Attributes:
        running: Last seq of the turn that runs, or None.
        behind: The waiting messages arrived behind a run, so the quiet time after it applies to them.
        burst_until: Up to when a message of the same sender joins the newest one; 0 for not at all.
        burst_ends: When the burst ends, however many join.
        touched_at: When the last turn ended, while none runs.
    """

    head: int = 0
    done: int = 0
    running: int | None = None
    not_before: int = 0
    behind: bool = False
    burst_until: int = 0
    burst_ends: int = 0
    touched_at: int = 0

    @property
    def taken(self) -> int:
        """Return the seq up to which messages are answered or being answered."""
        return self.done if self.running is None else max(self.done, self.running)


@dataclass(frozen=True, slots=True)
class Suspect:
    """A turn that was left unfinished, perhaps because it ended the process.

    Attributes:
        attempt: How often it was started.
        max_attempts: How often it may be started.
        seen_at: When it was last known to run; microseconds UTC.
        quiet: How long before its last try it has to rest, in microseconds.
    """

    attempt: int
    max_attempts: int
    seen_at: int
    quiet: int


@dataclass(frozen=True, slots=True)
class QueueTimes:
    """What a new message makes of the times of a queue; the fields are those of `QueueState`."""

    not_before: int
    behind: bool
    burst_until: int
    burst_ends: int


def times_after(state: QueueState, rule: QueueRule, now: int) -> QueueTimes:
    """Return when the session may be taken once a message with this rule waits in it.

    An idle session starts at once, or after the burst window of its messages. Behind a run, and in the quiet time
    after one, the newest message starts that time anew, up to a bound.
    """
    waits = state.head > state.taken
    behind = state.running is not None or (waits and state.behind)
    burst_until = burst_ends = 0
    if rule.window:
        open_still = waits and state.burst_ends > now
        burst_ends = state.burst_ends if open_still else now + MAX_WINDOW_STRETCH * rule.window
        burst_until = min(now + rule.window, burst_ends)
    not_before = burst_until
    if behind:
        quiet = now + rule.debounce
        if state.running is None:
            latest = state.touched_at + MAX_QUIET_STRETCH * rule.debounce
            quiet = min(quiet, max(latest, state.not_before))
        not_before = max(quiet, burst_until)
    return QueueTimes(not_before, behind, burst_until, burst_ends)


def continues(before: MessageEvent, event: MessageEvent) -> bool:
    """Return whether an event inside the burst window goes on with the one before it."""
    if before.address != event.address:
        return False
    return before.sender.id == event.sender.id or (bool(event.album) and before.album == event.album)


@dataclass(frozen=True, slots=True)
class Room:
    """What a full queue leaves out.

    Attributes:
        refused: The new message is.
        summarized: Waiting events that the agent hears about in a summary.
        dropped: Waiting events whose senders are told.
        notices: One event for each dropped message, to make its notice of.
    """

    refused: bool = False
    summarized: tuple[QueuedEvent, ...] = ()
    dropped: tuple[QueuedEvent, ...] = ()
    notices: tuple[MessageEvent, ...] = ()


def make_room(waiting: Sequence[QueuedEvent], event: MessageEvent, verdict: Enqueue, *, is_running: bool) -> Room:
    """Apply the overflow policy to the events that wait behind the running turn.

    Messages on their way into the running turn are exempt from the cap, up to a bound of their own. Events that
    join one another count as one message. A summary is for the agent's next turn in that place, so what was said
    elsewhere or with other rights is never summarised: its sender is told.
    """
    rule = verdict.rule
    steers = is_running and rule.mode in STEERING
    limit = MAX_STEERING if steers else rule.cap
    messages: list[list[QueuedEvent]] = []
    for item in waiting:
        if item.joins and messages:
            messages[-1].append(item)
        else:
            messages.append([item])
    counted = [message for message in messages if (is_running and message[0].mode in STEERING) == steers]
    excess = counted[: max(0, len(counted) - limit + 1)]
    if not excess:
        return Room()
    if rule.drop == "new":
        return Room(refused=True)
    summarized: list[QueuedEvent] = []
    dropped: list[QueuedEvent] = []
    notices = []
    for message in excess:
        first = message[0]
        alike = first.event.address == event.address and first.is_owner == verdict.is_owner
        if rule.drop == "summarize" and alike:
            summarized.extend(message)
        else:
            dropped.extend(message)
            notices.append(first.event)
    return Room(summarized=tuple(summarized), dropped=tuple(dropped), notices=tuple(notices))


def belongs_to_turn(left_out: QueuedEvent, address: Address, *, is_owner: bool) -> bool:
    """Return whether a summarised event may be told in a turn: same place, and no fewer rights than the turn has."""
    return left_out.event.address == address and (left_out.is_owner or not is_owner)


def overflow_of(left_out: Sequence[QueuedEvent]) -> Overflow:
    """Return what the planner hears about summarised events, given in their order."""
    firsts = [item for item in left_out if not item.joins] or list(left_out)
    return Overflow(len(firsts), tuple(item.event.text for item in firsts))


LONGEST_WAIT = 2 * HOUR
"""No legal wait is longer. An instant further ahead was written before the machine's clock was set back."""


def is_ahead(instant: int, now: int) -> bool:
    """Tell whether something has to wait for an instant (both in microseconds UTC)."""
    return now < instant <= now + LONGEST_WAIT


LAST_TRY_LOOK = SECOND // 4
"""How often a last try looks whether another one has ended, in microseconds."""


def last_try_at(suspect: Suspect, *, others: bool, now: int) -> int:
    """Return when a turn that was left unfinished may be started again, 0 for at once; microseconds UTC.

    Only the last try waits. A crash hits every turn that runs, and which of them caused it cannot be seen; so the
    last tries stand apart from each other (one turn that kills the process takes no other with it) and from the
    crash (power cuts in quick succession use up one try, not all).

    Args:
        others: Another session of this process is on its last try.
    """
    if suspect.attempt + 1 != suspect.max_attempts:
        return 0
    quiet_until = suspect.seen_at + suspect.quiet
    if is_ahead(quiet_until, now):
        return quiet_until
    return now + LAST_TRY_LOOK if others else 0
