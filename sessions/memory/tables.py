"""The rows of the store in memory. Rows are frozen and replaced, so that a copy of the dicts is a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tidegate.events import Address, MessageEvent
from tidegate.sessions.devices import Attempts, Device, DeviceRequest, SetupCode
from tidegate.sessions.model import DeliveryKind, DeliveryState, EventState, PairingRequest, QueuedEvent, TurnState
from tidegate.sessions.queueing import QueueState


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session with its queue."""

    id: int
    key: str
    agent: str
    created_at: int
    touched_at: int
    conversation: int = 0
    owner: str | None = None
    fence: int = 0
    lease_until: int = 0
    current_since: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    queue: QueueState = field(default_factory=QueueState)
    """Its `running` and `touched_at` are not used; see `Tables.queue`."""

    @property
    def waits(self) -> bool:
        """Whether something waits or runs."""
        return self.queue.head > self.queue.done


@dataclass(frozen=True, slots=True)
class EventRow:
    """An inbound event."""

    id: int
    identity: bytes
    event: MessageEvent
    state: EventState
    reason: str = ""
    session: int | None = None
    seq: int | None = None
    mode: str = ""
    is_owner: bool = False
    joins: bool = False

    @property
    def queued(self) -> QueuedEvent:
        """The event as planners see it."""
        return QueuedEvent(self.seq or 0, self.event, self.is_owner, self.joins, self.mode, self.id)


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A turn."""

    id: int
    run_id: str
    session: int
    conversation: int
    first_seq: int
    last_seq: int
    set_aside: int
    attempt: int
    fence: int
    started_at: int
    state: TurnState = TurnState.RUNNING
    notice: str = ""
    model: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    ended_at: int = 0
    reason: str = ""
    told: str = ""


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """A conversation of a session."""

    id: int
    uuid: str
    session: int
    started_at: int
    ended_at: int | None = None
    end_reason: str = ""


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """An outgoing part."""

    id: int
    token: str
    address: Address
    kind: DeliveryKind
    payload: Mapping[str, Any]
    state: DeliveryState
    due_at: int
    created_at: int
    turn: int | None = None
    attempt: int = 0
    platform_id: str | None = None
    reason: str = ""
    reported: bool = False

    @property
    def is_open(self) -> bool:
        """Whether its outcome is still to come."""
        return self.state in (DeliveryState.DUE, DeliveryState.SENDING)


@dataclass(slots=True)
class Tables:
    """All rows, by id or key."""

    sessions: dict[int, SessionRow] = field(default_factory=dict)
    session_ids: dict[str, int] = field(default_factory=dict)
    events: dict[int, EventRow] = field(default_factory=dict)
    event_ids: dict[bytes, int] = field(default_factory=dict)
    turns: dict[int, TurnRow] = field(default_factory=dict)
    running: dict[int, int] = field(default_factory=dict)
    conversations: dict[int, ConversationRow] = field(default_factory=dict)
    messages: dict[int, tuple[tuple[int, str, int], ...]] = field(default_factory=dict)
    tool_calls: dict[tuple[int, str], bool] = field(default_factory=dict)
    """Whether a call of a turn has ended."""
    deliveries: dict[int, DeliveryRow] = field(default_factory=dict)
    cursors: dict[tuple[str, str], str] = field(default_factory=dict)
    requests: dict[tuple[str, str, str], tuple[PairingRequest, Address]] = field(default_factory=dict)
    allowed: dict[tuple[str, str, str], str] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    contacts: dict[str, tuple[Address, int]] = field(default_factory=dict)
    cooldowns: dict[tuple[str, str, str], tuple[int, int, str]] = field(default_factory=dict)
    devices: dict[str, Device] = field(default_factory=dict)
    device_requests: dict[str, DeviceRequest] = field(default_factory=dict)
    setup_codes: dict[str, SetupCode] = field(default_factory=dict)
    request_keys: dict[tuple[str, str, str], tuple[str, int]] = field(default_factory=dict)
    attempts: dict[tuple[str, str], Attempts] = field(default_factory=dict)

    def snapshot(self) -> Tables:
        """Return a copy that later changes do not reach."""
        return Tables(**{f.name: dict(getattr(self, f.name)) for f in fields(self)})

    def session(self, key: str) -> SessionRow | None:
        """Return a session by its key."""
        return self.sessions[self.session_ids[key]] if key in self.session_ids else None

    def running_turn(self, session: int) -> TurnRow | None:
        """Return the turn of a session that runs."""
        return self.turns[self.running[session]] if session in self.running else None

    def queue(self, row: SessionRow) -> QueueState:
        """Return the queue of a session."""
        q, turn = row.queue, self.running_turn(row.id)
        running = turn.last_seq if turn else None
        return QueueState(q.head, q.done, running, q.not_before, q.behind, q.burst_until, q.burst_ends, row.touched_at)

    def waiting(self, session: int, after: int = 0) -> list[QueuedEvent]:
        """Return the waiting events of a session behind a seq, oldest first."""
        rows = (e for e in self.of_session(session, EventState.WAITING) if (e.seq or 0) > after)
        return [row.queued for row in sorted(rows, key=lambda row: row.seq or 0)]

    def of_session(self, session: int, state: EventState) -> Iterator[EventRow]:
        """Yield the events of a session in a state, in the order of their arrival."""
        return (row for row in self.events.values() if row.session == session and row.state is state)
