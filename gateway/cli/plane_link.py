"""The chat's wire to a gateway elsewhere: the control plane's events as the frames that the chat draws.

A message keeps its key over any number of connections, so it counts once; what came of it while the line was broken
is asked for when it is back.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.link import MAX_SHOWN, MAX_UNSENT, Frame
from tidegate.gateway.cli.remote import USUAL, door_of, run
from tidegate.gateway.client.again import Patience
from tidegate.gateway.client.connection import Connection, Event, Gap
from tidegate.gateway.client.dial import Door, Kind, connected
from tidegate.gateway.client.errors import ClientError, Refused, Unanswered, Unreachable
from tidegate.gateway.client.said import last_answer, text_of
from tidegate.gateway.client.shape import fields, items
from tidegate.gateway.client.tools import summary
from tidegate.ids import new_id

HISTORY = 50
STATE = "own.state"
KIND = Kind(USUAL, caps=("tool-events",))


def come_in(call: Call) -> Door:
    """Connect once, so that a secret can be asked for and a refusal be told before the terminal is taken.

    Returns where the chat connects from then on.

    Raises:
        ClientError: The gateway does not let us in.
    """

    async def nothing(_: Connection) -> None:
        return None

    run(call, KIND, nothing)
    return door_of(call)


class PlaneLink:
    """Sends what is typed into the main session there, and yields what comes.

    Attributes:
        door: Where the next connection goes.
    """

    def __init__(self, door: Door) -> None:
        self.door = door
        self._line: Connection | None = None
        self._session = ""
        self._unsent: OrderedDict[str, str] = OrderedDict()
        self._awaited: OrderedDict[str, str] = OrderedDict()
        self._mine: deque[str] = deque(maxlen=MAX_SHOWN)
        self._ended: deque[str] = deque(maxlen=MAX_SHOWN)

    @property
    def unconfirmed(self) -> int:
        """How many messages the gateway has not confirmed yet."""
        return len(self._unsent)

    async def send(self, text: str) -> str:
        """Send a message now or once the gateway is back; returns why not, or nothing."""
        if len(self._unsent) >= MAX_UNSENT:
            return "too many messages wait for the gateway"
        number = str(new_id())
        self._mine.append(number)
        self._unsent[number] = self._awaited[number] = text
        try:
            if self._line is not None:
                await self._put(self._line, number)
        except (Unreachable, Unanswered):
            # The reader sees the broken connection as well and makes another; the message goes again then.
            return ""
        except Refused as error:
            self._forget(number)
            return str(error)
        return ""

    def _forget(self, number: str) -> None:
        self._unsent.pop(number, None)
        self._awaited.pop(number, None)

    async def _put(self, line: Connection, number: str) -> str:
        text = self._awaited.get(number, "")
        params = {"sessionKey": self._session, "message": text, "idempotencyKey": number, "deliver": False}
        answer = fields(await line.call("chat.send", params))
        self._unsent.pop(number, None)
        if "aborted" in answer:
            # `/stop` is answered at once and has no run.
            self._awaited.pop(number, None)
            self._ask_state(line)
        return str(answer.get("status", ""))

    async def ask_state(self) -> None:
        """Ask whether anything is still to come; a `state` frame answers, and one comes whenever a run has ended."""
        if self._line is not None:
            self._ask_state(self._line)

    def _ask_state(self, line: Connection) -> None:
        line.tell(Event(STATE, {"sessionKey": self._session}))

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """Yield frames until the gateway does not let us in any more; `lost` says that the connection broke.

        Raises:
            ClientError: Only a person can help.
        """
        patience = Patience()
        while True:
            try:
                async with connected(self.door, KIND) as line:
                    patience.reset()
                    async with aclosing(self._served(line)) as served:
                        async for frame in served:
                            yield frame
            except ClientError as error:
                seconds = patience.seconds(error)
                if seconds is None:
                    raise
                yield {"type": "lost", "reason": str(error)}
                await asyncio.sleep(seconds)
            finally:
                self._line = None

    async def _served(self, line: Connection) -> AsyncGenerator[Frame, None]:
        defaults = fields(fields(line.hello.get("snapshot")).get("sessionDefaults"))
        self._session = str(defaults.get("mainSessionKey") or "main")
        await line.call("sessions.messages.subscribe", {"key": self._session})
        self._line = line
        yield {"type": "hello", "session": self._session, "concerns": {}}
        for frame in await self._all_taken_up(line):
            yield frame
        async with aclosing(line.events()) as events:
            async for event in events:
                if isinstance(event, Gap):
                    yield _fact("turn.started")
                    for frame in await self._all_taken_up(line):
                        yield frame
                elif event.payload.get("sessionKey") == self._session:
                    for frame in self._drawn(event):
                        yield frame

    async def _all_taken_up(self, line: Connection) -> list[Frame]:
        return [frame for number in list(self._awaited) for frame in await self._taken_up(line, number)]

    async def _taken_up(self, line: Connection, number: str) -> list[Frame]:
        """Say a message again under its key; returns what came of it meanwhile."""
        was_sent = number not in self._unsent
        try:
            status = await self._put(line, number)
        except Refused as error:
            self._forget(number)
            return [{"type": "refused", "id": number, "text": str(error)}]
        if not was_sent or status == "in_flight":
            return []
        if status == "ok":
            ended = fields(await line.call("agent.wait", {"runId": number, "timeoutMs": 0}))
            text = str(fields(ended.get("terminalReply")).get("text") or ended.get("error") or "")
        else:
            # It was answered before the gateway started anew, which does not know what was said in which run.
            page = fields(await line.call("chat.history", {"sessionKey": self._session, "limit": HISTORY}))
            if fields(page.get("sessionInfo")).get("hasActiveRun") or page.get("inFlightRun"):
                return []
            text = last_answer(items(page.get("messages")), self._awaited.get(number, ""))
        return list(self._over(number, text))

    def _over(self, run: str, text: str) -> Iterator[Frame]:
        if run in self._ended:
            return
        self._ended.append(run)
        self._awaited.pop(run, None)
        if text.strip():
            yield {"type": "reply", "token": run, "text": text}
        yield _fact("turn.ended")
        yield self._state()

    def _state(self) -> Frame:
        return {"type": "state", "busy": bool(self._awaited)}

    def _drawn(self, event: Event) -> Iterator[Frame]:
        payload = event.payload
        run = str(payload.get("runId", ""))
        match event.name, payload.get("state") or payload.get("stream"):
            case "agent", "lifecycle" if fields(payload.get("data")).get("phase") == "start":
                yield _fact("turn.started")
            case "agent", "tool":
                yield from _tool(fields(payload.get("data")))
            case "chat", "delta":
                if payload.get("replace"):
                    yield _fact("turn.started")
                yield _fact("run.text", text=str(payload.get("deltaText", "")))
            case "chat", "final":
                yield from self._over(run, text_of(payload.get("message")))
            case "chat", "error":
                detail = fields(payload.get("errorDetail"))
                model = "/".join(str(detail[part]) for part in ("provider", "model") if detail.get(part))
                reason = str(payload.get("errorMessage", ""))
                yield _fact("turn.failed", model=model, kind=str(payload.get("errorKind", "")), reason=reason)
                yield from self._over(run, "")
            case "chat", "aborted":
                yield _fact("turn.cut_off")
                yield from self._over(run, "")
            case "own.state", _:
                yield self._state()
            case "session.message", _:
                yield from self._typed(fields(payload.get("message")))

    def _typed(self, message: dict[str, Any]) -> Iterator[Frame]:
        run = str(fields(message.get("__openclaw")).get("runId", ""))
        if message.get("role") == "user" and run not in self._mine:
            yield {"type": "typed", "id": f"{run}:{text_of(message)[:80]}", "text": text_of(message)}


def _fact(name: str, **data: Any) -> Frame:
    return {"type": "fact", "name": name, "data": data}


def _tool(data: dict[str, Any]) -> Iterator[Frame]:
    if data.get("phase") == "start":
        yield _fact("tool.started", tool=str(data.get("name", "")), summary=summary(data.get("args")))
    elif data.get("phase") == "result":
        yield _fact("tool.ended", tool=str(data.get("name", "")), is_error=bool(data.get("isError")))
