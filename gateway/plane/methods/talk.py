"""Saying something to an agent, stopping it, and waiting for what comes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.adapters.webchat.adapter import PERSON, address_of
from tidegate.agent_runtime.messages import Message, Role
from tidegate.agent_runtime.transcript import encode_message
from tidegate.errors import StoreError
from tidegate.events import Attachment, MessageEvent, Peer, PeerKind, Sender, clean_text
from tidegate.gateway.plane.contract import Call, Code, Method, Params, PlaneEvent, RpcError, Scope, ScopeOf
from tidegate.gateway.plane.methods.attachments import take_attachments
from tidegate.gateway.plane.methods.desk import Desk
from tidegate.gateway.plane.methods.finals import final_of, stored_final
from tidegate.gateway.plane.methods.rows import check_level
from tidegate.gateway.plane.methods.talk_params import (
    AgentCall,
    AgentWait,
    ChatAbort,
    ChatInject,
    ChatSend,
    File,
    SessionsAbort,
    SessionSend,
    SystemEvent,
    Wake,
)
from tidegate.gateway.plane.runs import Run, RunKind, RunState
from tidegate.ids import new_id
from tidegate.routing.commands import is_abort_request
from tidegate.sessions.model import AppendStatus, SessionChange, TurnState
from tidegate.sessions.wakeups import SESSIONS, STOPPED

CALLER = "operator"
"""Keys of requests are one space for all operators: a person goes on at another device."""
AGENT_SECONDS = 600
WAIT_SECONDS = 30
MAX_NOTE = 10_000
"""Characters of a system event."""
MAX_WAIT_SECONDS = 24 * 3600.0


_SHOWN = ("text", "host", "mode", "version", "platform", "deviceFamily", "lastInputSeconds", "reason", "tags")


class Talk:
    """The methods, and what they have in common."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def chat_send(self, call: Call) -> Any:
        """Take a message; what follows comes as events."""
        params: ChatSend = call.params
        if not params.message.strip() and not params.attachments:
            raise RpcError(Code.INVALID_REQUEST, "message or attachment required")
        key, agent = self._desk.key(params.sessionKey, params.agentId)
        commands = not params.suppressCommandInterpretation
        await self.think(key, agent, params.thinking)
        return await self.chat(
            call, key, agent, params.message, params.idempotencyKey, commands=commands, files=params.attachments
        )

    async def think(self, key: str, agent: str, level: str | None) -> None:
        """Let a session think as much as a client asks for, from now on. Raises RpcError for an unknown level."""
        if not level:
            return
        check_level(level)
        row = await self._desk.store.session(key)
        if row is None or row.settings.get("thinkingLevel", "off") != level:
            await self._desk.store.change_session(key, SessionChange(settings={"thinkingLevel": level}), agent)

    async def chat(
        self,
        call: Call,
        key: str,
        agent: str,
        text: str,
        run: str,
        *,
        commands: bool = True,
        files: Sequence[File] | None = None,
    ) -> Any:
        """Take a message for a session; answers as `chat.send` does."""
        if (known := self._known(key, run)) is not None:
            return known
        if commands and is_abort_request(text):
            return await self._abort(key, None)
        stored = await take_attachments(self._desk.gateway.blobs, [file.as_sent() for file in files or ()])
        if (known := self._known(key, run)) is not None:
            # The same request came on another connection while the files were stored, and is the run now.
            return known
        if not await self.say(call, key, agent, text, run, RunKind.CHAT, commands=commands, files=stored):
            call.spawn(self._answered_before(run, key))
        return {"runId": run, "status": "started"}

    def _known(self, key: str, run: str) -> dict[str, Any] | None:
        """Return the answer to a repeat of a request whose run is known."""
        known = self._desk.runs.get(key, run)
        if known is None:
            return None
        return {"runId": run, "status": "ok" if known.state is RunState.ENDED else "in_flight"}

    async def _answered_before(self, run: str, key: str) -> None:
        self._desk.streams.bare_final(run, key)

    async def say(
        self,
        call: Call,
        key: str,
        agent: str,
        text: str,
        run: str,
        kind: RunKind,
        *,
        commands: bool = True,
        sender: Sender | None = None,
        owner: bool = True,
        files: tuple[Attachment, ...] = (),
    ) -> bool:
        """Make a message durable as the beginning of a run; False when it was stored before.

        Args:
            sender: Who says it; an operator unless said otherwise.
            owner: It is said with the rights of the owner.
        """
        desk = self._desk
        made = desk.runs.add(run, key, agent, kind, desk.now())
        event = MessageEvent(
            address=address_of(key),
            peer=Peer(PeerKind.DIRECT, PERSON),
            sender=sender or Sender(PERSON, call.caller.client.display_name[:64]),
            message_id=run,
            text=clean_text(text),
            received_at=desk.gateway.clock.now(),
            attachments=files,
        )
        try:
            stored = await desk.gateway.inbound.receive_for(event, key, agent, commands=commands, owner=owner)
        except StoreError:
            desk.runs.drop(made)
            raise
        if stored.status is AppendStatus.DUPLICATE:
            turn = await desk.store.answered(event)
            is_over = turn is not None and turn.state is not TurnState.RUNNING
            if is_over or not await self._still_open(key):
                desk.runs.drop(made)
            return False
        if stored.status is AppendStatus.REFUSED:
            desk.streams.fail(made, "the queue of this session is full; try again later")
        desk.streams.changed(key, agent, reason="send")
        return True

    async def _still_open(self, key: str) -> bool:
        row = await self._desk.store.session(key)
        return row is not None and (row.running or row.waiting > 0)

    async def sessions_send(self, call: Call) -> Any:
        """Take a message for a session that is named."""
        params: SessionSend = call.params
        key, agent = self._desk.key(params.key, params.agentId)
        if not params.message.strip() and not params.attachments:
            raise RpcError(Code.INVALID_REQUEST, "message or attachment required")
        await self.think(key, agent, params.thinking)
        run = params.idempotencyKey or new_id()
        return await self.chat(call, key, agent, params.message, run, files=params.attachments)

    async def agent(self, call: Call) -> Any:
        """Take a message, answer at once, and a second time when the run has ended."""
        params: AgentCall = call.params
        key, agent = await self._agent_session(params)
        if params.thinking:
            check_level(params.thinking)
        files = await take_attachments(self._desk.gateway.blobs, params.attachments)
        run, desk = params.idempotencyKey, self._desk
        accepted = {"runId": run, "sessionKey": key, "agentId": agent, "status": "accepted", "acceptedAt": desk.now()}
        before = await desk.store.claim_key(CALLER, "agent", run, json.dumps(accepted))
        if before is not None:
            stored: dict[str, Any] = json.loads(before)
            if stored.get("sessionKey", key) != key:
                raise RpcError(Code.INVALID_REQUEST, "idempotencyKey was used for another session")
            if stored.get("status") != "accepted":
                found: dict[str, Any] = stored.get("final", stored)
                return found
            accepted = stored
        if desk.runs.get(key, run) is None:
            await self._override(key, agent, params)
        if desk.runs.get(key, run) is None:
            fresh = await self.say(call, key, agent, params.message, run, RunKind.AGENT, files=files)
            if not fresh and desk.runs.get(key, run) is None:
                return await self._answered_elsewhere(run, key)
        call.spawn(self._finish_agent(call, run, key, params.timeout))
        return accepted

    async def _keep(self, run: str, key: str, final: dict[str, Any]) -> None:
        """Keep the final answer for repeats, with the session that it belongs to."""
        await self._desk.store.settle_key(CALLER, "agent", run, json.dumps({"sessionKey": key, "final": final}))

    async def _answered_elsewhere(self, run: str, key: str) -> dict[str, Any]:
        """Return the final answer of a run that another process ended, from the store; keep it for the next repeat."""
        desk = self._desk
        event = MessageEvent(address_of(key), Peer(PeerKind.DIRECT, PERSON), Sender(PERSON), run, "", received_at=0)
        final = stored_final(run, key, await desk.store.answered(event))
        await self._keep(run, key, final)
        return final

    async def _agent_session(self, params: AgentCall) -> tuple[str, str]:
        desk = self._desk
        agent = desk.agent(params.agentId)
        if params.sessionKey:
            return desk.key(params.sessionKey, params.agentId)
        if params.sessionId:
            for row in await desk.store.sessions(1000):
                if row.conversation == params.sessionId and row.agent in desk.agents():
                    return row.key, row.agent
            return desk.key(f"agent:{agent}:explicit:{params.sessionId}")
        if params.to:
            return desk.key(f"agent:{agent}:{params.channel or 'to'}:direct:{params.to}")
        return desk.main_key(agent), agent

    async def _override(self, key: str, agent: str, params: AgentCall) -> None:
        model = f"{params.provider}/{params.model}" if params.provider and params.model else params.model
        settings = {"model": model, "thinkingLevel": params.thinking}
        chosen = {name: value for name, value in settings.items() if value}
        if chosen:
            await self._desk.store.change_session(key, SessionChange(settings=chosen), agent)

    async def _finish_agent(self, call: Call, run: str, key: str, timeout: int | None) -> None:
        desk = self._desk
        seconds = AGENT_SECONDS if timeout is None else timeout
        ended = await desk.runs.ended(run, seconds or None, key)
        if ended is None:
            await self._abort(key, run, "timeout")
            call.later({"runId": run, "status": "timeout", "summary": "timed out", "result": {"payloads": []}})
            return
        if ended.status == "error":
            failed = {"runId": run, "status": "error", "summary": ended.error, "result": {"payloads": []}}
            await self._keep(run, key, failed)
            call.later(RpcError(Code.UNAVAILABLE, ended.error or "the run failed", {"runId": run, "status": "error"}))
            return
        final = final_of(ended)
        await self._keep(run, key, final)
        call.later(final)

    async def agent_wait(self, call: Call) -> Any:
        """Answer when a run has ended, or when the time is up."""
        params: AgentWait = call.params
        seconds = WAIT_SECONDS if params.timeoutMs is None else params.timeoutMs / 1000
        run = await self._desk.runs.ended(params.runId, min(seconds, MAX_WAIT_SECONDS))
        if run is None:
            return {"runId": params.runId, "status": "timeout"}
        status = {"ok": "ok", "aborted": "error"}.get(run.status, run.status)
        found = {
            "runId": run.id,
            "status": status,
            "startedAt": run.started_at or run.asked_at,
            "endedAt": run.ended_at,
            "stopReason": run.stop_reason,
            "livenessState": "blocked" if run.error else "working",
            "terminalReply": {"disposition": "visible" if run.text else "silent", "text": run.text},
        }
        return {**found, "error": run.error} if run.error else found

    async def chat_abort(self, call: Call) -> Any:
        """Stop what a session does."""
        params: ChatAbort = call.params
        key, _ = self._desk.key(params.sessionKey, params.agentId)
        return await self._abort(key, params.runId)

    async def sessions_abort(self, call: Call) -> Any:
        """Stop what a session does, or one run."""
        params: SessionsAbort = call.params
        if params.key is None and params.runId is None:
            raise RpcError(Code.INVALID_REQUEST, "sessions.abort requires key or runId")
        run = self._desk.runs.find(params.runId or "")
        if params.key is None and run is None:
            return {"ok": True, "abortedRunId": None, "status": "no-active-run"}
        key = run.session if run is not None and params.key is None else self._desk.key(params.key or "")[0]
        done = await self._abort(key, params.runId)
        ids = done["runIds"]
        status = "aborted" if done["aborted"] else "no-active-run"
        return {"ok": True, "abortedRunId": ids[-1] if ids else None, "status": status}

    async def _abort(self, key: str, run: str | None, reason: str = "rpc") -> dict[str, Any]:
        desk = self._desk
        open_runs = desk.runs.of_session(key, RunState.RUNNING, RunState.WAITING)
        if run is not None and run not in {item.id for item in open_runs}:
            return {"ok": True, "aborted": False, "runIds": []}
        running = [item for item in open_runs if item.state is RunState.RUNNING]
        if run is not None and running and run not in {item.id for item in running}:
            # One waiting message cannot be taken out of the middle of a queue.
            return {"ok": True, "aborted": False, "runIds": []}
        changed = await desk.store.change_session(key, SessionChange(stop=True))
        if changed is None or (changed.stopped is None and not changed.set_aside):
            return {"ok": True, "aborted": False, "runIds": []}
        if changed.stopped:
            desk.gateway.wakeups.announce(STOPPED, [changed.stopped])
        return {"ok": True, "aborted": True, "runIds": await self._told_aborted(key, open_runs, reason)}

    async def _told_aborted(self, key: str, open_runs: list[Run], reason: str) -> list[str]:
        desk, told = self._desk, []
        for run in open_runs:
            if run.state is RunState.RUNNING:
                desk.streams.abort(run, reason)
                if run.unwritten:
                    body = encode_message(Message(Role.ASSISTANT, run.unwritten))
                    await desk.store.add_message(key, body, run=run.turn)
            elif run.state is RunState.WAITING:
                desk.streams.settle(run, "")
            told.append(run.id)
        return told

    async def chat_inject(self, call: Call) -> Any:
        """Put a note into a transcript without asking the agent."""
        params: ChatInject = call.params
        desk = self._desk
        key, agent = desk.key(params.sessionKey, params.agentId)
        text = f"[{params.label}]\n\n{params.message}" if params.label else params.message
        written = await desk.store.add_message(key, encode_message(Message(Role.ASSISTANT, clean_text(text))), agent)
        if written is None:
            raise RpcError(Code.UNAVAILABLE, "the session runs a turn; try again when it has ended", retryable=True)
        desk.streams.changed(key, agent, reason="chat.inject")
        desk.streams.note(key, agent, text)
        return {"ok": True, "messageId": f"{written[0]}:{written[1]}"}

    async def system_event(self, call: Call) -> Any:
        """Tell the agent something with the next message of its main session, and show who said it."""
        params: SystemEvent = call.params
        desk = self._desk
        key, agent = desk.key(params.sessionKey) if params.sessionKey else self._main(None)
        await self._note(key, agent, params.text)
        shown = {name: getattr(params, name) for name in _SHOWN if getattr(params, name) is not None}
        name = params.instanceId or params.deviceId or params.host
        if name:
            desk.hub.roster.put(f"event:{name}", {"reason": "system-event", **shown, "ts": desk.now()})
            desk.hub.publish(PlaneEvent("presence", {"presence": desk.hub.roster.rows()}))
        return {"ok": True}

    def _main(self, name: str | None) -> tuple[str, str]:
        agent = self._desk.agent(name)
        return self._desk.main_key(agent), agent

    async def _note(self, key: str, agent: str, text: str) -> None:
        event = MessageEvent(
            address=address_of(key),
            peer=Peer(PeerKind.DIRECT, PERSON),
            sender=Sender("system", "System"),
            message_id=new_id(),
            text=clean_text(text[:MAX_NOTE]),
            received_at=self._desk.gateway.clock.now(),
        )
        await self._desk.gateway.inbound.note_for(event, key, agent)

    async def wake(self, call: Call) -> Any:
        """Hand a text to the main session: at once, or with the next message there (there are no heartbeats)."""
        params: Wake = call.params
        desk = self._desk
        if params.sessionKey:
            key, agent = desk.key(params.sessionKey, params.agentId)
        else:
            key, agent = self._main(params.agentId)
        if params.mode == "next-heartbeat":
            await self._note(key, agent, params.text)
            return {"ok": True}
        await self.say(call, key, agent, f"System: {params.text}", new_id(), RunKind.CHAT, commands=False)
        desk.gateway.wakeups.announce(SESSIONS, [key])
        return {"ok": True}


