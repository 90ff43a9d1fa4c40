"""What the product needs from its store, as small protocols; `tests/contract/` is their definition.

Rules that hold for every method that writes:

* It is one transaction: all of it is durable when the call returns, or none of it happened.
* A decision is one conditional statement or stands under one row lock, in the order session, event, delivery.
* Writes of a turn take its `Lease` and raise `LeaseLost` when the session has another holder.
* Cancelling the caller does not undo the write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tidegate.events import Address, MessageEvent
from tidegate.sessions.devices import AttemptStore, DeviceStore, IdempotencyStore, RequestKey
from tidegate.sessions.model import (
    Appended,
    Changed,
    ClaimedTurn,
    ClaimRules,
    ConversationSummary,
    CursorUpdate,
    Delivery,
    DeliveryState,
    Draft,
    Finish,
    HistoryRow,
    JournalEntry,
    Lease,
    NewEvent,
    NotYet,
    PairingRequest,
    PendingCommand,
    SessionChange,
    SessionSummary,
    Settlement,
    Totals,
)
from tidegate.sessions.operating import OperatorStore


class EventStore(Protocol):
    """Inbound events: durable before the platform hears that we have them."""

    async def append_events(self, batch: Sequence[NewEvent], cursor: CursorUpdate | None = None) -> Sequence[Appended]:
        """Store events with their verdicts, and the cursor with them; one answer an event, in order.

        An event whose identity is known changes nothing and answers DUPLICATE. Enqueued events get the next
        `seq` of their session. With mode interrupt and a running turn, that turn is ended (its lease is lost)
        and older waiting events are set aside.
        """
        ...

    async def load_cursor(self, channel: str, account: str) -> str | None:
        """Return where the account goes on, or None."""
        ...

    async def pending_commands(self) -> Sequence[PendingCommand]:
        """Return commands that are stored and not carried out, oldest first."""
        ...

    async def apply_command(
        self, event_id: int, change: SessionChange, reply: Callable[[Changed], Sequence[Draft]]
    ) -> Changed | None:
        """Carry out a command and queue its answer, once: None when it was carried out before.

        `reply` is called inside the transaction with what was done; it must be pure.
        """
        ...


class TurnStore(Protocol):
    """Turns: claimed with a lease, journalled while they run, finished together with their reply."""

    async def waiting_sessions(self) -> Sequence[str]:
        """Return keys of sessions in which something waits or runs."""
        ...

    async def claim(self, key: str, owner: str, rules: ClaimRules) -> ClaimedTurn | NotYet | None:
        """Take the session's lease and its next turn, or say from when on; None when nothing waits.

        A turn that was left unfinished is taken again with `attempt` raised, whatever its lease says about time:
        the store has one process, which never claims a session that it runs. Starting a conversation anew
        (daily, idle) happens here.
        """
        ...

    async def journal(self, turn: ClaimedTurn, entry: JournalEntry) -> bool:
        """Make an entry durable; True when messages wait in the session behind this turn."""
        ...

    async def take_steering(
        self,
        turn: ClaimedTurn,
        accept: Callable[[MessageEvent, bool, str], str | None],
        encode: Callable[[str], str],
    ) -> Sequence[HistoryRow]:
        """Move waiting messages, oldest first, into the running turn, up to the first one `accept` refuses.

        `accept` gets the event, whether its sender is the owner, and its queue mode; it returns the text for
        the model or None. `encode` makes the transcript body of a text.
        """
        ...

    async def finish(self, turn: ClaimedTurn, end: Finish) -> bool:
        """Commit the end of a turn with its reply and release the lease; True when more messages wait."""
        ...

    async def release(self, owner: str) -> None:
        """Give back every lease of an owner, also those of claims whose caller was cancelled.

        The turns are taken again later, as after a crash, but an orderly stop does not count as an attempt.
        """
        ...

    async def extend(self, leases: Sequence[Lease], seconds: float) -> Sequence[Lease]:
        """Prolong leases from now on; returns those that are lost."""
        ...


class DeliveryStore(Protocol):
    """The outbox: every part stored before it is sent, settled after."""

    async def add_deliveries(self, drafts: Sequence[Draft]) -> Sequence[int]:
        """Store parts; returns their row ids."""
        ...

    async def add_deliveries_once(self, request: RequestKey, drafts: Sequence[Draft]) -> Sequence[int] | None:
        """Store the parts of a request and its key together; returns their row ids.

        A repeat stores nothing and returns what the first one stored, whatever its own parts are. None when the key
        stands for something else than parts.
        """
        ...

    async def open_lanes(self, channel: str, account: str) -> Sequence[Address]:
        """Return the addresses of an account for which parts are due or being sent."""
        ...

    async def begin_sending(self, address: Address, owner: str, *, may_send: bool) -> Delivery | None:
        """Return the oldest open part of a lane, made durable as SENDING by `owner`; None when there is none.

        A part with a `due_at` in the future is returned unchanged, as DUE. A part that was already SENDING has
        an attempt without a recorded end; it is returned as it was, marked `stale`. Without `may_send`
        nothing changes and the part is returned as it stands. Previews are never returned.
        """
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """Record what became of attempts. A part that is settled already keeps its first outcome."""
        ...

    async def open_preview(self, turn: ClaimedTurn, draft: Draft) -> int:
        """Record that a preview of this turn's answer is about to be sent; returns its row id."""
        ...

    async def troubled(self, limit: int) -> Sequence[Delivery]:
        """Return parts that ended UNKNOWN, DEAD or EXPIRED and were not reported yet."""
        ...

    async def report(self, deliveries: Sequence[int], drafts: Sequence[Draft]) -> None:
        """Mark parts as reported and queue the report, together."""
        ...


