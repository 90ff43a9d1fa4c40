"""The records of the store: frozen values that say what is durable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tidegate.clock import SECOND
from tidegate.events import Address, MessageEvent


class EventState(StrEnum):
    """Where an inbound event stands. Every event ends in one of the terminal states."""

    WAITING = "waiting"
    """In its session's queue, or part of a turn that runs."""
    COMMAND = "command"
    """A chat command that is not carried out yet."""
    CONTEXT = "context"
    """Group talk that was not addressed to us; shown to the agent with the next message that is."""
    ANSWERED = "answered"
    SET_ASIDE = "set_aside"
    """Not answered because of /stop, /new or an interrupt; the sender was told."""
    DROPPED = "dropped"
    """Refused or summarised because the queue was full; the sender was told."""
    DENIED = "denied"
    PAIRING = "pairing"
    IGNORED = "ignored"
    """Our own message, or a kind of event nothing follows from."""
    HANDLED = "handled"
    """A command that was carried out, or context that an agent has seen."""
    UNROUTED = "unrouted"
    """No agent may answer it; told to the operator."""
    FAILED = "failed"
    """Its turn ended in a failure that the sender was told about."""


class DeliveryState(StrEnum):
    """Where an outgoing part stands."""

    DUE = "due"
    SENDING = "sending"
    """The intent to send is durable; what the platform did is not known yet."""
    SENT = "sent"
    UNKNOWN = "unknown"
    """It may have arrived. Never repeated; reported to the owner."""
    DEAD = "dead"
    """The platform will never take it."""
    EXPIRED = "expired"
    """It could not be sent in time."""


class DeliveryKind(StrEnum):
    """What an outgoing part is."""

    REPLY = "reply"
    PREVIEW = "preview"
    NOTICE = "notice"
    SEND = "send"


class TurnState(StrEnum):
    """Where a turn stands."""

    RUNNING = "running"
    ANSWERED = "answered"
    STOPPED = "stopped"
    """Ended by /stop, /new or an interrupt."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Draft:
    """An outgoing part that is not stored yet.

    Attributes:
        payload: What to send, as JSON-able data (see `gateway/parts.py`).
        due_at: Not before this instant; microseconds UTC, 0 for at once.
    """

    address: Address
    payload: Mapping[str, Any]
    kind: DeliveryKind = DeliveryKind.REPLY
    due_at: int = 0


@dataclass(frozen=True, slots=True)
class QueueRule:
    """How a session's queue treats an event, resolved when it arrived.

    Attributes:
        mode: collect, steer, followup, interrupt or steer-backlog.
        debounce: Quiet time after a run before waiting messages are taken, in microseconds.
        cap: Most messages that may wait behind a running turn; at least 1.
        drop: old, new or summarize: what happens to one more.
        window: How long to wait for more of the same sender even when idle, in microseconds; 0 = not at all.
    """

    mode: str = "collect"
    debounce: int = 500_000
    cap: int = 20
    drop: str = "summarize"
    window: int = 0


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Verdict: the event waits in its session's queue.

    Attributes:
        is_owner: The sender is the owner; decides the rights of the turn.
        set_aside_notice: Makes the notice for an interrupt that set n messages aside.
        full_notice: Makes the notice for a message that the full queue refused or dropped.
    """

    session_key: str
    agent: str
    rule: QueueRule
    is_owner: bool
    set_aside_notice: Callable[[int], Draft] | None = None
    full_notice: Callable[[MessageEvent], Draft] | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Verdict: the event is recorded in a state that asks for no turn.

    Attributes:
        state: COMMAND, CONTEXT, DENIED, PAIRING, IGNORED or UNROUTED.
        session_key: Its session, for COMMAND and CONTEXT.
        keep: Most CONTEXT events to keep for the session.
        keep_text: Keep what was said; off for people who have no access.
        drafts: Sent along, in the same transaction.
        pairing: A request to store with it; the drafts then go out only when it is a new one.
        pairing_limit: Most requests that may be pending for the account.
    """

    state: EventState
    reason: str = ""
    session_key: str = ""
    agent: str = ""
    is_owner: bool = False
    keep: int = 0
    keep_text: bool = True
    drafts: tuple[Draft, ...] = ()
    pairing: PairingRequest | None = None
    pairing_limit: int = 3


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event with its verdict, as it is stored."""

    event: MessageEvent
    verdict: Enqueue | Record