def _agent_scope(params: AgentCall) -> Scope:
    """Return what a run needs: who chooses its model chooses who pays for it."""
    return Scope.ADMIN if params.model or params.provider else Scope.WRITE


def _needs_session(raw: Any) -> None:
    """Say what clients match on when `chat.send` names no session."""
    if not isinstance(raw, Mapping) or not raw.get("sessionKey"):
        details = {"code": "SESSION_MUTATION_TARGET_REQUIRED", "method": "chat.send"}
        raise RpcError(Code.INVALID_REQUEST, "session mutation target is unavailable", details)


def talk_methods(talk: Talk) -> list[Method]:
    """Return the methods."""

    def method(
        name: str, params: type[Params], handler: Any, scope: ScopeOf = Scope.WRITE, *, hidden: bool = False
    ) -> Method:
        return Method(name, params, handler, scope, hidden=hidden)

    return [
        Method("chat.send", ChatSend, talk.chat_send, Scope.WRITE, precheck=_needs_session),
        method("chat.abort", ChatAbort, talk.chat_abort),
        method("chat.inject", ChatInject, talk.chat_inject, Scope.ADMIN, hidden=True),
        method("agent", AgentCall, talk.agent, _agent_scope),
        Method("agent.wait", AgentWait, talk.agent_wait, Scope.WRITE, lasting=False),
        method("sessions.send", SessionSend, talk.sessions_send),
        method("sessions.abort", SessionsAbort, talk.sessions_abort),
        method("sessions.steer", SessionSend, talk.sessions_send, hidden=True),
        method("wake", Wake, talk.wake),
        method("system-event", SystemEvent, talk.system_event, Scope.ADMIN),
    ]
