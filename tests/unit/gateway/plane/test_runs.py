"""The runs that clients know by their ids."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fakes.event_loop import on_loop
from tidegate.gateway.plane.contract import RpcError
from tidegate.gateway.plane.runs import MAX_RUNS, RunKind, Runs, RunState

KEY = "agent:main:main"
OTHER = "agent:main:other"


def test_a_turn_leads_to_its_run() -> None:
    runs = Runs()
    run = runs.add("r1", KEY, "main", RunKind.CHAT, 1)
    assert (runs.of_turn("t1"), run.state) == (None, RunState.WAITING)
    runs.begin(run, "t1")
    assert runs.of_turn("t1") is run
    assert runs.active(KEY) == ["r1"]
    runs.drop(run)
    assert (runs.get(KEY, "r1"), runs.of_turn("t1")) == (None, None)


@on_loop
async def test_an_id_stands_for_one_run_of_each_session() -> None:
    runs = Runs()
    here = runs.add("r", KEY, "main", RunKind.CHAT, 1)
    there = runs.add("r", OTHER, "main", RunKind.CHAT, 2)
    assert (runs.get(KEY, "r"), runs.get(OTHER, "r"), runs.find("r")) == (here, there, there)
    here.ended.set()
    assert await runs.ended("r", 5, KEY) is here
    there.ended.set()
    assert await runs.ended("r", 5) is there
    runs.drop(there)
    assert (runs.get(KEY, "r"), runs.find("r")) == (here, here)


@on_loop
async def test_the_end_of_a_run_can_be_waited_for_before_it_is_known() -> None:
    runs = Runs()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(runs.ended("r1", 5))
        await asyncio.sleep(0)
        run = runs.add("r1", KEY, "main", RunKind.AGENT, 1)
        await asyncio.sleep(0)
        assert not waiting.done()
        run.ended.set()
    assert waiting.result() is run


@on_loop
async def test_waiting_for_a_run_that_never_comes_ends_in_time() -> None:
    assert await Runs().ended("nothing", 0.01) is None


@on_loop
async def test_whoever_waits_for_a_run_hears_of_it_however_many_others_are_waited_for() -> None:
    runs = Runs()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        waiting = [group.create_task(runs.ended(f"r{number}", None)) for number in range(MAX_RUNS + 2)]
        await asyncio.sleep(0)
        run = runs.add("other", KEY, "main", RunKind.AGENT, 0)
        for number in range(len(waiting)):
            run = runs.add(f"r{number}", KEY, "main", RunKind.AGENT, 1)
            run.ended.set()
    assert waiting[-1].result() is run


@on_loop
async def test_what_is_waited_for_is_bounded_and_forgotten_when_nobody_waits_any_more(monkeypatch: Any) -> None:
    monkeypatch.setattr("tidegate.gateway.plane.runs.MAX_AWAITED", 2)
    runs = Runs()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        tasks = [group.create_task(runs.ended(name, None)) for name in ("a", "b", "b")]
        await asyncio.sleep(0)
        with pytest.raises(RpcError, match="too many runs") as caught:
            await runs.ended("c", 1)
        assert caught.value.retryable is True
        tasks[1].cancel()
        await asyncio.sleep(0)
        with pytest.raises(RpcError, match="too many runs"):
            await runs.ended("c", 1)
        tasks[2].cancel()
        await asyncio.sleep(0)
        assert await runs.ended("c", 0) is None
        assert await runs.ended("d", 0) is None
        run = runs.add("a", KEY, "main", RunKind.CHAT, 0)
        run.ended.set()
    assert tasks[0].result() is run


@on_loop
async def test_waiting_goes_on_when_the_run_was_dropped_before_it_could_be_looked_at() -> None:
    runs = Runs()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        waiting = group.create_task(runs.ended("r", None))
        await asyncio.sleep(0)
        runs.drop(runs.add("r", KEY, "main", RunKind.CHAT, 0))
        await asyncio.sleep(0)
        assert not waiting.done()
        run = runs.add("r", KEY, "main", RunKind.CHAT, 1)
        run.ended.set()
    assert waiting.result() is run


def test_the_oldest_ended_runs_are_forgotten_first_and_never_open_ones() -> None:
    runs = Runs()
    first = runs.add("open", KEY, "main", RunKind.CHAT, 0)
    for number in range(MAX_RUNS + 50):
        run = runs.add(f"r{number}", KEY, "main", RunKind.CHAT, number)
        run.state, run.ended_at = RunState.ENDED, number
    assert runs.get(KEY, "open") is first
    assert runs.get(KEY, "r0") is None
    assert runs.get(KEY, f"r{MAX_RUNS + 49}") is not None
    assert len(runs.of_session(KEY, RunState.ENDED)) <= MAX_RUNS


def test_what_a_run_said_is_joined_by_blank_lines() -> None:
    run = Runs().add("r", KEY, "main", RunKind.CHAT, 0)
    assert run.whole("now") == "now"
    run.before = "before"
    assert run.whole("now") == "before\n\nnow"
    assert run.whole("") == "before"
