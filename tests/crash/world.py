"""A small hostile world for a real gateway process: a Telegram that may repeat everything, a model that calls tools.

Messages and answers carry marks (`m<chat>x<number>`), so that every answer can be matched to its message, its chat
and its place in the order.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiohttp import web

MARK = re.compile(r"\bm(\d+)x(\d+)\b")
TOKEN = "7000000001:AAcrashcrashcrashcrashcrashcrashcrash"
OWNER = 900
READY_SECONDS = 20.0
KILLED = (137, -9)

CONFIG = """{
  session: { dmScope: "per-channel-peer", reset: { mode: "none" } },
  commands: { ownerAllowFrom: ["telegram:%(owner)d"] },
  messages: { queue: { debounceMs: 20 } },
  agents: { defaults: { model: { primary: "fake/model" } } },
  models: { providers: { fake: { baseUrl: "%(model)s/v1", apiKey: "k", api: "openai-completions",
    models: [{ id: "model", contextWindow: 100000 }] } } },
  channels: { telegram: { botToken: "%(token)s", apiRoot: "%(telegram)s", dmPolicy: "open", allowFrom: ["*"],
    replyToMode: "off" } },
}
"""


@dataclass(frozen=True)
class Stored:
    """A message that stands in a chat: its number, and the text it ended with."""

    chat: int
    message: int
    text: str


@dataclass
class World:
    """The platform and the model. `start` runs the gateway as a process of its own.

    Attributes:
        deadly: A chat whose messages end the process as soon as the model hears of them.
    """

    state_dir: Path
    redelivers: bool = False
    uses_tools: bool = True
    model_delay: float = 0.0
    deadly: int = 0
    updates: list[dict[str, Any]] = field(default_factory=list)
    chats: dict[int, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    polls: int = 0
    calls: list[str] = field(default_factory=list)
    asked: int = 0
    process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        self._message = 100
        self._is_first_poll = True
        self._news = asyncio.Event()
        self._changed = asyncio.Event()
        app = web.Application()
        app.router.add_post("/bot{token}/{method}", self._telegram)
        app.router.add_post("/v1/chat/completions", self._model)
        self._runner = web.AppRunner(app, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        values = {"model": self.url, "telegram": self.url, "token": TOKEN, "owner": OWNER}
        self.config = self.state_dir / "tidegate.json"
        self.config.write_text(CONFIG % values)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.kill()
        await self._runner.cleanup()

    # The gateway

    async def start(self, crash_at: str | None = None, until: Callable[[], bool] | None = None) -> None:
        """Start the gateway; it may die before it is ready. `until` tells when it is, else its first poll does."""
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(self.state_dir), "LANG": "C.UTF-8"}
        if "PYTHONPATH" in os.environ:
            environ["PYTHONPATH"] = os.environ["PYTHONPATH"]
        if crash_at:
            environ["TIDEGATE_CRASH_AT"] = crash_at
        before = self.polls
        self._is_first_poll = True
        with (self.state_dir / "gateway.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tidegate",
                "gateway",
                "run",
                "--config",
                str(self.config),
                "--state-dir",
                str(self.state_dir / "state"),
                "--port",
                "0",
                env=environ,
                cwd=self.state_dir,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        is_ready = until or (lambda: self.polls > before)
        await self.until(lambda: is_ready() or self.is_dead, READY_SECONDS)

    @property
    def is_dead(self) -> bool:
        """Whether the process has ended."""
        return self.process is None or self.process.returncode is not None

    async def died(self, seconds: float) -> bool:
        """Wait for the process to end by itself; False when it does not."""
        assert self.process is not None
        try:
            async with asyncio.timeout(seconds):
                await self.process.wait()
        except TimeoutError:
            return False
        return True

    async def kill(self) -> None:
        """End the process as a power cut would."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        self._news.set()

    async def stop(self) -> int:
        """End the process in order and return its exit code."""
        assert self.process is not None
        self.process.terminate()
        async with asyncio.timeout(40):
            return await self.process.wait()

    # People

    def say(self, chat: int, number: int) -> None:
        """Let the person of a chat say something that carries a mark."""
        self._message += 1
        person = {"id": chat, "first_name": f"P{chat}"}
        self.updates.append(
            {
                "update_id": 1000 + len(self.updates),
                "message": {
                    "message_id": self._message,
                    "date": 1_800_000_000,
                    "from": {**person, "is_bot": False},
                    "chat": {**person, "type": "private"},
                    "text": f"please do m{chat}x{number}",
                },
            }
        )
        self._news.set()

    async def until(self, condition: Any, seconds: float) -> bool:
        """Wait until a condition holds, looking whenever something happened; False when it never does."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._changed.clear()
                    try:
                        async with asyncio.timeout(0.1):
                            await self._changed.wait()
                    except TimeoutError:
                        pass
        except TimeoutError:
            return bool(condition())
        return True

    # What happened

    def answers(self, chat: int) -> list[int]:
        """Return the numbers of the messages that were answered in a chat, in the order of the answers."""
        texts = [text for _, text in sorted(self.chats[chat].items()) if "done" in text]
        return [int(number) for text in texts for owner, number in MARK.findall(text) if int(owner) == chat]

    def strangers(self) -> list[Stored]:
        """Return messages that hold the mark of another chat."""
        return [
            Stored(chat, message, text)
            for chat, messages in self.chats.items()
            for message, text in messages.items()
            if any(int(owner) != chat for owner, _ in MARK.findall(text))
        ]

    def rows(self, sql: str) -> list[Any]:
        """Return rows of the gateway's store."""
        connection = sqlite3.connect(f"file:{self.state_dir / 'state' / 'tidegate.db'}?mode=ro", uri=True)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def unknown(self) -> list[tuple[int, int]]:
        """Return (chat, number) of messages whose answer has an outcome that is not known."""
        found = []
        for (payload,) in self.rows("SELECT payload FROM deliveries WHERE state = 'unknown'"):
            found += [(int(chat), int(number)) for chat, number in MARK.findall(json.loads(payload).get("body", ""))]
        return found

    # Telegram

    async def _telegram(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        data = await request.json() if request.content_type == "application/json" else dict(await request.post())
        self.calls.append(method)
        result = await getattr(self, f"_do_{method}", self._do_anything)(data)
        self._changed.set()
        return web.json_response({"ok": True, "result": result})

    async def _do_anything(self, _: Any) -> Any:
        return True

    async def _do_getMe(self, _: Any) -> Any:
        return {"id": 7000000001, "is_bot": True, "first_name": "Tide", "username": "tide_bot"}

    async def _do_getUpdates(self, data: Any) -> Any:
        offset = int(data.get("offset") or 0)
        if self.redelivers and self._is_first_poll:
            offset = 0
        self._is_first_poll = False
        self.polls += 1
        self._changed.set()
        ends = asyncio.get_running_loop().time() + min(float(data.get("timeout") or 0), 25)
        while True:
            self._news.clear()
            waiting = [update for update in self.updates if update["update_id"] >= offset]
            if waiting or asyncio.get_running_loop().time() >= ends:
                return waiting[:3]
            try:
                async with asyncio.timeout(1):
                    await self._news.wait()
            except TimeoutError:
                if self.is_dead:
                    return []

    async def _do_sendMessage(self, data: Any) -> Any:
        self._message += 1
        chat = int(data["chat_id"])
        self.chats[chat][self._message] = data["text"]
        return self._sent(chat, self._message, data["text"])

    async def _do_editMessageText(self, data: Any) -> Any:
        chat, message = int(data["chat_id"]), int(data["message_id"])
        self.chats[chat][message] = data["text"]
        return self._sent(chat, message, data["text"])

    @staticmethod
    def _sent(chat: int, message: int, text: str) -> dict[str, Any]:
        return {"message_id": message, "date": 1_800_000_000, "chat": {"id": chat, "type": "private"}, "text": text}

    # The model

    async def _model(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked += 1
        self._changed.set()
        turn: list[str] = []
        results = 0
        for message in body["messages"]:
            if message["role"] == "assistant" and not message.get("tool_calls"):
                turn, results = [], 0
            elif message["role"] == "user":
                turn.append(str(message["content"]))
            elif message["role"] == "tool":
                results += 1
        marks = list(dict.fromkeys(f"m{c}x{n}" for c, n in MARK.findall("\n".join(turn))))
        if any(mark.startswith(f"m{self.deadly}x") for mark in marks):
            await self.kill()
        if self.model_delay:
            await asyncio.sleep(self.model_delay)
        if self.uses_tools and results == 0:
            arguments = json.dumps({"path": f"{marks[-1]}.txt", "content": "x"})
            call = {"index": 0, "id": "c", "type": "function", "function": {"name": "write", "arguments": arguments}}
            return await self._stream(request, {"tool_calls": [call]}, "tool_calls")
        return await self._stream(request, {"content": "done " + " ".join(marks)}, "stop")

    @staticmethod
    async def _stream(request: web.Request, delta: dict[str, Any], finish: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for piece, end in (({"role": "assistant", **delta}, None), ({}, finish)):
            choice = {"index": 0, "delta": piece, "finish_reason": end}
            await response.write(b"data: " + json.dumps({"id": "x", "choices": [choice]}).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response
