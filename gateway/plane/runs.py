"""The runs that clients know by their ids: what was asked, how far it is, what came of it.

An id is the key that a client chose for a request, and stands for one request of one session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from tidegate.gateway.plane.contract import Code, RpcError

ABORTED = "This operation was aborted"
"""What the protocol says of a run that was stopped."""
MAX_RUNS = 500
"""Runs that are remembered, with what they said; the oldest ended ones are forgotten first."""
MAX_AWAITED = 2_000
"""Ids of runs that nobody has asked for yet and somebody waits for."""
KEEP_MS = 5 * 60_000
"""How long an ended run is known at least, while there is room."""


class RunKind(StrEnum):
    """Who began a run."""

    CHAT = "chat"
    AGENT = "agent"
    WATCHED = "watched"
    """Somebody on another channel."""


class RunState(StrEnum):
    """How far a run is."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(slots=True)
class Run:
    """One run. Times are milliseconds UTC.

    Attributes:
        id: What clients call it: the key of the request that began it, else the turn's own id.
        seq: Number of its newest event.
        before: What earlier messages of this run said.
        parts: What the present message says so far, as it came.
        shown: As much of it as clients were told.
        due: Tells the text that came since `told_at`, on the loop's clock.
        joined: Ids of requests that this run answers besides its own.
        status: ok, error, aborted or timeout, once it ended.
        unwritten: Of a run that was stopped, what stands in no transcript yet.
    """

    id: str
    session: str
    agent: str
    kind: RunKind
    order: int
    asked_at: int
    state: RunState = RunState.WAITING
    turn: str = ""
    conversation: str = ""
    model: str = ""
    seq: int = 0
    number: int = 0
    before: str = ""
    parts: list[str] = field(default_factory=list)
    shown: str = ""
    called: bool = False
    due: asyncio.TimerHandle | None = None
    told_at: float = 0.0
    joined: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    started_at: int = 0
    ended_at: int = 0
    status: str = ""
    stop_reason: str = ""
    text: str = ""
    unwritten: str = ""
    error: str = ""
    error_kind: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def provider(self) -> tuple[str, str]:
        """Return provider and model."""
        provider, _, model = self.model.partition("/")
        return provider, model

    def whole(self, message: str) -> str:
        """Return what the run said, with `message` as its newest part."""
        return "\n\n".join(text for text in (self.before, message) if text)


@dataclass(slots=True)
class _Awaited:
    """A run that is waited for before it is made."""

    waiting: int = 0
    come: asyncio.Event = field(default_factory=asyncio.Event)


class Runs:
    """All runs that are known, by id."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], Run] = {}
        self._turns: dict[str, Run] = {}
        self._awaited: dict[str, _Awaited] = {}
        self._count = 0

    def get(self, session: str, run: str) -> Run | None:
        """Return a run of a session."""
        return self._runs.get((session, run))

    def find(self, run: str) -> Run | None:
        """Return a run by its id alone: the newest one, should several sessions have one of that id."""
        return next((found for found in reversed(self._runs.values()) if found.id == run), None)

    def of_turn(self, turn: str) -> Run | None:
        """Return the run that a turn carries out."""
        return self._turns.get(turn)

    def add(self, run: str, session: str, agent: str, kind: RunKind, now: int) -> Run:
        """Make a run that waits; its session must have none of this id."""
        self._forget(now)
        self._count += 1
        made = Run(run, session, agent, kind, self._count, now)
        self._runs[session, run] = made
        if run in self._awaited:
            self._awaited.pop(run).come.set()
        return made

    def begin(self, run: Run, turn: str) -> None:
        """Note which turn carries a run out."""
        self._turns.pop(run.turn, None)
        run.turn, run.state = turn, RunState.RUNNING
        self._turns[turn] = run

    def drop(self, run: Run) -> None:
        """Forget a run."""
        self._runs.pop((run.session, run.id), None)
        self._turns.pop(run.turn, None)

    def of_session(self, session: str, *states: RunState) -> list[Run]:
        """Return the runs of a session in one of these states, oldest first."""
        return [run for run in self._runs.values() if run.session == session and run.state in states]

    def active(self, session: str) -> list[str]:
        """Return the ids of the runs of a session that run."""
        return [run.id for run in self.of_session(session, RunState.RUNNING)]

    def sessions(self, states: Iterable[RunState] = (RunState.RUNNING,)) -> set[str]:
        """Return the keys of sessions with a run in one of these states."""
        wanted = set(states)
        return {run.session for run in self._runs.values() if run.state in wanted}

    async def ended(self, run: str, seconds: float | None, session: str = "") -> Run | None:
        """Return a run once it has ended; None when that takes too long, also when nobody ever asks for it.

        Args:
            session: Of this session; without it the newest one of any.

        Raises:
            RpcError: It is not known, and too many others are waited for.
        """
        try:
            async with asyncio.timeout(seconds):
                while (found := self.get(session, run) if session else self.find(run)) is None:
                    await self._come(run)
                await found.ended.wait()
                return found
        except TimeoutError:
            return None

    async def _come(self, run: str) -> None:
        """Wait until a run of this id is made."""
        awaited = self._awaited.get(run)
        if awaited is None:
            if len(self._awaited) >= MAX_AWAITED:
                text = "too many runs that nobody knows are waited for; try again in a moment"
                raise RpcError(Code.UNAVAILABLE, text, retryable=True)
            awaited = self._awaited[run] = _Awaited()
        awaited.waiting += 1
        try:
            await awaited.come.wait()
        finally:
            awaited.waiting -= 1
            if not awaited.waiting and self._awaited.get(run) is awaited:
                del self._awaited[run]

    def _forget(self, now: int) -> None:
        for run in list(self._runs.values()):
            if run.state is not RunState.ENDED:
                continue
            if len(self._runs) < MAX_RUNS // 2 or (run.ended_at > now - KEEP_MS and len(self._runs) < MAX_RUNS):
                break
            self.drop(run)
