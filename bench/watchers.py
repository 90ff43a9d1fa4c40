"""Measures a whole gateway whose one stream many clients watch: how late its events come, who is lost, what it takes.

python bench/watchers.py [--clients 200] [--pieces 400]

The gateway is a process of its own; the clients and the model share this one. An event's delay is from the instant
that the gateway wrote into it (`ts`, in whole milliseconds) to the end of its reading here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from pathlib import Path

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from harness.brain import Answer, Ask
from peers.world import Scene, scene
from plane.client import RawClient, connect_params

PACE = 0.02
"""Seconds between two pieces of the model's answer."""
SESSION = "agent:main:watched"


def proportional_mib(pid: int) -> float:
    """Return the memory of a process, its share of shared pages counted (PSS)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel does not tell")


async def connect(http: aiohttp.ClientSession, there: Scene) -> tuple[RawClient, float]:
    """Return a connected operator and how long connecting took, in milliseconds."""
    began = time.perf_counter()
    client = RawClient(await http.ws_connect(there.url, max_msg_size=0))
    client.challenge = (await client.frame())["payload"]
    answer = await client.say_connect(connect_params(auth={"token": there.token}, scopes=["operator.admin"]))
    assert answer["ok"], answer
    return client, (time.perf_counter() - began) * 1000


async def watch(client: RawClient, delays: list[float]) -> tuple[str, int]:
    """Read to the end of the run; returns the text that came and the number of sequence gaps."""
    gaps = seq = 0
    while True:
        message = await client.socket.receive()
        now = time.time() * 1000
        if message.type is not aiohttp.WSMsgType.TEXT:
            return "", gaps
        frame = json.loads(message.data)
        if frame["type"] != "event":
            continue
        if frame.get("seq") is not None:
            gaps += bool(seq) and frame["seq"] != seq + 1
            seq = frame["seq"]
        payload = frame["payload"]
        if frame["event"] == "agent" and payload.get("sessionKey") == SESSION:
            delays.append(now - payload["ts"])
        if frame["event"] == "chat" and payload.get("state") == "final":
            return payload["message"]["content"][0]["text"], gaps


async def main(arguments: argparse.Namespace) -> None:
    """Run and print a line of JSON."""
    answer = "word " * (arguments.pieces * 2)

    async def think(_: Ask) -> Answer:
        return answer

    async with scene() as there, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        there.brain.think = think
        there.brain.pace = PACE
        before = proportional_mib(there.pid)
        connected = [await connect(http, there) for _ in range(arguments.clients)]
        clients = [client for client, _ in connected]
        idle, delays = proportional_mib(there.pid), []
        speaker, _ = await connect(http, there)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(watch(client, delays)) for client in clients]
            said = {"sessionKey": SESSION, "message": "go", "idempotencyKey": "watched"}
            assert (await speaker.call("chat.send", said))["ok"]
        delays.sort()
        result = {
            "clients": arguments.clients,
            "connect_p50_ms": round(statistics.median(took for _, took in connected), 2),
            "events": len(delays),
            "lost_clients": sum(task.result()[0].strip() != answer.strip() for task in tasks),
            "sequence_gaps": sum(task.result()[1] for task in tasks),
            "delay_p50_ms": round(delays[len(delays) // 2], 1),
            "delay_p99_ms": round(delays[int(len(delays) * 0.99)], 1),
            "delay_max_ms": round(delays[-1], 1),
            "pss_mib": {"no clients": round(before, 1), "connected": round(idle, 1), "after": 0.0},
        }
        result["pss_mib"]["after"] = round(proportional_mib(there.pid), 1)
        sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--pieces", type=int, default=400)
    asyncio.run(main(parser.parse_args()))
