"""What the contract tests of the store share: a store on a manual clock, and short ways to say things to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tidegate.clock import ManualClock
from tidegate.events import Address, MessageEvent, Peer, PeerKind, Sender
from tidegate.faults import Faults
from tidegate.sessions.memory.store import MemoryStore
from tidegate.sessions.model import (
    Appended,
    ClaimedTurn,
    ClaimRules,
    DeliveryKind,
    DeliveryState,
    Draft,
    Enqueue,
    EventState,
    Finish,
    NewEvent,
    Overflow,
    QueuedEvent,
    QueueRule,
    Record,
    SessionFacts,
    Settlement,
    TurnPlan,
    UserText,
)
from tidegate.sessions.sqlite.store import SqliteStore
from tidegate.sessions.store import Store

KINDS = ("sqlite", "memory")
KEY = "agent:main:main"
HERE = Address("telegram", "default", "chat")
THERE = Address("discord", "default", "elsewhere")
START = 1_800_000_000 * 1_000_000


class World:
    """A store, its clock, and the process that uses it (`owner`)."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.clock = ManualClock(START)
        self.owner = "boot-1"
        self.path = directory / "state.db"
        self.store: Store = self._build()
        self._boots = 1
        self._sent = 0

    def _build(self) -> Store:
        if self.kind == "sqlite":
            return SqliteStore(self.path, self.clock, Faults())
        return MemoryStore(self.clock)

    async def __aenter__(self) -> Self:
        await self.store.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.store.close()

    async def restart(self) -> None:
        """Go on as a new process on the same state, after a crash."""
        await self.store.close()
        if self.kind == "sqlite":
            self.store = self._build()
        self._boots += 1
        self.owner = f"boot-{self._boots}"
        await self.store.open()

    def message(self, text: str = "", *, sender: str = "ann", address: Address = HERE, **fields: Any) -> MessageEvent:
        """Return a message that was never seen before."""
        self._sent += 1
        number = str(self._sent)
        return MessageEvent(
            address=address,
            peer=Peer(PeerKind.DIRECT, sender),
            sender=Sender(sender),
            message_id=fields.pop("message_id", number),
            text=text or f"text {number}",
            event_id=fields.pop("event_id", f"update {number}"),
            received_at=self.clock.now(),
            **fields,
        )

    def queued(
        self, text: str = "", *, key: str = KEY, is_owner: bool = True, rule: QueueRule | None = None, **fields: Any
    ) -> NewEvent:
        """Return a new message for a session."""
        return waiting(self.message(text, **fields), key=key, is_owner=is_owner, rule=rule)

    async def say(self, text: str = "", **fields: Any) -> Appended:
        """Store a new message for a session."""
        return (await self.store.append_events([self.queued(text, **fields)]))[0]

    async def command(self, text: str = "/stop", key: str = KEY) -> int:
        """Store a command and return its row id."""
        record = Record(EventState.COMMAND, session_key=key, agent="main", is_owner=True)
        return (await self.store.append_events([NewEvent(self.message(text), record)]))[0].event_id

    async def claim(self, key: str = KEY, rules: ClaimRules | None = None) -> ClaimedTurn:
        """Claim a turn that is there."""
        claimed = await self.store.claim(key, self.owner, rules or RULES)
        assert isinstance(claimed, ClaimedTurn), claimed
        return claimed

    async def answer(self, turn: ClaimedTurn, text: str = "answer") -> bool:
        """Finish a turn with one part of text."""
        return await self.store.finish(turn, end(turn, text))

    async def notices(self, address: Address = HERE) -> list[str]:
        """Send what is due in a chat and return what it said."""
        said = []
        while (part := await self.store.begin_sending(address, self.owner, may_send=True)) is not None:
            if part.state.value == "due":
                break
            said.append(part.payload["body"])
            await self.store.settle([sent(part.id)])
        return said

    async def state_counts(self) -> dict[str, int]:
        """Return the number of events in each state."""
        return dict((await self.store.totals()).events)


def waiting(event: MessageEvent, *, key: str = KEY, is_owner: bool = True, rule: QueueRule | None = None) -> NewEvent:
    """Return an event with the verdict that it waits in a session."""
    verdict = Enqueue(
        key,
        "main",
        rule or QueueRule(),
        is_owner,
        set_aside_notice=lambda count: draft(f"set aside {count}", event.address, DeliveryKind.NOTICE),
        full_notice=lambda dropped: draft(f"full: {dropped.text}", dropped.address, DeliveryKind.NOTICE),
    )
    return NewEvent(event, verdict)


def draft(body: str, address: Address = HERE, kind: DeliveryKind = DeliveryKind.REPLY, due_at: int = 0) -> Draft:
    """Return an outgoing part of text."""
    return Draft(address, {"body": body}, kind, due_at)


def sent(delivery: int, platform_id: str = "") -> Settlement:
    """Return the settlement of a part that arrived."""
    return Settlement(delivery, DeliveryState.SENT, platform_id or f"p{delivery}")


def end(turn: ClaimedTurn, text: str = "answer", **fields: Any) -> Finish:
    """Return the end of a turn with one part of text for its address."""
    return Finish((body(text),), (draft(text, turn.reply_event.address),), **fields)


def body(text: str) -> str:
    """Return the transcript body of a text."""
    return json.dumps({"t": text})


def texts(turn: ClaimedTurn) -> list[str]:
    """Return what the transcript of a turn says."""
    return [json.loads(row.body)["t"] for row in turn.history]


def plan(waiting: Sequence[QueuedEvent], talk: Sequence[MessageEvent], overflow: Overflow) -> TurnPlan:
    """Plan as the gateway does, in few words: collect takes the leading place, interrupt the newest message."""
    mode = waiting[-1].mode
    size, set_aside = 1, 0
    if mode == "interrupt":
        size, set_aside = len(waiting), len(waiting) - 1
        while set_aside and waiting[set_aside].joins:
            set_aside -= 1
    elif mode == "collect":
        while size < len(waiting) and waiting[size].event.address == waiting[0].event.address:
            size += 1
    else:
        while size < len(waiting) and waiting[size].joins:
            size += 1
    said = [item.event.text for item in waiting[set_aside:size]]
    before = [f"left out {overflow.count}: {', '.join(overflow.texts)}"] if overflow.count else []
    heard = [f"heard: {event.text}" for event in talk]
    return TurnPlan(size, set_aside, tuple(UserText(text) for text in [*before, *heard, "\n".join(said)]))


def never_stale(facts: SessionFacts, now: int) -> str | None:
    """Keep every conversation for ever."""
    return None


RULES = ClaimRules(plan=plan, stale=never_stale, encode=lambda text: body(text.text))


def stale_after(seconds: float) -> ClaimRules:
    """Return rules under which a conversation ends some time after it was begun or resumed."""

    def stale(facts: SessionFacts, now: int) -> str | None:
        return "daily" if now - facts.started_at > seconds * 1_000_000 else None

    return replace(RULES, stale=stale)
