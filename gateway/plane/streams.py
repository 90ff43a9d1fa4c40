"""Turns what is told about runs into the events that clients draw: `agent`, `chat`, `session.*`, `sessions.changed`.

The order of events within a run is the protocol's: both streams count on one number, `n` below.

    chat/agent  status       preparing_workspace, preparing_context     (runs that a chat client began)
    agent       lifecycle    start, model
    agent+chat  assistant    the text as it grows
    agent       item, tool   calls
    agent       lifecycle    finishing, model (none), end
    chat        final        or error, or aborted
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tidegate.adapters.base import Outbound
from tidegate.clock import Clock
from tidegate.gateway.bus import Fact
from tidegate.gateway.egress import visible, visible_so_far
from tidegate.gateway.plane.contract import PlaneEvent
from tidegate.gateway.plane.hub import Hub
from tidegate.gateway.plane.runs import ABORTED, Run, RunKind, Runs, RunState
from tidegate.gateway.ruleset import WEBCHAT
from tidegate.ids import new_id

TEXT_SECONDS = 0.05
"""Least time between two events with a run's text."""
MAX_CHANGES = 500
"""Sessions whose change is still to be told."""
_KINDS = {"rate_limit": "rate_limit", "timeout": "timeout", "refused": "refusal", "context_overflow": "context_length"}

Row = Callable[[str], Awaitable[dict[str, Any] | None]]
"""Returns the row of a session as clients see it."""


