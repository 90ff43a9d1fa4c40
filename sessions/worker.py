"""Runs the sessions: one worker for each session in which something waits, the holder of its lease.

A worker claims a turn, waits for a place in the global lane, runs the turn and commits its end. It ends when
nothing waits, so an idle session costs no memory. Order of acquisition is always session first, global lane
second; the lane is first come, first served, so that one busy session never starves another.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

import structlog

from tidegate.clock import SECOND, Clock
from tidegate.errors import LeaseLost, StoreError
from tidegate.sessions.model import ClaimedTurn, ClaimRules, Finish, Lease, NotYet, TurnState
from tidegate.sessions.store import TurnStore
from tidegate.sessions.wakeups import LANES, SESSIONS, STOPPED, Wakeups

SWEEP_SECONDS = 1.0
"""How often the store is asked for sessions whose hint was lost."""
LEASE_SECONDS = 60.0
EXTEND_SECONDS = 20.0
RELEASE_SECONDS = 3.0
"""How long giving all leases back may take at the end."""
BROKEN_SECONDS = 60
"""How long a session that cannot be claimed at all is left alone."""
MAX_BACKLOG = 10_000

log = structlog.get_logger("sessions")

RunTurn = Callable[[ClaimedTurn], Awaitable[Finish]]
"""Runs a claimed turn to its end. Raises LeaseLost when the turn was ended from outside."""
FailTurn = Callable[[ClaimedTurn, BaseException], Finish]
"""Makes the end of a turn whose run failed unexpectedly."""
EndedTurn = Callable[[ClaimedTurn, Finish | None], None]
"""Hears that the end of a turn is durable, or with None that it was ended from outside before; returns at once."""


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """A snapshot: sessions with a worker, turns that run, sessions that wait for a worker."""

    active: int
    running: int
    backlog: int


class SessionWorkers:
    """Owns the worker tasks of this process.

    Args:
        owner: This process's boot id, under which leases are taken.
        rules: The pure decisions of a claim, for one session key.
        max_concurrent: Most turns that run at once.
    """

    def __init__(
        self,
        store: TurnStore,
        wakeups: Wakeups,
        clock: Clock,
        *,
        owner: str,
        rules: Callable[[str], ClaimRules],
        run: RunTurn,
        fail: FailTurn,
        max_concurrent: int,
        ended: EndedTurn | None = None,
    ) -> None:
        self._store = store
        self._wakeups = wakeups
        self._clock = clock
        self._owner = owner
        self._rules = rules
        self._run_turn = run
        self._fail_turn = fail
        self._tell_ended = ended or (lambda _turn, _end: None)
        self._lane = asyncio.Semaphore(max_concurrent)
        # Workers that wait for the lane hold a loaded history; twice the lane keeps it busy and memory bounded.
        self._max_active = 2 * max_concurrent
        self._active: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._stopped: set[str] = set()
        self._turns: dict[str, Lease] = {}
        self._backlog: OrderedDict[str, None] = OrderedDict()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._group: asyncio.TaskGroup | None = None
        self._draining = False
        self._idle = asyncio.Event()
        self._idle.set()

    def stats(self) -> WorkerStats:
        """Return the present counts."""
        return WorkerStats(len(self._active), len(self._turns), len(self._backlog))

    def is_running(self, key: str) -> bool:
        """Tell whether a turn of this session runs here."""
        return key in self._turns

    async def run(self) -> None:
        """Work until cancelled; then every running turn is cancelled and every lease given back."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._listen(), name="sessions.listen")
                group.create_task(self._listen_stopped(), name="sessions.stopped")
                group.create_task(self._sweep(), name="sessions.sweep")
                group.create_task(self._extend(), name="sessions.extend")
                try:
                    # Waiting here and not at the end of the group: a cancellation arrives here first, so that no
                    # worker is started in a group that is about to end.
                    await asyncio.Event().wait()
                finally:
                    self._group = None
        finally:
            self._group = None
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()
            self._again.clear()
            self._backlog.clear()
            # A worker that was cancelled before its first step never came to take itself off the list.
            self._active.clear()
            self._idle.set()
            await self._release_all()

    async def _release_all(self) -> None:
        """Give back every lease, also one whose claim was under way when its worker was cancelled."""
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                await self._store.release(self._owner)
        except (StoreError, TimeoutError) as error:
            # The next boot takes the turns anyway: their owner is no longer alive.
            log.warning("sessions.release_failed", error=str(error))

    async def drain(self, seconds: float) -> bool:
        """Take no new turns and wait for the running ones; True when all ended in time."""
        self._draining = True
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def _listen(self) -> None:
        async for keys in self._wakeups.listen(SESSIONS):
            for key in keys:
                self.wake(str(key))

    async def _listen_stopped(self) -> None:
        async for ended in self._wakeups.listen(STOPPED):
            for item in ended:
                key, fence = cast("tuple[str, int]", item)
                self._cancel(key, fence)

    def _cancel(self, key: str, fence: int) -> None:
        """Cancel the run of a turn that was ended in the store, unless a newer one runs already."""
        lease, task = self._turns.get(key), self._active.get(key)
        if lease is not None and task is not None and lease.fence <= fence:
            self._stopped.add(key)
            self._again.add(key)
            task.cancel()

    async def _sweep(self) -> None:
        while True:
            try:
                for key in await self._store.waiting_sessions():
                    if key not in self._active and key not in self._timers:
                        self.wake(key)
            except StoreError as error:
                log.error("sessions.sweep_failed", error=str(error))
            await asyncio.sleep(SWEEP_SECONDS)

    async def _extend(self) -> None:
        while True:
            await asyncio.sleep(EXTEND_SECONDS)
            leases = list(self._turns.values())
            if not leases:
                continue
            try:
                for lease in await self._store.extend(leases, LEASE_SECONDS):
                    self._cancel(lease.key, lease.fence)
            except StoreError as error:
                log.error("sessions.extend_failed", error=str(error))

    def wake(self, key: str) -> None:
        """See that a worker looks at the session; a hint, so it may do nothing."""
        if self._draining or self._group is None:
            return
        if key in self._active:
            self._again.add(key)
        elif len(self._active) < self._max_active:
            self._backlog.pop(key, None)
            self._idle.clear()
            self._active[key] = self._group.create_task(self._work(key), name=f"session:{key}")
        elif len(self._backlog) < MAX_BACKLOG:
            self._backlog[key] = None

    async def _work(self, key: str) -> None:
        try:
            while not self._draining:
                self._again.discard(key)
                if not await self._step(key) and key not in self._again:
                    return
                if self._backlog:
                    # Others wait for a worker: go to the back of the line.
                    self._again.add(key)
                    return
        except asyncio.CancelledError:
            if key not in self._stopped:
                # The group ends; nothing may be started in it any more.
                self._group = None
            if self._group is None:
                raise
            # Only this run was stopped, not the process: the worker ends here and is started anew below.
        finally:
            self._ended(key)

    def _ended(self, key: str) -> None:
        self._active.pop(key, None)
        self._stopped.discard(key)
        if key in self._again:
            self._again.discard(key)
            if len(self._backlog) < MAX_BACKLOG:
                self._backlog[key] = None
        if self._backlog:
            self.wake(next(iter(self._backlog)))
        if not self._active:
            self._idle.set()

    async def _step(self, key: str) -> bool:
        """Claim and run one turn; False when nothing is to be done now."""
        claimed = await self._claim(key)
        if claimed is None:
            return False
        if isinstance(claimed, NotYet):
            self._wake_at(key, claimed.at)
            return False
        self._turns[key] = claimed.lease
        try:
            async with self._lane:
                return await self._run_claimed(claimed)
        finally:
            self._turns.pop(key, None)

    async def _claim(self, key: str) -> ClaimedTurn | NotYet | None:
        """Claim a session's next turn. A session whose stored messages break the rules must not stop the others."""
        try:
            return await self._store.claim(key, self._owner, self._rules(key))
        except StoreError as error:
            log.error("session.claim_failed", session=key, error=str(error))
            return None
        except Exception:
            log.exception("session.claim_broken", session=key)
            return NotYet(self._clock.now() + BROKEN_SECONDS * SECOND)

    async def _run_claimed(self, turn: ClaimedTurn) -> bool:
        """Run a turn and commit its end. This is the named boundary at which a broken turn stops."""
        try:
            end = await self._run_turn(turn)
        except LeaseLost:
            return True
        except Exception as error:
            log.exception("turn.failed", session=turn.lease.key, run=turn.run_id)
            end = self._failed(turn, error)
        try:
            more = await self._store.finish(turn, end)
        except LeaseLost:
            self._tell_ended(turn, None)
            return True
        except Exception:
            # The lease is not given back: the turn is taken again by the sweep, and this attempt counts, so that a
            # turn whose end cannot be stored does not ask the model for ever.
            log.exception("turn.finish_failed", session=turn.lease.key, run=turn.run_id)
            return False
        self._tell_ended(turn, end)
        self._wakeups.announce(LANES, {draft.address for draft in end.drafts})
        return more

    def _failed(self, turn: ClaimedTurn, error: Exception) -> Finish:
        try:
            return self._fail_turn(turn, error)
        except Exception:
            log.exception("turn.failure_broken", session=turn.lease.key, run=turn.run_id)
            return Finish((), (), TurnState.FAILED, reason="internal")

    def _wake_at(self, key: str, instant: int) -> None:
        delay = max(0.0, (instant - self._clock.now()) / SECOND)
        previous = self._timers.pop(key, None)
        if previous is not None:
            previous.cancel()

        def wake() -> None:
            self._timers.pop(key, None)
            self.wake(key)

        self._timers[key] = asyncio.get_running_loop().call_later(delay, wake)
