from __future__ import annotations

import pytest

from fakes.event_loop import on_loop
from tidegate.clock import ManualClock
from tidegate.gateway.plane.contract import RpcError
from tidegate.gateway.plane.limits import MAX_REMEMBERED, AttemptLimiter, AttemptRules, SecretKind, WriteBudget
from tidegate.sessions.memory.store import MemoryStore

FAR = "198.51.100.7"


@on_loop
async def test_an_address_is_locked_out_after_its_last_attempt_and_let_in_later() -> None:
    clock = ManualClock()
    limiter = AttemptLimiter(clock, AttemptRules())
    for _ in range(9):
        await limiter.failed(FAR, SecretKind.SHARED, is_local=False)
    assert limiter.seconds_locked(FAR, SecretKind.SHARED) == 0
    await limiter.failed(FAR, SecretKind.SHARED, is_local=False)
    assert limiter.seconds_locked(FAR, SecretKind.SHARED) == 300
    assert limiter.seconds_locked(FAR, SecretKind.DEVICE) == 0
    assert limiter.seconds_locked("198.51.100.8", SecretKind.SHARED) == 0
    clock.advance(301)
    assert limiter.seconds_locked(FAR, SecretKind.SHARED) == 0


@on_loop
async def test_failures_of_another_minute_do_not_count() -> None:
    clock = ManualClock()
    limiter = AttemptLimiter(clock, AttemptRules(max_attempts=2))
    await limiter.failed(FAR, SecretKind.SHARED, is_local=False)
    clock.advance(61)
    await limiter.failed(FAR, SecretKind.SHARED, is_local=False)
    assert limiter.seconds_locked(FAR, SecretKind.SHARED) == 0


@on_loop
async def test_the_right_secret_forgets_failures() -> None:
    limiter = AttemptLimiter(ManualClock(), AttemptRules(max_attempts=2))
    await limiter.failed(FAR, SecretKind.SHARED, is_local=False)
    await limiter.succeeded(FAR, SecretKind.SHARED)
    await limiter.failed(FAR, SecretKind.SHARED, is_local=False)
    assert limiter.seconds_locked(FAR, SecretKind.SHARED) == 0


@on_loop
async def test_this_machine_can_be_locked_out_when_that_is_asked_for() -> None:
    limiter = AttemptLimiter(ManualClock(), AttemptRules(max_attempts=1, exempt_loopback=False))
    await limiter.failed("127.0.0.1", SecretKind.SHARED, is_local=True)
    assert limiter.seconds_locked("127.0.0.1", SecretKind.SHARED) > 0


@on_loop
async def test_what_is_remembered_is_bounded() -> None:
    limiter = AttemptLimiter(ManualClock(), AttemptRules(max_attempts=1))
    for number in range(MAX_REMEMBERED + 5):
        await limiter.failed(f"a{number}", SecretKind.SHARED, is_local=False)
    assert len(limiter._records) == MAX_REMEMBERED
    assert limiter.seconds_locked(f"a{MAX_REMEMBERED}", SecretKind.SHARED) > 0


def test_the_write_budget_comes_back_with_time() -> None:
    clock = ManualClock()
    budget = WriteBudget(clock)
    for _ in range(30):
        budget.spend("d1", "config.set")
    with pytest.raises(RpcError) as caught:
        budget.spend("d1", "config.set")
    assert caught.value.message == "rate limit exceeded for config.set; retry after 60s"
    assert caught.value.retry_after_ms == 60_000
    budget.spend("d2", "config.set")
    clock.advance(60)
    budget.spend("d1", "config.set")


@on_loop
async def test_a_restart_forgives_nobody_and_forgets_what_is_old() -> None:
    clock = ManualClock()
    store, rules = MemoryStore(clock), AttemptRules(max_attempts=2)
    await store.open()
    before = AttemptLimiter(clock, rules, store)
    await before.failed(FAR, SecretKind.SHARED, is_local=False)
    await before.failed(FAR, SecretKind.SHARED, is_local=False)
    await before.failed("198.51.100.8", SecretKind.SHARED, is_local=False)
    clock.advance(10)
    after = AttemptLimiter(clock, rules, store)
    await after.load()
    assert after.seconds_locked(FAR, SecretKind.SHARED) == 290
    assert after.seconds_locked("198.51.100.8", SecretKind.SHARED) == 0
    await after.failed("198.51.100.8", SecretKind.SHARED, is_local=False)
    assert after.seconds_locked("198.51.100.8", SecretKind.SHARED) == 300
    clock.advance(301)
    await after.succeeded(FAR, SecretKind.SHARED)
    await after.failed("198.51.100.9", SecretKind.SHARED, is_local=False)
    assert {row.address for row in await store.attempts()} == {"198.51.100.8", "198.51.100.9"}


@on_loop
async def test_a_clock_that_was_put_back_locks_nobody_out_for_longer_than_the_rules_say() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    await store.open()
    later = ManualClock(clock.now() + 86_400 * 1_000_000)
    limiter = AttemptLimiter(later, AttemptRules(max_attempts=1), store)
    await limiter.failed(FAR, SecretKind.SHARED, is_local=False)
    after = AttemptLimiter(clock, AttemptRules(max_attempts=1), store)
    await after.load()
    assert after.seconds_locked(FAR, SecretKind.SHARED) == 300
