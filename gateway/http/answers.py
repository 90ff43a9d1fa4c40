"""Waits for the answers to messages that programs sent over HTTP. It only watches; the store carries them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.gateway.bus import EventBus, Fact
from tidegate.gateway.egress import visible_so_far

MAX_AWAITED = 1_000
"""Requests that may wait at a time."""


@dataclass(slots=True)
class Answer:
    """What is known about the answer to one message.

    Attributes:
        said: What earlier messages of the run said.
        parts: Pieces of the present message, as the model wrote them.
        state: `answered` or `failed` once it ended, `stopped` when it was ended from outside.
        text: What was said in the end.
        reason: Why it failed.
    """

    run: str = ""
    said: str = ""
    parts: list[str] = field(default_factory=list)
    state: str = ""
    text: str = ""
    kind: str = ""
    reason: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def visible(self) -> str:
        """Return what may be shown of it now."""
        return "\n\n".join(text for text in (self.said, visible_so_far("".join(self.parts))) if text)

    def tell(self) -> None:
        """Wake who waits."""
        self._changed.set()

    async def changed(self, seconds: float) -> bool:
        """Wait until something is new, at most so long; False when nothing was."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True


class Answers:
    """All answers that are waited for, by the id of the message."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self._listens = False
        self._awaited: dict[str, Answer] = {}
        self._runs: dict[str, list[Answer]] = {}

    def expect(self, message_id: str) -> Answer | None:
        """Begin to wait, before the message is stored; None when too many wait already."""
        if len(self._awaited) >= MAX_AWAITED:
            return None
        if not self._listens:
            # Building facts costs every turn a little; nobody asks for them before the first request.
            self._listens = True
            self._bus.listen(self._take)
        answer = self._awaited[message_id] = Answer()
        return answer

    def forget(self, message_id: str) -> None:
        """Wait no longer."""
        answer = self._awaited.pop(message_id, None)
        if answer is None or answer.run not in self._runs:
            return
        self._runs[answer.run].remove(answer)
        if not self._runs[answer.run]:
            del self._runs[answer.run]

    def _take(self, fact: Fact) -> None:
        data = fact.data or {}
        run = str(data.get("run", ""))
        if fact.name in ("turn.started", "turn.steered"):
            self._join(run, data)
            return
        for answer in self._runs.get(run, ()):
            if not answer.state:
                _note(answer, fact.name, data)

    def _join(self, run: str, data: Mapping[str, Any]) -> None:
        for message in data.get("messages", ()):
            answer = self._awaited.get(str(message))
            if answer is not None and answer.run != run:
                answer.run = run
                self._runs.setdefault(run, []).append(answer)


def _note(answer: Answer, name: str, data: Mapping[str, Any]) -> None:
    match name:
        case "run.message":
            answer.said, answer.parts = answer.visible(), []
            return
        case "run.text":
            answer.parts.append(str(data.get("text", "")))
        case "turn.failed":
            answer.kind, answer.reason = str(data.get("kind", "")), str(data.get("reason", ""))
            return
        case "turn.done":
            answer.text, answer.state = str(data.get("text", "")), str(data.get("state", "answered"))
            answer.tokens_in, answer.tokens_out = int(data.get("tokens_in", 0)), int(data.get("tokens_out", 0))
        case "turn.cut_off":
            answer.state = "stopped"
        case _:
            return
    answer.tell()
