"""A whole gateway with a model server behind it, and a client of its control plane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from harness.platform import Platform
from harness.stage import Stage, stage
from plane.client import RawClient, connect_params
from tidegate.gateway.app import Gateway

KEY = "agent:main:talk"


@dataclass
class Talk:
    """A gateway that runs, and one connected client.

    Attributes:
        client: Connected with every scope and the cap `tool-events`.
    """

    stage: Stage
    gateway: Gateway
    http: aiohttp.ClientSession
    client: RawClient

    async def connect(self, *caps: str, scopes: Sequence[str] = ("operator.admin",)) -> RawClient:
        """Connect another client with the shared secret."""
        socket = await self.http.ws_connect(f"http://127.0.0.1:{self.gateway.port}/")
        client = RawClient(socket)
        client.challenge = (await client.frame())["payload"]
        token = (self.stage.state_dir / "gateway.token").read_text().strip()
        params = connect_params(auth={"token": token}, scopes=list(scopes), caps=list(caps))
        answer = await client.say_connect(params)
        assert answer["ok"], answer
        client.hello = answer["payload"]
        return client

    async def ok(self, method: str, **params: Any) -> Any:
        """Call a method that must work; returns its payload."""
        answer = await self.client.call(method, params)
        assert answer["ok"], answer
        return answer["payload"]

    async def error(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method that must be refused; returns the error."""
        answer = await self.client.call(method, params)
        assert not answer["ok"], answer
        found: dict[str, Any] = answer["error"]
        return found

    async def say(self, text: str, run: str, key: str = KEY) -> Any:
        """Send a chat message."""
        return await self.ok("chat.send", sessionKey=key, message=text, idempotencyKey=run)

    async def until(self, run: str, *states: str) -> list[dict[str, Any]]:
        """Read events until the chat of a run is in one of these states; returns the payloads of that run in order."""
        seen = []
        while True:
            event = self.client.events.pop(0) if self.client.events else await self.client.frame()
            payload = event.get("payload")
            if event["type"] != "event" or not isinstance(payload, dict) or payload.get("runId") != run:
                continue
            seen.append({"event": event["event"], **payload})
            if event["event"] == "chat" and payload["state"] in states:
                return seen


def shape(events: Sequence[dict[str, Any]]) -> list[str]:
    """Return a run's events in few words; repeated pieces of text count once."""
    found: list[str] = []
    for event in events:
        if event["event"] == "chat":
            word = f"chat {event['state']}" + (f" {event['phase']}" if "phase" in event else "")
        elif event["event"] in ("agent", "session.tool"):
            data = event["data"]
            phase = data.get("phase")
            model = " none" if phase == "model" and data.get("model") is None else ""
            word = f"{event['event']} {event['stream']}" + (f" {phase}{model}" if phase else "")
        else:
            continue
        if word in ("chat delta", "agent assistant") and word in found[-2:]:
            continue
        found.append(word)
    return found


@asynccontextmanager
async def talking(state_dir: Path, more: str = "", platform: Platform | None = None) -> AsyncIterator[Talk]:
    """Run a gateway and connect a client."""
    async with asyncio.timeout(60), stage(state_dir, *([platform] if platform else []), more=more) as place:
        async with place.gateway() as gateway, aiohttp.ClientSession() as http:
            talk = Talk(place, gateway, http, None)  # type: ignore[arg-type]
            talk.client = await talk.connect("tool-events")
            yield talk
            await talk.client.socket.close()