class Streams:
    """Hears every fact; knows every run; tells the clients.

    Args:
        row: Makes the row of a session, for `sessions.changed`.
    """

    def __init__(self, hub: Hub, runs: Runs, clock: Clock, row: Row) -> None:
        self._hub = hub
        self._runs = runs
        self._clock = clock
        self._row = row
        self._changes: dict[tuple[str, str], dict[str, Any]] = {}
        self._changed = asyncio.Event()
        self._takes: dict[str, Callable[[Run, Mapping[str, Any]], None]] = {
            "run.said": self._said,
            "turn.model": self._model,
            "run.message": self._message,
            "run.text": self._text,
            "run.call": self._call,
            "run.result": self._result,
            "turn.steered": self._steered,
            "turn.failed": self._failed,
            "turn.done": self._done,
            "turn.cut_off": self._cut_off,
        }

    def now(self) -> int:
        """Return the present, in milliseconds UTC."""
        return self._clock.now() // 1000

    async def run(self) -> None:
        """Tell those who watch the list of sessions what changed, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            changes, self._changes = self._changes, {}
            for (session, _), change in changes.items():
                await self._tell_change(session, change)

    async def _tell_change(self, session: str, change: dict[str, Any]) -> None:
        watching = frozenset(c.id for c in self._hub.connections if c.watches_sessions)
        if not watching:
            return
        row = await self._row(session)
        payload = {"sessionKey": session, **change, **({"session": row} if row else {})}
        self._hub.publish(PlaneEvent("sessions.changed", payload, session=session, only=watching))

    def changed(self, session: str, agent: str, **what: Any) -> None:
        """See that a change of a session is told soon; the same change twice is told once."""
        if len(self._changes) < MAX_CHANGES and any(c.watches_sessions for c in self._hub.connections):
            name = str(what.get("reason") or what.get("phase") or "")
            self._changes[session, name] = {"agentId": agent, **what, "ts": self.now()}
            self._changed.set()

    def take(self, fact: Fact) -> None:
        """Take a fact."""
        data = fact.data or {}
        if fact.name == "turn.started":
            self._started(fact.session, data)
            return
        handle = self._takes.get(fact.name)
        run = self._runs.of_turn(str(data.get("run", ""))) if handle else None
        if handle is not None and run is not None:
            handle(run, data)

    def _started(self, session: str, data: Mapping[str, Any]) -> None:
        ids = [str(item) for item in data.get("messages", ())] if data.get("channel") == WEBCHAT else []
        name = ids[-1] if ids else str(data["run"])
        run = self._runs.get(session, name)
        if run is None:
            run = self._runs.add(name, session, str(data["agent"]), RunKind.WATCHED, self.now())
        self._runs.begin(run, str(data["run"]))
        run.conversation, run.started_at = str(data["conversation"]), self.now()
        run.parts, run.shown, run.before, run.joined = [], "", "", ids[:-1]
        run.number, run.called = 0, False
        for older in self._runs.of_session(session, RunState.WAITING):
            # The queue is in order: what stood before this and is not part of it was left out.
            if older.order < run.order and older.id not in ids:
                self.settle(older, "")
        if run.kind is RunKind.CHAT:
            self._status(run, "preparing_workspace")
            self._status(run, "preparing_context")
        self.changed(session, run.agent, phase="start", runId=run.id)

    def _said(self, run: Run, data: Mapping[str, Any]) -> None:
        for text in data.get("texts", ()):
            self._tell_message(run, {"role": "user", "content": text})
        self._agent(run, "lifecycle", {"phase": "start", "startedAt": run.started_at})
        if run.kind is RunKind.CHAT:
            self._status(run, "starting_model")

    def _model(self, run: Run, data: Mapping[str, Any]) -> None:
        run.model = str(data.get("model", ""))

    def _message(self, run: Run, data: Mapping[str, Any]) -> None:
        self._tell_text(run)
        if run.called or run.number == 0:
            run.before, run.shown = run.whole(visible("".join(run.parts)) or run.shown), ""
        run.parts, run.called = [], False
        run.number += 1
        provider, model = run.provider
        self._agent(run, "lifecycle", {"phase": "model", "provider": provider, "model": model})

    def _text(self, run: Run, data: Mapping[str, Any]) -> None:
        run.parts.append(str(data.get("text", "")))
        if run.due is not None or not self._hub.connections:
            return
        loop = asyncio.get_running_loop()
        wait = run.told_at + TEXT_SECONDS - loop.time()
        if wait <= 0:
            self._tell_text(run)
        else:
            run.due = loop.call_later(wait, self._tell_text, run)

    def _tell_text(self, run: Run) -> None:
        """Tell the text that has come; every event carries all of it, so it is not told for every word."""
        if run.due is not None:
            run.due.cancel()
            run.due = None
        if not run.parts or run.state is RunState.ENDED or not self._hub.connections:
            return
        run.told_at = asyncio.get_running_loop().time()
        if len(run.parts) > 1:
            run.parts = ["".join(run.parts)]
        text = visible_so_far(run.parts[0])
        if text == run.shown:
            return
        extends = text.startswith(run.shown)
        delta = text[len(run.shown) :] if extends else text
        first = not run.shown
        run.shown = text
        item = f"{run.turn or run.id}:{run.number}"
        self._agent(run, "assistant", {"text": text, "delta": delta, "itemId": item})
        whole = run.whole(text)
        if extends:
            more: dict[str, Any] = {"deltaText": ("\n\n" if first and run.before else "") + delta}
        else:
            more = {"deltaText": whole, "replace": True}
        self._chat(run, "delta", **more, message=self._assistant(whole))

    def _call(self, run: Run, data: Mapping[str, Any]) -> None:
        self._tell_text(run)
        run.called = True
        call, name = str(data["call"]), str(data["tool"])
        run.tools.append(name)
        arguments = _plain(str(data.get("arguments", "")))
        item = {"itemId": f"tool:{call}", "toolCallId": call, "name": name, "kind": "tool", "title": name}
        self._agent(run, "item", {**item, "phase": "start", "status": "running", "startedAt": self.now()})
        self._tool(run, {"phase": "start", "name": name, "toolCallId": call, "args": arguments})

    def _result(self, run: Run, data: Mapping[str, Any]) -> None:
        call, name, failed = str(data["call"]), str(data["tool"]), bool(data.get("is_error"))
        result = {"content": [{"type": "text", "text": str(data.get("result", ""))}]}
        self._tool(run, {"phase": "result", "name": name, "toolCallId": call, "isError": failed, "result": result})
        item = {"itemId": f"tool:{call}", "toolCallId": call, "name": name, "kind": "tool", "title": name}
        status = "failed" if failed else "completed"
        self._agent(run, "item", {**item, "phase": "end", "status": status, "endedAt": self.now()})

    def _steered(self, run: Run, data: Mapping[str, Any]) -> None:
        for name in data.get("messages", ()):
            other = self._runs.get(run.session, str(name))
            if other is not None and other.state is RunState.WAITING:
                run.joined.append(other.id)
                self._bare_final(other)

    def _failed(self, run: Run, data: Mapping[str, Any]) -> None:
        run.error_kind, run.error = str(data.get("kind", "")), str(data.get("reason", ""))
        run.model = str(data.get("model") or run.model)

    def _done(self, run: Run, data: Mapping[str, Any]) -> None:
        run.text, run.model = str(data.get("text", "")), str(data.get("model") or run.model)
        run.tokens_in, run.tokens_out = int(data.get("tokens_in", 0)), int(data.get("tokens_out", 0))
        if run.state is RunState.ENDED:
            return
        self._tell_text(run)
        if data.get("state") == "failed":
            self._end_failed(run)
        else:
            self._end_answered(run)
        self.changed(run.session, run.agent, phase="end", runId=run.id)

    def _end_answered(self, run: Run) -> None:
        if run.tokens_out:
            self._agent(run, "usage", {"outputTokens": run.tokens_out})
        if run.text:
            self._tell_message(run, {"role": "assistant", "content": [{"type": "text", "text": run.text}]})
        ended = {"stopReason": "stop", "aborted": False, "livenessState": "working", "endedAt": self.now()}
        self._agent(run, "lifecycle", {"phase": "finishing", **ended})
        self._agent(run, "lifecycle", {"phase": "model", "provider": None, "model": None})
        end = {"phase": "end", **ended, "startedAt": run.started_at, "replayInvalid": False}
        reply = {"disposition": "visible" if run.text else "silent", "text": run.text}
        self._agent(run, "lifecycle", {**end, "terminalReply": reply, "executionSettled": True})
        message = {"message": self._assistant(run.whole(run.text))} if run.text else {}
        self._chat(run, "final", stopReason="stop", **message)
        self._end(run, "ok", "stop")

    def _end_failed(self, run: Run) -> None:
        text = run.text or run.error or "the run failed"
        provider, model = run.provider
        detail = {"provider": provider, "model": model, "failoverReason": run.error_kind or "unknown"}
        common = {"error": text, "errorObservation": detail, "aborted": False, "livenessState": "blocked"}
        self._agent(run, "lifecycle", {"phase": "finishing", **common, "endedAt": self.now()})
        self._agent(run, "lifecycle", {"phase": "model", "provider": None, "model": None})
        end = {"phase": "error", **common, "startedAt": run.started_at, "endedAt": self.now()}
        self._agent(run, "lifecycle", {**end, "executionSettled": True})
        kind = _KINDS.get(run.error_kind, "unknown")
        self._chat(run, "error", errorMessage=text, errorKind=kind, errorDetail=detail)
        run.error = text
        self._end(run, "error", "error")

    def abort(self, run: Run, reason: str) -> None:
        """Tell that a run was stopped; what it said so far stands."""
        if run.state is RunState.ENDED:
            return
        self._tell_text(run)
        growing = run.shown or visible_so_far("".join(run.parts))
        said = run.whole(growing)
        # A message with calls was written down before they ran.
        run.text, run.unwritten = said, "" if run.called else growing
        message = {"message": self._assistant(said)} if said else {}
        run.seq += 1
        self._chat(run, "aborted", stopReason=reason, **message)
        run.seq -= 1
        end = {"phase": "end", "status": "cancelled", "aborted": True, "stopReason": reason}
        self._agent(run, "lifecycle", {**end, "startedAt": run.started_at, "endedAt": self.now()})
        self._end(run, "aborted", reason)
        self.changed(run.session, run.agent, phase="end", runId=run.id)

    def _cut_off(self, run: Run, data: Mapping[str, Any]) -> None:
        self.abort(run, "stop")
        self._agent(run, "lifecycle", {"phase": "model", "provider": None, "model": None})
        end = {"phase": "error", "error": ABORTED, "aborted": True, "stopReason": "aborted"}
        times = {"startedAt": run.started_at, "endedAt": self.now()}
        self._agent(run, "lifecycle", {**end, **times, "executionSettled": True})

    def settle(self, run: Run, text: str) -> None:
        """End a run that was not carried out by a turn: a command, a message that was left out or set aside."""
        run.text = text
        self._bare_final(run)
        self._end(run, "ok", "stop")

    def fail(self, run: Run, text: str) -> None:
        """End a run that never began."""
        run.error = text
        run.seq += 1
        self._chat(run, "error", errorMessage=text, errorKind="unknown")
        self._end(run, "error", "error")

    def _end(self, run: Run, status: str, reason: str) -> None:
        run.state, run.status, run.stop_reason, run.ended_at = RunState.ENDED, status, reason, self.now()
        run.ended.set()
        run.parts, run.shown, run.before = [], "", ""
        if run.due is not None:
            run.due.cancel()
            run.due = None
        if run.id == run.turn and not self._hub.connections:
            # Somebody's turn on another channel that no client saw: nobody will ask for it by its id.
            self._runs.drop(run)
        for name in run.joined:
            other = self._runs.get(run.session, name)
            if other is None or other.state is RunState.ENDED:
                continue
            other.model, other.conversation, other.text = run.model, run.conversation, run.text
            other.error, other.error_kind = run.error, run.error_kind
            if other.seq == 0:
                self._bare_final(other, with_text=False)
            self._end(other, status, reason)

    def show(self, part: Outbound) -> None:
        """Show what the outbox delivers to clients, unless the end of its run showed it already."""
        session, name = part.address.chat, part.reply_to or ""
        run = self._runs.get(session, name)
        if run is not None and run.state is RunState.ENDED:
            return
        text = part.text.body if part.text is not None else f"[{part.file_name or 'file'}]"
        if run is not None:
            self.settle(run, text)
            return
        payload: dict[str, Any] = {"runId": name or part.token, "sessionKey": session, "seq": 1, "state": "final"}
        payload["message"] = self._assistant(text)
        self._hub.publish(PlaneEvent("chat", payload, session=session))

    def note(self, session: str, agent: str, text: str) -> None:
        """Tell of a note that was put into a transcript."""
        payload = {"runId": f"inject-{new_id()}", "sessionKey": session, "agentId": agent, "seq": 1, "state": "final"}
        self._hub.publish(PlaneEvent("chat", {**payload, "message": self._assistant(text)}, session=session))

    def bare_final(self, run: str, session: str) -> None:
        """Tell that nothing more comes for a request that was answered long ago."""
        payload = {"runId": run, "sessionKey": session, "seq": 1, "state": "final"}
        self._hub.publish(PlaneEvent("chat", payload, session=session))

    def _bare_final(self, run: Run, *, with_text: bool = True) -> None:
        run.seq += 1
        payload: dict[str, Any] = {"runId": run.id, "sessionKey": run.session, "seq": run.seq, "state": "final"}
        if run.text and with_text:
            payload["message"] = self._assistant(run.text)
        self._hub.publish(PlaneEvent("chat", payload, session=run.session))

    def _assistant(self, text: str) -> dict[str, Any]:
        return {"role": "assistant", "content": [{"type": "text", "text": text}], "timestamp": self.now()}

    def _status(self, run: Run, phase: str) -> None:
        run.seq += 1
        self._chat(run, "status", phase=phase)
        run.seq -= 1
        self._agent(run, "run_status", {"phase": phase})

    def _chat(self, run: Run, state: str, **more: Any) -> None:
        if not self._hub.connections:
            return
        payload = {"runId": run.id, "sessionKey": run.session, "agentId": run.agent, "seq": run.seq, "state": state}
        self._hub.publish(PlaneEvent("chat", {**payload, **more}, session=run.session))

    def _agent_payload(self, run: Run, stream: str, data: dict[str, Any]) -> dict[str, Any]:
        run.seq += 1
        payload: dict[str, Any] = {"runId": run.id, "stream": stream, "data": data, "sessionKey": run.session}
        if run.conversation:
            payload["sessionId"] = run.conversation
        return {**payload, "agentId": run.agent, "seq": run.seq, "ts": self.now(), "isHeartbeat": False}

    def _agent(self, run: Run, stream: str, data: dict[str, Any]) -> None:
        if not self._hub.connections:
            run.seq += 1  # Who connects in the middle of a run sees its true numbers.
            return
        self._hub.publish(PlaneEvent("agent", self._agent_payload(run, stream, data), session=run.session))

    def _tool(self, run: Run, data: dict[str, Any]) -> None:
        """Tell clients with the cap `tool-events`; those who watch the list of sessions get it under another name."""
        payload = self._agent_payload(run, "tool", data)
        able = frozenset(c.id for c in self._hub.connections if "tool-events" in c.caller.caps)
        watching = frozenset(c.id for c in self._hub.connections if c.watches_sessions) - able
        self._hub.publish(PlaneEvent("agent", payload, session=run.session, only=able))
        self._hub.publish(PlaneEvent("session.tool", payload, session=run.session, only=watching))

    def _tell_message(self, run: Run, message: dict[str, Any]) -> None:
        only = frozenset(c.id for c in self._hub.connections if c.watches_sessions or run.session in c.subscriptions)
        if only:
            said = {**message, "timestamp": self.now(), "__openclaw": {"runId": run.id}}
            payload = {"sessionKey": run.session, "agentId": run.agent, "message": said}
            if run.conversation:
                payload["sessionId"] = run.conversation
            self._hub.publish(PlaneEvent("session.message", payload, session=run.session, only=only))


def _plain(text: str) -> Any:
    """Return arguments as data, or as the text that the model wrote when that is none."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text
