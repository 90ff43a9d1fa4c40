"""Limits of a run and the loop breaker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidegate.agent_runtime.history import tool_result
from tidegate.agent_runtime.limits import (
    LoopBreaker,
    RunLimits,
    RunMeter,
    Verdict,
    explain_limit,
    judge_repeats,
)
from tidegate.agent_runtime.messages import ToolCall, Usage
from tidegate.clock import ManualClock
from tidegate.errors import RunLimitReached

VECTORS = Path(__file__).parents[2] / "data/agent_runtime/tool_loop.jsonl"
LEVELS = {None: {Verdict.RUN}, "warning": {Verdict.WARN}, "critical": {Verdict.BLOCK, Verdict.END}}


@pytest.mark.parametrize("row", [json.loads(line) for line in VECTORS.read_text().splitlines()])
def test_repeats_are_judged_at_the_known_thresholds(row: dict[str, dict[str, object]]) -> None:
    verdict = judge_repeats(int(str(row["input"]["repeats"])))
    level = row["output"]["level"]
    assert verdict in LEVELS[None if level is None else str(level)]
    assert (verdict is Verdict.END) == (row["output"]["detector"] == "global_circuit_breaker")


def test_a_result_that_changes_is_no_repetition() -> None:
    breaker = LoopBreaker()
    for number in range(100):
        call = ToolCall(f"c{number}", "poll", "{}")
        assert breaker.before(call, is_known=True) is None
        assert breaker.after(call, tool_result(call.id, f"{number}")).text == f"{number}"


def test_a_breaker_that_is_off_lets_everything_pass() -> None:
    breaker = LoopBreaker(enabled=False)
    for _ in range(50):
        call = ToolCall("c", "x", "{}")
        assert breaker.before(call, is_known=False) is None
        assert breaker.after(call, tool_result("c", "same")).text == "same"


def test_time_is_counted_from_the_start_of_the_run() -> None:
    clock = ManualClock()
    meter = RunMeter(RunLimits(wall_time=10), clock)
    clock.advance(9)
    assert meter.next_iteration() == 1
    assert meter.seconds_left() == pytest.approx(1)
    clock.advance(2)
    with pytest.raises(RunLimitReached) as caught:
        meter.next_iteration()
    assert caught.value.limit == "wall_time"


def test_cache_reads_do_not_count_against_the_tokens() -> None:
    meter = RunMeter(RunLimits(tokens=100), ManualClock())
    meter.usage += Usage(input=50, output=40, cache_read=10_000)
    meter.check()
    meter.usage += Usage(cache_write=10)
    with pytest.raises(RunLimitReached):
        meter.check()


def test_zero_means_no_limit() -> None:
    clock = ManualClock()
    meter = RunMeter(RunLimits(iterations=0, wall_time=0, tokens=0), clock)
    clock.advance(10**6)
    meter.usage += Usage(10**9)
    for _ in range(500):
        meter.next_iteration()
    assert meter.seconds_left() is None


@pytest.mark.parametrize("limit", ["iterations", "wall_time", "tokens", "loop", "cost"])
def test_every_limit_is_explained_in_plain_words(limit: str) -> None:
    text = explain_limit(RunLimitReached("90 things", limit))
    assert text.startswith("I stopped")
    assert "90 things" in text
