from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fakes.event_loop import on_loop
from tidegate.gateway.plane.frames import encode
from tidegate.gateway.plane.outgoing import FAIR_BYTES, Backlog, Outgoing, delta_key, join_deltas


class Wire:
    """A client that reads one frame at a time, when told to."""

    def __init__(self) -> None:
        self.frames: list[Any] = []
        self.may_read = asyncio.Event()

    async def write(self, text: str) -> None:
        """Take a frame."""
        await self.may_read.wait()
        self.frames.append(json.loads(text))


def delta(run: str, text: str, whole: str) -> dict[str, Any]:
    return {
        "runId": run,
        "state": "delta",
        "deltaText": text,
        "message": {"content": [{"type": "text", "text": whole}]},
    }


def say(out: Outgoing, name: str, payload: Any) -> None:
    out.put_event(name, payload, encode(payload))


@on_loop
async def test_live_text_is_joined_while_the_client_is_slow_and_comes_before_the_end() -> None:
    wire, out = Wire(), Outgoing(lambda: None, pace=0.001)
    async with asyncio.TaskGroup() as group:
        writer = group.create_task(out.run(wire.write))
        say(out, "chat", delta("r", "a", "a"))
        await asyncio.sleep(0)
        say(out, "chat", delta("r", "b", "ab"))
        say(out, "chat", delta("r", "c", "abc"))
        say(out, "chat", {"runId": "r", "state": "final"})
        wire.may_read.set()
        await out.flush()
        writer.cancel()
    assert [frame["payload"].get("deltaText", "end") for frame in wire.frames] == ["a", "bc", "end"]
    assert wire.frames[1]["payload"]["message"]["content"][0]["text"] == "abc"
    assert [frame["seq"] for frame in wire.frames] == [1, 2, 3]


@on_loop
async def test_a_quick_client_gets_every_piece() -> None:
    wire, out = Wire(), Outgoing(lambda: None)
    wire.may_read.set()
    async with asyncio.TaskGroup() as group:
        writer = group.create_task(out.run(wire.write))
        for number in range(3):
            say(out, "chat", delta("r", str(number), ""))
            await out.flush()
        writer.cancel()
    assert [frame["payload"]["deltaText"] for frame in wire.frames] == ["0", "1", "2"]


@on_loop
async def test_held_text_comes_without_anything_behind_it() -> None:
    wire, out = Wire(), Outgoing(lambda: None, pace=0.001)
    async with asyncio.TaskGroup() as group:
        writer = group.create_task(out.run(wire.write))
        say(out, "chat", delta("r", "a", "a"))
        say(out, "chat", delta("r", "b", "ab"))
        wire.may_read.set()
        await out.flush()
        writer.cancel()
    assert "".join(frame["payload"]["deltaText"] for frame in wire.frames) == "ab"


@on_loop
async def test_a_frame_too_many_is_told_once_and_nothing_more_is_taken() -> None:
    told: list[int] = []
    out = Outgoing(lambda: told.append(1), max_bytes=10)
    out.put("12345678")
    out.put("12345678", droppable=True)
    assert not told
    out.put("12345678")
    out.put("1")
    assert told == [1]
    assert out.waiting_bytes == 8


@on_loop
async def test_many_slow_clients_together_are_bounded_and_quick_ones_are_not_cut_off() -> None:
    told: list[str] = []
    backlog = Backlog(limit=3 * FAIR_BYTES)
    slow = [Outgoing(lambda name=name: told.append(name), backlog=backlog) for name in "ab"]  # type: ignore[misc]
    quick = Outgoing(lambda: told.append("quick"), backlog=backlog)
    for _ in range(4):
        for out in slow:
            out.put("x" * (FAIR_BYTES // 2 + 1))
    assert sorted(told) == ["a", "b"]
    assert backlog.bytes <= 4 * FAIR_BYTES
    quick.put("x" * 1_000)
    assert "quick" not in told
    for out in (*slow, quick):
        out.shut()
    assert backlog.bytes == 0


@on_loop
async def test_a_dropped_event_takes_its_number() -> None:
    wire, out = Wire(), Outgoing(lambda: None, max_bytes=120)
    wire.may_read.set()
    out.put_event("tick", {}, "{}")
    out.put_event("tick", "x" * 99, encode("x" * 99), droppable=True)
    async with asyncio.TaskGroup() as group:
        writer = group.create_task(out.run(wire.write))
        await out.flush()
        out.put_event("tick", {}, "{}")
        await out.flush()
        writer.cancel()
    assert [frame["seq"] for frame in wire.frames] == [1, 3]


def test_pieces_of_agents_are_joined_by_run_stream_and_item() -> None:
    older = {"runId": "r", "stream": "assistant", "data": {"text": "a", "delta": "a", "itemId": "i"}}
    newer = {"runId": "r", "stream": "assistant", "data": {"text": "ab", "delta": "b", "itemId": "i"}}
    assert delta_key("agent", older) == delta_key("agent", newer) == ("agent", "r", "assistant:i")
    assert join_deltas(older, newer)["data"] == {"text": "ab", "delta": "ab", "itemId": "i"}
    assert delta_key("agent", {"runId": "r", "stream": "lifecycle", "data": {"phase": "end"}}) is None
    assert delta_key("chat", {"runId": "r", "state": "final"}) is None


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["text", "end"])), max_size=30), st.booleans())
def test_however_slow_the_client_is_it_reads_the_same_text_in_the_same_order(
    said: list[tuple[str, str]], is_slow: bool
) -> None:
    async def run() -> list[Any]:
        wire, out = Wire(), Outgoing(lambda: None, pace=0)
        if not is_slow:
            wire.may_read.set()
        async with asyncio.TaskGroup() as group:
            writer = group.create_task(out.run(wire.write))
            for number, (run_id, kind) in enumerate(said):
                text = f"{number},"
                say(out, "chat", delta(run_id, text, "") if kind == "text" else {"runId": run_id, "state": text})
                await asyncio.sleep(0)
            wire.may_read.set()
            await out.flush()
            writer.cancel()
        return wire.frames

    frames = asyncio.run(run())
    for run_id in "ab":
        wanted = "".join(f"{number}," for number, (name, _) in enumerate(said) if name == run_id)
        payloads = [frame["payload"] for frame in frames if frame["payload"]["runId"] == run_id]
        assert "".join(p["deltaText"] if p["state"] == "delta" else p["state"] for p in payloads) == wanted
    assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1))
