"""`tidegate agent`: one turn of an agent, its answer as it is written, and out."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from typing import Any

from tidegate.gateway.cli.call import Call, warn
from tidegate.gateway.cli.conversation import tool_line
from tidegate.gateway.cli.markdown import render
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.remote import USUAL, stay
from tidegate.gateway.cli.terminal import as_json, columns, printable
from tidegate.gateway.client.connection import Connection, Event, Gap
from tidegate.gateway.client.dial import Kind
from tidegate.gateway.client.errors import ClientError, Refused, Unanswered
from tidegate.gateway.client.shape import fields, items
from tidegate.gateway.client.tools import summary
from tidegate.gateway.program import hint
from tidegate.ids import new_id

DEFAULT_SECONDS = 600
GRACE_SECONDS = 10.0
"""How much longer than the turn we wait for the gateway to say that its time is up."""
OVERTIME_SECONDS = 15.0
"""How much longer than the turn we try at all, over any number of connections."""
ABORT_SECONDS = 3.0
MAX_INPUT = 1_000_000


def agent(arguments: Arguments) -> int:
    """Carry out one turn."""
    call = Call.of(arguments)
    text = sys.stdin.read(MAX_INPUT) if arguments.message == "-" else str(arguments.message)
    if not text.strip():
        raise Refused("there is nothing to say")
    turn = _Turn(call, text)
    late = f"no complete answer within {turn.seconds} s"
    try:
        final = stay(call, Kind(USUAL, caps=("tool-events",)), turn.run, turn.seconds + OVERTIME_SECONDS)
    except TimeoutError:
        raise Unanswered(f"{late}, and the gateway did not say what became of the turn") from None
    turn.finish(final)
    if final.get("status") == "timeout":
        raise Unanswered(f"{late}; the turn was ended")
    return 0


class _Turn:
    """One turn. Its key makes it the same turn over any number of connections."""

    def __init__(self, call: Call, text: str) -> None:
        arguments = call.arguments
        self.seconds = max(1, int(arguments.timeout or DEFAULT_SECONDS))
        self._call = call
        self._params: dict[str, Any] = {
            "message": text,
            "idempotencyKey": arguments.key or new_id(),
            "timeout": self.seconds,
        }
        if arguments.agent:
            self._params["agentId"] = arguments.agent
        if arguments.session:
            self._params["sessionKey"] = arguments.session
        self._streams = sys.stdout.isatty() and not arguments.json
        self._item = ""
        self._shown = ""
        self._session = ""

    async def run(self, line: Connection) -> dict[str, Any]:
        """Begin the turn, or join it again after a break; returns the second response."""
        pending = await line.send("agent", self._params)
        try:
            first = fields(await pending.answer())
            if first.get("status") != "accepted":
                return first
            self._session = str(first.get("sessionKey", ""))
            async with asyncio.TaskGroup() as group:
                showing = group.create_task(self._show(line), name="agent.show")
                try:
                    answer: Any = await pending.answer(self.seconds + GRACE_SECONDS)
                except ClientError as error:
                    answer = error
                finally:
                    showing.cancel()
            if isinstance(answer, ClientError):
                raise answer
            return fields(answer)
        except asyncio.CancelledError:
            await self._abort(line)
            raise
        finally:
            line.done(pending)

    async def _abort(self, line: Connection) -> None:
        """End the turn when its caller is interrupted: nobody is there to read what it would say."""
        params = {"sessionKey": self._session, "runId": self._params["idempotencyKey"]}
        try:
            if self._session:
                await line.call("chat.abort", params, seconds=ABORT_SECONDS)
        except ClientError as error:
            warn(f"the turn was not stopped: {error}")

    async def _show(self, line: Connection) -> None:
        try:
            async with aclosing(line.events()) as events:
                async for event in events:
                    if isinstance(event, Gap) or event.payload.get("runId") != self._params["idempotencyKey"]:
                        continue
                    if self._streams and event.name == "agent":
                        self._draw(event)
        except ClientError:
            # Whoever waits for the answer hears of the break as well.
            return

    def _draw(self, event: Event) -> None:
        data = event.payload.get("data")
        if not isinstance(data, dict):
            return
        stream = event.payload.get("stream")
        if stream == "assistant":
            self._text(str(data.get("itemId", "")), str(data.get("text", "")))
        elif stream == "tool" and data.get("phase") == "start":
            self._break()
            told = {"tool": data.get("name"), "summary": summary(data.get("args"))}
            print(self._call.style.dim(tool_line(told)), flush=True)
        elif stream == "tool" and data.get("phase") == "result" and data.get("isError"):
            print(
                self._call.style.paint(f"  ⚙ {printable(str(data.get('name', '')))} failed", "dim", "red"), flush=True
            )

    def _text(self, item: str, text: str) -> None:
        """Print what is new of a message; one that was rewritten is printed anew."""
        if item != self._item or not text.startswith(self._shown):
            self._break()
            self._item = item
        print(printable(text[len(self._shown) :]), end="", flush=True)
        self._shown = text

    def _break(self) -> None:
        if self._shown:
            print(flush=True)
        self._shown, self._item = "", ""

    def finish(self, final: dict[str, Any]) -> None:
        """Print what is still to be printed of the answer."""
        if self._call.arguments.json:
            print(as_json(final))
            return
        result = fields(final.get("result"))
        said = [fields(part) for part in items(result.get("payloads"))]
        text = "\n\n".join(str(part.get("text") or "") for part in said).strip()
        was_streamed = bool(self._shown.strip()) and text.endswith(self._shown.strip())
        self._break()
        if text and not was_streamed:
            print(render(text, self._call.style, columns()), flush=True)
        if fields(result.get("meta")).get("aborted"):
            warn(f"the turn was stopped; {hint('sessions list')} shows its session")
