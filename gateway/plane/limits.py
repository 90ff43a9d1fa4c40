"""Limits on wrong secrets, shared by HTTP and WebSocket, and the budget of control-plane writes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import StrEnum

import structlog

from tidegate.clock import SECOND, Clock
from tidegate.errors import StoreError
from tidegate.gateway.plane.contract import Code, RpcError
from tidegate.sessions.devices import Attempts, AttemptStore

MAX_REMEMBERED = 10_000
"""Addresses whose failures are remembered; the ones unused for longest are forgotten first."""
MAX_WAIT = 15.0
"""Seconds that an answer is delayed at most, however many stand in line."""
MAX_TIMES = 64
"""Wrong secrets of one address whose times are remembered."""
MAX_ADDRESS = 64
MAX_DELAYED = 32
"""Wrong secrets of one kind from this machine that wait for their answer before all secrets are looked at late."""


log = structlog.get_logger("plane")


class SecretKind(StrEnum):
    """What was wrong; each kind has its own count."""

    SHARED = "shared"
    DEVICE = "device"
    BOOTSTRAP = "bootstrap"
    HOOK = "hook"


@dataclass(frozen=True, slots=True)
class AttemptRules:
    """How many wrong secrets are borne.

    Attributes:
        local_delay: Seconds by which the first wrong secret from this machine is answered late; doubles up to
            `local_delay_max`. This machine is never locked out, so that nobody can keep the operator out.
    """

    max_attempts: int = 10
    window: float = 60.0
    lockout: float = 300.0
    exempt_loopback: bool = True
    local_delay: float = 0.25
    local_delay_max: float = 5.0


@dataclass(slots=True)
class _Record:
    failures: list[float] = field(default_factory=list)
    locked_until: float = 0.0
    answer_at: float = 0.0
    waiting: int = 0


class AttemptLimiter:
    """Counts wrong secrets per client address and kind.

    Args:
        store: Keeps the counts over a restart; without it they end with the process.
    """

    def __init__(self, clock: Clock, rules: AttemptRules, store: AttemptStore | None = None) -> None:
        self._clock = clock
        self._store = store
        self.rules = rules
        self._records: OrderedDict[tuple[str, SecretKind], _Record] = OrderedDict()

    async def load(self) -> None:
        """Take up the counts of an earlier process. Raises StoreError."""
        if self._store is None:
            return
        now, wall = self._clock.monotonic(), self._clock.now()
        for row in reversed(await self._store.attempts()):
            if row.kind not in set(SecretKind):
                continue
            # A clock that was put back must not lock anybody out for longer than the rules say.
            left = min((row.locked_until - wall) / SECOND, max(self.rules.lockout, self.rules.window))
            failures = [now - max(0.0, (wall - at) / SECOND) for at in row.failures[-MAX_TIMES:]]
            record = _Record(failures, now + left if left > 0 else 0.0)
            self._records[row.address, SecretKind(row.kind)] = record

    def seconds_locked(self, ip: str, kind: SecretKind) -> float:
        """Return for how long no secret of this kind is looked at; 0 when it is."""
        record = self._records.get((ip, kind))
        if record is None:
            return 0.0
        return max(0.0, record.locked_until - self._clock.monotonic())

    async def take_turn(self, ip: str, kind: SecretKind) -> None:
        """Wait before a secret is looked at, where many wrong ones wait already; the right one is then still taken."""
        record = self._records.get((ip, kind))
        if record is not None and record.waiting >= MAX_DELAYED:
            await asyncio.sleep(self.rules.local_delay_max)

    async def failed(self, ip: str, kind: SecretKind, *, is_local: bool) -> None:
        """Count a wrong secret. From this machine the answer is delayed; elsewhere the address may be locked out."""
        now, rules = self._clock.monotonic(), self.rules
        record = self._records.setdefault((ip, kind), _Record())
        self._records.move_to_end((ip, kind))
        while len(self._records) > MAX_REMEMBERED:
            self._records.popitem(last=False)
        record.failures = [*[at for at in record.failures if now - at < rules.window][-MAX_TIMES:], now]
        if not (is_local and rules.exempt_loopback):
            if len(record.failures) >= rules.max_attempts:
                record.locked_until = now + (rules.lockout or rules.window)
            await self._keep(ip, kind, record)
            return
        delay = min(rules.local_delay * 2 ** (len(record.failures) - 1), rules.local_delay_max)
        # Answers stand in one line: trying many at a time gains nothing.
        record.answer_at = max(record.answer_at, now) + delay
        record.waiting += 1
        try:
            await self._keep(ip, kind, record)
            await asyncio.sleep(min(record.answer_at - now, MAX_WAIT))
        finally:
            record.waiting -= 1

    async def _keep(self, ip: str, kind: SecretKind, record: _Record) -> None:
        """Make a count durable. One that cannot be is still a count: nobody comes in more easily for that."""
        if self._store is None:
            return
        now, wall = self._clock.monotonic(), self._clock.now()
        failures = tuple(wall - int((now - at) * SECOND) for at in record.failures)
        locked = wall + int((record.locked_until - now) * SECOND) if record.locked_until > now else 0
        oldest = wall - int((self.rules.window + self.rules.lockout) * SECOND)
        try:
            await self._store.put_attempts(Attempts(ip[:MAX_ADDRESS], kind.value, failures, locked, wall), oldest)
        except StoreError as error:
            log.warning("plane.attempt_not_kept", reason=str(error))

    async def succeeded(self, ip: str, kind: SecretKind) -> None:
        """Forget the failures of an address that showed the right secret."""
        record = self._records.get((ip, kind))
        if record is None or record.waiting:
            return
        del self._records[(ip, kind)]
        if self._store is not None:
            try:
                await self._store.forget_attempts(ip[:MAX_ADDRESS], kind.value)
            except StoreError as error:
                log.warning("plane.attempt_not_forgotten", reason=str(error))


class WriteBudget:
    """Control-plane writes: 30 in 60 seconds a caller, over all its connections."""

    LIMIT = 30
    SECONDS = 60.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent: OrderedDict[str, list[float]] = OrderedDict()

    def spend(self, caller: str, method: str) -> None:
        """Count a write. Raises RpcError UNAVAILABLE, with the time to wait, when the budget is spent."""
        now = self._clock.monotonic()
        recent = [at for at in self._spent.get(caller, []) if now - at < self.SECONDS]
        if len(recent) >= self.LIMIT:
            wait = self.SECONDS - (now - recent[0])
            raise RpcError(
                Code.UNAVAILABLE,
                f"rate limit exceeded for {method}; retry after {max(1, round(wait))}s",
                retryable=True,
                retry_after_ms=max(1, int(wait * 1000)),
            )
        self._spent[caller] = [*recent, now]
        self._spent.move_to_end(caller)
        while len(self._spent) > MAX_REMEMBERED:
            self._spent.popitem(last=False)
