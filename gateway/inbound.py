"""The main flow's first half: judge each event, make all of them durable, then tell who works on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from tidegate.errors import StoreError
from tidegate.events import Address, MessageEvent, PeerKind
from tidegate.gateway.admission import Judge
from tidegate.gateway.bus import EventBus, Fact
from tidegate.sessions.model import (
    Appended,
    AppendStatus,
    CursorUpdate,
    Enqueue,
    EventState,
    NewEvent,
    Record,
)
from tidegate.sessions.store import EventStore, PeopleStore
from tidegate.sessions.wakeups import COMMANDS, LANES, SESSIONS, STOPPED, Wakeups

MAX_NOTES = 50
"""Notes that wait for the next message of a session; older ones are dropped."""

log = structlog.get_logger("inbound")


class Inbound:
    """Takes events from every channel. Returns only when they are durable: that is the back-pressure to a platform."""

    def __init__(
        self,
        store: EventStore,
        people: PeopleStore,
        wakeups: Wakeups,
        bus: EventBus,
        judge: Callable[[], Judge],
    ) -> None:
        self._store = store
        self._people = people
        self._wakeups = wakeups
        self._bus = bus
        self._judge = judge
        self._contacts: dict[str, Address] = {}

    async def receive(self, events: Sequence[MessageEvent], cursor: CursorUpdate | None = None) -> Sequence[Appended]:
        """Decide about platform events and make them durable, with the cursor.

        Raises:
            StoreError: Nothing was stored; the platform must not hear that we have the events.
        """
        judge = self._judge()
        judged, answers = await self._take([self._judge_one(judge, event) for event in events], cursor)
        await self._note_owner(judge, judged)
        return answers

    async def receive_for(
        self, event: MessageEvent, key: str, agent: str, *, commands: bool = True, owner: bool = True
    ) -> Appended:
        """Make what is said into a named session durable; see `Judge.judge_for`. Raises StoreError."""
        judged = [self._judge().judge_for(event, key, agent, commands=commands, owner=owner)]
        return (await self._take(judged, None))[1][0]

    async def note_for(self, event: MessageEvent, key: str, agent: str) -> None:
        """Store what the agent of a session is to be told with the next message there. Raises StoreError."""
        record = Record(EventState.CONTEXT, "system event", key, agent, is_owner=True, keep=MAX_NOTES)
        await self._take([NewEvent(event, record)], None)

    async def _take(
        self, judged: list[NewEvent], cursor: CursorUpdate | None
    ) -> tuple[list[NewEvent], Sequence[Appended]]:
        try:
            answers = await self._store.append_events(judged, cursor)
        except StoreError:
            raise
        except Exception:
            log.exception("events.not_appended", events=len(judged))
            judged, answers = await self._append_singly(judged, cursor)
        self._announce(judged, answers)
        return judged, answers

    def _judge_one(self, judge: Judge, event: MessageEvent) -> NewEvent:
        """Judge one event. A named boundary: an event that breaks the rules must not block its channel for ever."""
        try:
            return judge.judge(event)
        except Exception:
            log.exception("event.not_judged", lane=str(event.address), update=event.event_id)
            return NewEvent(event, Record(EventState.FAILED, "internal"))

    async def _append_singly(
        self, judged: Sequence[NewEvent], cursor: CursorUpdate | None
    ) -> tuple[list[NewEvent], list[Appended]]:
        """Store events one by one, so that one which cannot be stored as judged does not keep the others out.

        It is recorded as failed instead: unacknowledged it would come again for ever.
        """
        kept: list[NewEvent] = []
        answers: list[Appended] = []
        for item in judged:
            try:
                answers += await self._store.append_events([item])
            except StoreError:
                raise
            except Exception:
                log.exception("event.not_appended", lane=str(item.event.address), update=item.event.event_id)
                item = NewEvent(item.event, Record(EventState.FAILED, "internal"))
                answers += await self._store.append_events([item])
            kept.append(item)
        if cursor is not None:
            await self._store.append_events([], cursor)
        return kept, answers

    def _announce(self, judged: Sequence[NewEvent], answers: Sequence[Appended]) -> None:
        sessions, lanes = set(), set()
        commands = False
        for item, answer in zip(judged, answers, strict=True):
            if answer.status is AppendStatus.DUPLICATE:
                log.info("event.duplicate", lane=str(item.event.address), update=item.event.event_id)
                continue
            if answer.stopped:
                self._wakeups.announce(STOPPED, answer.stopped)
                lanes.add(item.event.address)
            verdict = item.verdict
            if isinstance(verdict, Enqueue):
                sessions.add(verdict.session_key)
                if answer.status is AppendStatus.REFUSED:
                    lanes.add(item.event.address)
            else:
                commands = commands or verdict.state is EventState.COMMAND
                if verdict.drafts:
                    lanes.add(item.event.address)
                self._tell_denied(item.event, verdict)
        if sessions:
            self._wakeups.announce(SESSIONS, sessions)
        if commands:
            self._wakeups.announce(COMMANDS, [""])
        if lanes:
            self._wakeups.announce(LANES, lanes)

    def _tell_denied(self, event: MessageEvent, verdict: Record) -> None:
        if verdict.state in (EventState.DENIED, EventState.PAIRING, EventState.UNROUTED):
            log.info(f"event.{verdict.state.value}", lane=str(event.address), reason=verdict.reason)
            if self._bus.is_watched:
                data = {"lane": str(event.address), "reason": verdict.reason}
                self._bus.publish(Fact(f"event.{verdict.state.value}", data=data))

    async def _note_owner(self, judge: Judge, judged: Sequence[NewEvent]) -> None:
        """Remember where the owner can be told things, from the owner's own direct messages."""
        for item in judged:
            event = item.event
            if event.peer.kind is not PeerKind.DIRECT or not getattr(item.verdict, "is_owner", False):
                continue
            identity = f"{event.address.channel}:{event.sender.id}"
            if self._contacts.get(identity) != event.address and judge.owns(event):
                await self._people.note_contact(identity, event.address)
                self._contacts[identity] = event.address
