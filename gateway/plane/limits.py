"""Limits on wrong secrets, shared by HTTP and WebSocket, and the budget of control-plane writes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import StrEnum

from tidegate.clock import Clock
from tidegate.gateway.plane.contract import Code, RpcError

MAX_REMEMBERED = 10_000
"""Addresses whose failures are remembered; the ones unused for longest are forgotten first."""
MAX_WAIT = 15.0
"""Seconds that an answer is delayed at most, however many stand in line."""
MAX_DELAYED = 32
"""Wrong secrets of one local kind that may wait for their answer at a time."""


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
    """Counts wrong secrets per client address and kind."""

    def __init__(self, clock: Clock, rules: AttemptRules) -> None:
        self._clock = clock
        self.rules = rules
        self._records: OrderedDict[tuple[str, SecretKind], _Record] = OrderedDict()

    def seconds_locked(self, ip: str, kind: SecretKind) -> float:
        """Return for how long no secret of this kind is looked at; 0 when it is."""
        record = self._records.get((ip, kind))
        if record is None:
            return 0.0
        if record.waiting >= MAX_DELAYED:
            return self.rules.local_delay_max
        return max(0.0, record.locked_until - self._clock.monotonic())

    async def failed(self, ip: str, kind: SecretKind, *, is_local: bool) -> None:
        """Count a wrong secret. From this machine the answer is delayed; elsewhere the address may be locked out."""
        now, rules = self._clock.monotonic(), self.rules
        record = self._records.setdefault((ip, kind), _Record())
        self._records.move_to_end((ip, kind))
        while len(self._records) > MAX_REMEMBERED:
            self._records.popitem(last=False)
        record.failures = [*[at for at in record.failures if now - at < rules.window][-64:], now]
        if not (is_local and rules.exempt_loopback):
            if len(record.failures) >= rules.max_attempts:
                record.locked_until = now + (rules.lockout or rules.window)
            return
        delay = min(rules.local_delay * 2 ** (len(record.failures) - 1), rules.local_delay_max)
        # Answers stand in one line: trying many at a time gains nothing.
        record.answer_at = max(record.answer_at, now) + delay
        record.waiting += 1
        try:
            await asyncio.sleep(min(record.answer_at - now, MAX_WAIT))
        finally:
            record.waiting -= 1

    def succeeded(self, ip: str, kind: SecretKind) -> None:
        """Forget the failures of an address that showed the right secret."""
        record = self._records.get((ip, kind))
        if record is not None and not record.waiting:
            del self._records[(ip, kind)]


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