class AppendStatus(StrEnum):
    """What became of an event that was handed to the store."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    REFUSED = "refused"
    """The queue was full and its policy refuses new messages; recorded as DROPPED, the sender is told."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The outcome for one event of a batch.

    Attributes:
        event_id: Row id of the event (of the first copy, for a duplicate).
        stopped: Turns that an interrupt ended, as (session key, fence).
    """

    status: AppendStatus
    event_id: int
    stopped: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class CursorUpdate:
    """Where an account goes on after a restart."""

    channel: str
    account: str
    value: str


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run a session: every write of a turn shows it.

    Attributes:
        session: Row id of the session.
        owner: The process that runs it (its boot id).
        fence: Rises with every new holder; a holder with an older fence has lost the session.
    """

    session: int
    key: str
    owner: str
    fence: int


@dataclass(frozen=True, slots=True)
class QueuedEvent:
    """A waiting event as the planner of a turn sees it.

    Attributes:
        seq: Its place in the session's order.
        joins: It continues the event before it (same sender, within the debounce window).
        mode: Queue mode that was in force when it arrived.
    """

    seq: int
    event: MessageEvent
    is_owner: bool
    joins: bool
    mode: str
    event_id: int = 0


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """Which waiting events form the next turn.

    Attributes:
        take: How many of the waiting events, from the oldest, are settled by this turn; at least 1.
        set_aside: How many of those, from the oldest, are not answered (interrupt).
        texts: What the user says in this turn, one text a message.
    """

    take: int
    set_aside: int
    texts: tuple[UserText, ...]


@dataclass(frozen=True, slots=True)
class UserText:
    """One user message for the transcript, with the blobs that go along."""

    text: str
    images: tuple[tuple[str, str], ...] = ()
    """Pairs of (blob, MIME type)."""


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What the rules of a claim may look at."""

    key: str
    agent: str
    started_at: int
    touched_at: int
    settings: Mapping[str, Any]
    has_history: bool


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """The pure decisions that a claim makes inside its transaction.

    Attributes:
        plan: Chooses the events of the turn; gets the waiting events, the group talk before them and how many
            older ones the overflow policy left out, with their one-line summaries.
        stale: Names why the conversation is over (daily, idle), or None.
        encode: Makes the transcript body of a user text.
        max_attempts: A turn that was started this often without an end is not started again.
        last_try_after: Microseconds that pass before a turn is started for the last time; see `last_try_at`.
        history_limit: Most messages loaded.
    """

    plan: Callable[[Sequence[QueuedEvent], Sequence[MessageEvent], Overflow], TurnPlan]
    stale: Callable[[SessionFacts, int], str | None]
    encode: Callable[[UserText], str]
    max_attempts: int = 3
    last_try_after: int = 10 * SECOND
    history_limit: int = 2000


@dataclass(frozen=True, slots=True)
class Overflow:
    """Messages that a full queue left out since the last turn.

    Attributes:
        count: All of them.
        texts: What the newest of them said, oldest first.
    """

    count: int = 0
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One stored message of a transcript.

    Attributes:
        body: The JSON of the runtime's own message type.
        turn: The turn that wrote it, where that was asked for.
    """

    seq: int
    body: str
    turn: int = 0


@dataclass(frozen=True, slots=True)
class ClaimedTurn:
    """A turn to run, with everything it needs.

    Attributes:
        run_id: Public id of the run.
        attempt: 1 for the first try; higher after a crash.
        events: The events it answers, oldest first. The newest one's address is the reply address.
        is_owner: All their senders are the owner (least rights of all).
        history: The conversation, ending with this turn's own messages.
        started_calls: Tool calls that started before a crash and have no recorded end.
        notice: Why a new conversation was begun with this turn (daily, idle), or empty.
        exhausted: It was started too often already; end it with a plain failure.
        set_aside: How many older messages the interrupt left unanswered.
        preview: Platform id of the message in which an earlier attempt showed its answer, or None.
    """

    lease: Lease
    turn: int
    run_id: str
    agent: str
    conversation: str
    attempt: int
    events: tuple[MessageEvent, ...]
    is_owner: bool
    history: tuple[HistoryRow, ...]
    started_calls: frozenset[str]
    settings: Mapping[str, Any]
    notice: str = ""
    exhausted: bool = False
    set_aside: int = 0
    preview: str | None = None

    @property
    def reply_event(self) -> MessageEvent:
        """Return the newest event, whose address and message id the reply uses."""
        return self.events[-1]


