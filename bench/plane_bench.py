"""Measures the control plane: time to hello-ok, 200 clients on one stream, and frames of every shape by the thousand.

python bench/plane_bench.py [--clients 200] [--events 400] [--frames 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import structlog

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from plane.client import Plane, RawClient, plane
from plane.mutations import Mutator
from tidegate.gateway.plane.contract import PlaneEvent

PACE = 0.02
"""Seconds between two events of the stream."""
FRAMES_A_SOCKET = 500
PAGE_BYTES = resource.getpagesize()


def resident_mib() -> float:
    """Return the memory of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / 2**20


def delta(number: int) -> dict[str, Any]:
    """Return a piece of live text that carries when it was sent."""
    text = "word " * 20
    return {
        "runId": "r",
        "sessionKey": "agent:main:main",
        "state": "delta",
        "deltaText": text,
        "sent": time.perf_counter(),
        "number": number,
    }


async def hello_times(running: Plane, count: int) -> list[float]:
    """Return how long connecting took, in milliseconds."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        client = await running.connect(["operator.read"])
        times.append((time.perf_counter() - began) * 1000)
        await client.socket.close()
    return times


async def watch(client: RawClient, delays: list[float]) -> int:
    """Read the stream to its end; returns how much of its text arrived."""
    characters = 0
    while True:
        payload = (await client.frame())["payload"]
        if payload.get("state") == "final":
            return characters
        if payload.get("state") == "delta":
            delays.append((time.perf_counter() - payload["sent"]) * 1000)
            characters += len(payload["deltaText"])


async def stream(running: Plane, clients: int, events: int) -> dict[str, Any]:
    """Let clients watch one stream."""
    watching = [await running.connect(["operator.read"]) for _ in range(clients)]
    before, delays = resident_mib(), []
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(watch(client, delays)) for client in watching]
        for number in range(events):
            running.hub.publish(PlaneEvent("chat", delta(number), session="agent:main:main"))
            await asyncio.sleep(PACE)
        running.hub.publish(PlaneEvent("chat", {"runId": "r", "state": "final"}, session="agent:main:main"))
    whole = events * len(delta(0)["deltaText"])
    delays.sort()
    return {
        "clients": clients,
        "frames": len(delays),
        "lost": sum(task.result() != whole for task in tasks),
        "p50_ms": round(delays[len(delays) // 2], 2),
        "p99_ms": round(delays[int(len(delays) * 0.99)], 2),
        "grown_mib": round(resident_mib() - before, 1),
    }


async def frames(running: Plane, count: int) -> dict[str, Any]:
    """Send damaged frames, nine in ten after authentication."""
    mutate = Mutator(7, [method.name for method in running.server.methods.all()])
    began, sent, memory = time.perf_counter(), 0, []
    while sent < count:
        client = await running.connect(["operator.read"])
        for _ in range(FRAMES_A_SOCKET):
            await client.socket.send_str(mutate.insider())
        await client.call("status")
        await client.socket.close()
        for _ in range(FRAMES_A_SOCKET // 9):
            stranger = await running.open()
            await stranger.socket.send_str(mutate.stranger(stranger.challenge))
            await stranger.until_closed()
        sent += FRAMES_A_SOCKET + FRAMES_A_SOCKET // 9
        running.sockets.clear()
        gc.collect()
        memory.append(resident_mib())
    seconds = time.perf_counter() - began
    half = memory[len(memory) // 2]
    return {
        "frames": sent,
        "frames_per_s": round(sent / seconds),
        "mib_at_half": round(half, 1),
        "mib_at_end": round(memory[-1], 1),
        "devices": len(await running.store.devices()),
    }


def tell(result: dict[str, Any]) -> None:
    """Print a line of JSON."""
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


async def main(arguments: argparse.Namespace) -> None:
    """Run all parts and print a line of JSON each."""
    with tempfile.TemporaryDirectory() as place, structlog.testing.capture_logs() as logs:
        async with plane(Path(place)) as running:
            times = await hello_times(running, 200)
            tell({"hello_p50_ms": round(statistics.median(times), 2), "hello_max_ms": round(max(times), 2)})
            tell(await stream(running, arguments.clients, arguments.events))
        async with plane(Path(place)) as running:
            result = await frames(running, arguments.frames)
        result["unhandled"] = sum(entry["log_level"] == "error" for entry in logs)
        tell(result)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--events", type=int, default=400)
    parser.add_argument("--frames", type=int, default=100_000)
    asyncio.run(main(parser.parse_args()))
