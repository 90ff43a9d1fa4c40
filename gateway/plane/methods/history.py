"""What was said: transcripts, and what of a run is not in one yet."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from tidegate.gateway.plane.contract import Call, Code, Method, Params, RpcError, Scope, Text
from tidegate.gateway.plane.methods import rows
from tidegate.gateway.plane.methods.desk import Desk

MAX_MESSAGES = 1000
USUAL = 200
Limit = Annotated[int, Field(ge=1, le=MAX_MESSAGES)]


class ChatHistory(Params):
    """`chat.history`."""

    sessionKey: Text
    agentId: Text | None = None
    cursor: str | None = None
    limit: Limit | None = None
    maxBytes: Annotated[int, Field(ge=1024)] | None = None
    offset: Annotated[int, Field(ge=0)] | None = None
    pendingBefore: int | None = None
    inputRunIds: list[str] | None = None
    messageId: Text | None = None
    sessionId: Text | None = None
    maxChars: Annotated[int, Field(ge=1, le=500_000)] | None = None


class MessageGet(Params):
    """`chat.message.get`."""

    sessionKey: Text
    messageId: Text
    agentId: Text | None = None
    maxChars: int | None = None


class SessionsGet(Params):
    """`sessions.get`."""

    key: Text
    agentId: Text | None = None
    limit: Limit | None = None


class History:
    """The methods."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def chat_history(self, call: Call) -> Any:
        """Return a page of a transcript, the newest messages first asked for, oldest first given."""
        params: ChatHistory = call.params
        desk = self._desk
        key, _ = desk.key(params.sessionKey, params.agentId)
        row = await desk.store.session(key)
        empty: dict[str, Any] = {"sessionKey": key, "messages": [], "pendingInputs": {"items": [], "total": 0}}
        if row is None:
            return {**empty, "hasMore": False, "totalMessages": 0, "defaults": rows.defaults(desk)}
        limit, offset = params.limit or USUAL, params.offset or 0
        found: list[dict[str, Any]] = []
        more, counted = False, 0
        if row.conversation and row.messages > offset:
            before = row.messages - offset + 1
            lines = await desk.store.lines(row.conversation, limit, before)
            found = rows.messages(lines, row.started_at // 1000, row.conversation)
            more, counted = bool(lines) and lines[0].seq > 1, len(lines)
        answer = {**empty, "messages": _cut(found, params.maxChars), "hasMore": more, "totalMessages": row.messages}
        if row.conversation:
            answer["sessionId"] = row.conversation
        if more:
            answer["nextOffset"] = offset + counted
        answer["pendingInputs"] = {"items": [], "total": max(0, row.waiting - (1 if row.running else 0))}
        answer |= {"defaults": rows.defaults(desk), "sessionInfo": rows.session_row(desk, row)}
        if row.settings.get("thinkingLevel"):
            answer["thinkingLevel"] = row.settings["thinkingLevel"]
        active = desk.runs.active(key)
        run = desk.runs.get(key, active[-1]) if active else None
        if run is not None:
            answer["inFlightRun"] = {"runId": run.id, "text": run.whole(run.shown)}
        return answer

    async def message_get(self, call: Call) -> Any:
        """Return one whole message."""
        params: MessageGet = call.params
        key, _ = self._desk.key(params.sessionKey, params.agentId)
        row = await self._desk.store.session(key)
        conversation, _, number = params.messageId.rpartition(":")
        if row is None or conversation != row.conversation or not number.isdecimal():
            raise RpcError(Code.INVALID_REQUEST, f"message not found: {params.messageId}")
        lines = await self._desk.store.lines(conversation, 1, int(number) + 1)
        if not lines or lines[0].seq != int(number):
            raise RpcError(Code.INVALID_REQUEST, f"message not found: {params.messageId}")
        return {"sessionKey": key, "message": rows.message(lines[0], row.started_at // 1000, conversation)}

    async def sessions_get(self, call: Call) -> Any:
        """Return the messages of a session."""
        params: SessionsGet = call.params
        key, _ = self._desk.key(params.key, params.agentId)
        row = await self._desk.store.session(key)
        if row is None or not row.conversation:
            return {"messages": []}
        lines = await self._desk.store.lines(row.conversation, params.limit or USUAL)
        return {"messages": rows.messages(lines, row.started_at // 1000, row.conversation)}


def _cut(messages: list[dict[str, Any]], max_chars: int | None) -> list[dict[str, Any]]:
    """Shorten texts that are longer than a client wants to see."""
    if max_chars is None:
        return messages
    return [{**message, "content": _shorter(message["content"], max_chars)} for message in messages]


def _shorter(content: Any, max_chars: int) -> Any:
    if isinstance(content, str):
        return content if len(content) <= max_chars else content[:max_chars] + "…"
    return [{**part, "text": _shorter(part["text"], max_chars)} if "text" in part else part for part in content]


def history_methods(desk: Desk) -> list[Method]:
    """Return the methods."""
    history = History(desk)
    return [
        Method("chat.history", ChatHistory, history.chat_history, Scope.READ),
        Method("chat.message.get", MessageGet, history.message_get, Scope.READ),
        Method("sessions.get", SessionsGet, history.sessions_get, Scope.READ, hidden=True),
    ]