@dataclass(frozen=True, slots=True)
class NotYet:
    """A session has waiting messages that may be taken from `at` on; microseconds UTC."""

    at: int


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """What a turn did, to be made durable together.

    Attributes:
        messages: Bodies to append to the transcript.
        tool_started: Call id and tool name that is about to run.
        tool_ended: Call id that ended or was skipped.
    """

    messages: tuple[str, ...] = ()
    tool_started: tuple[str, str] | None = None
    tool_ended: str | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """How a turn ended.

    Attributes:
        messages: Bodies of the final messages of the transcript.
        drafts: The reply, in order. The first one replaces the turn's preview, where one is known to exist.
        state: ANSWERED, FAILED or STOPPED.
        told: What the person is told in place of an answer, when there is none.
    """

    messages: tuple[str, ...]
    drafts: tuple[Draft, ...]
    state: TurnState = TurnState.ANSWERED
    model: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    reason: str = ""
    told: str = ""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A stored outgoing part.

    Attributes:
        stale: An earlier attempt began and has no recorded end: whether it arrived is not known.
    """

    id: int
    token: str
    address: Address
    kind: DeliveryKind
    payload: Mapping[str, Any]
    state: DeliveryState
    attempt: int
    due_at: int
    created_at: int
    platform_id: str | None = None
    reason: str = ""
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of an attempt to send.

    Attributes:
        state: SENT, DUE (again, at `due_at`), UNKNOWN, DEAD or EXPIRED.
        sends_anew: The message it was to replace is gone: the part becomes a message of its own.
    """

    delivery: int
    state: DeliveryState
    platform_id: str | None = None
    due_at: int = 0
    reason: str = ""
    sends_anew: bool = False


@dataclass(frozen=True, slots=True)
class SessionChange:
    """What a chat command does to a session, in one transaction.

    Attributes:
        stop: End the running turn and set waiting messages aside.
        new_conversation: Begin a new transcript; the old one stays listed.
        resume: Id of an earlier conversation of this session to go on with.
        settings: Keys to set on the session; None as a value removes the key.
        then: Text to enqueue as a message of the same sender afterwards, by `then_rule`.
    """

    stop: bool = False
    new_conversation: bool = False
    resume: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    then: str = ""
    then_rule: QueueRule = field(default_factory=QueueRule)


@dataclass(frozen=True, slots=True)
class Changed:
    """What a command did.

    Attributes:
        stopped: The turn that was ended, as (session key, fence), or None.
        set_aside: How many waiting messages were set aside.
        found: False when `resume` names no conversation of this session.
    """

    stopped: tuple[str, int] | None = None
    set_aside: int = 0
    found: bool = True


@dataclass(frozen=True, slots=True)
class PendingCommand:
    """A stored command that is not carried out yet."""

    event_id: int
    session_key: str
    agent: str
    is_owner: bool
    event: MessageEvent


@dataclass(frozen=True, slots=True)
class PairingRequest:
    """Somebody unknown who asked to talk to us."""

    channel: str
    account: str
    sender: str
    name: str
    code: str
    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """One line of a list of sessions."""

    key: str
    agent: str
    conversation: str
    waiting: int
    running: bool
    messages: int
    started_at: int
    touched_at: int
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ConversationSummary:
    """One conversation of a session; the current one has no end."""

    id: str
    started_at: int
    ended_at: int | None
    end_reason: str
    messages: int
    title: str


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts for `status`.

    Attributes:
        events: The newest events by state (at most `RECENT`), so that the cost does not grow with the history.
        deliveries: The newest parts by state (at most `RECENT`), previews aside; `due` and `sending` are all there are.
        stored: All events ever stored.
    """

    events: Mapping[str, int]
    deliveries: Mapping[str, int]
    sessions: int
    running: int
    waiting: int
    stored: int = 0


RECENT = 10_000
"""How many of the newest rows `Totals` counts by state."""