class PeopleStore(Protocol):
    """Who may talk to us."""

    async def pairing_requests(self) -> Sequence[PairingRequest]:
        """Return requests that have not expired."""
        ...

    async def approve_pairing(
        self, channel: str, code: str, *, may_own: bool
    ) -> tuple[PairingRequest, Address, bool] | None:
        """Admit the sender of a request; returns it with its chat, or None when no such request is pending.

        With `may_own` and no owner recorded, the sender becomes the owner; the bool tells whether it did.
        """
        ...

    async def reject_pairing(self, channel: str, code: str) -> PairingRequest | None:
        """Forget a request and return it; None when there is none."""
        ...

    async def allowed_senders(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """Return the admitted sender ids per (channel, account)."""
        ...

    async def owners(self) -> frozenset[str]:
        """Return owner identities (`channel:sender id`) that were bootstrapped by pairing."""
        ...

    async def note_contact(self, identity: str, address: Address) -> None:
        """Remember the direct chat of an owner, for notices."""
        ...

    async def contacts(self) -> Mapping[str, Address]:
        """Return the remembered direct chats per identity."""
        ...


class CooldownStore(Protocol):
    """Which model keys rest, and until when."""

    async def load_cooldowns(self) -> Sequence[tuple[str, str, str, int, int, str]]:
        """Return rows of provider, model, credential, until (microseconds UTC), failures, reason."""
        ...

    async def put_cooldown(
        self, provider: str, model: str, credential: str, until: int, failures: int, reason: str
    ) -> None:
        """Store one; `until` 0 forgets it."""
        ...


class ReadStore(Protocol):
    """What people look at."""

    async def sessions(self, limit: int) -> Sequence[SessionSummary]:
        """Return the sessions, the most recently used first."""
        ...

    async def session(self, key: str) -> SessionSummary | None:
        """Return one session."""
        ...

    async def conversations(self, key: str, limit: int) -> Sequence[ConversationSummary]:
        """Return the conversations of a session, the newest first."""
        ...

    async def transcript(self, conversation: str, limit: int) -> Sequence[HistoryRow]:
        """Return the last messages of a conversation, oldest first."""
        ...

    async def deliveries(self, states: Sequence[DeliveryState], since: int, limit: int) -> Sequence[Delivery]:
        """Return parts in one of these states that were written at `since` or later, the newest first.

        Previews count only where it is not known whether one is left behind.
        """
        ...

    async def delivery(self, number: int) -> Delivery | None:
        """Return one part."""
        ...

    async def totals(self) -> Totals:
        """Return counts for `status`."""
        ...

    async def session_settings(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the settings of every session that has any, by key."""
        ...


class Store(
    EventStore,
    TurnStore,
    DeliveryStore,
    PeopleStore,
    CooldownStore,
    ReadStore,
    OperatorStore,
    DeviceStore,
    IdempotencyStore,
    AttemptStore,
    Protocol,
):
    """Everything; callers ask for the small protocols."""

    async def open(self) -> None:
        """Open the store. Raises StoreCorrupt or StoreUnavailable."""
        ...

    async def close(self) -> None:
        """Finish pending writes and close."""
        ...

    def statistics(self) -> Mapping[str, Any]:
        """Return figures about the store itself, for `status`."""
        ...
