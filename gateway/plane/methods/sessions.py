"""The list of sessions, and what can be done to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.gateway.plane.contract import Call, Code, Method, Params, RpcError, Scope
from tidegate.gateway.plane.methods import rows
from tidegate.gateway.plane.methods.desk import Desk
from tidegate.gateway.plane.methods.session_params import (
    Compact,
    Create,
    Delete,
    Describe,
    KeyParams,
    MessagesSubscribe,
    Patch,
    Preview,
    Reset,
    Resolve,
    SessionsList,
)
from tidegate.gateway.plane.methods.talk import Talk
from tidegate.gateway.plane.runs import RunState
from tidegate.ids import new_id
from tidegate.routing.queue_settings import parse_mode
from tidegate.sessions.model import SessionChange, SessionSummary
from tidegate.sessions.wakeups import STOPPED

MAX_SESSIONS = 1000
"""Sessions that are looked at; the most recently used ones."""
MAX_REQUESTS = 1_500
"""Sessions of single API requests that may stand before those of people; more are not kept."""
USUAL = 100
SMALL = 40
"""Lines of a transcript that a preview looks at."""


_STORED = (
    "label",
    "displayName",
    "icon",
    "color",
    "category",
    "archived",
    "pinned",
    "thinkingLevel",
    "verboseLevel",
    "reasoningLevel",
    "model",
)


class Sessions:
    """The methods."""

    def __init__(self, desk: Desk, talk: Talk) -> None:
        self._desk = desk
        self._talk = talk

    async def list(self, call: Call) -> Any:
        """Return a page of sessions, the most recently used first."""
        return await self._page(call.params)

    async def _page(self, params: SessionsList) -> dict[str, Any]:
        desk = self._desk
        looked = MAX_SESSIONS + (MAX_REQUESTS if params.excludeApi else 0)
        found = [row for row in await desk.store.sessions(looked) if self._fits(row, params)]
        kept = [row for row in found if not (params.excludeApi and rows.is_of_request(row.key))]
        left_out, found = len(found) - len(kept), kept[:MAX_SESSIONS]
        limit, offset = params.limit or USUAL, params.offset or 0
        page = found[offset : offset + limit]
        more = offset + len(page) < len(found)
        return {
            "ts": desk.now(),
            "path": str(desk.gateway.site.database),
            "count": len(page),
            "totalCount": len(found),
            "limitApplied": limit,
            **({"offset": offset} if offset else {}),
            "nextOffset": offset + len(page) if more else None,
            "hasMore": more,
            "owners": [],
            **({"apiCount": left_out} if params.excludeApi else {}),
            "defaults": rows.defaults(desk),
            "sessions": [
                await self._row(row, title=bool(params.includeDerivedTitles), last=bool(params.includeLastMessage))
                for row in page
            ],
        }

    def _fits(self, row: SessionSummary, params: SessionsList) -> bool:
        archived = bool(row.settings.get("archived"))
        if rows.is_hidden(row) or (params.archived != "all" and archived is not bool(params.archived)):
            return False
        if params.agentId and row.agent != params.agentId.lower():
            return False
        if params.configuredAgentsOnly and row.agent not in self._desk.agents():
            return False
        if params.activeMinutes and self._desk.now() - row.touched_at // 1000 > params.activeMinutes * 60_000:
            return False
        if params.activeOnly and not row.running:
            return False
        if params.pinned is not None and bool(row.settings.get("pinned")) is not params.pinned:
            return False
        if params.label and row.settings.get("label") != params.label:
            return False
        if params.spawnedBy or params.projectId or params.group or params.hasBoard:
            return False
        text = " ".join(str(row.settings.get(name, "")) for name in ("label", "displayName"))
        return not params.search or params.search.lower() in f"{row.key} {text}".lower()

    async def _row(self, row: SessionSummary, *, title: bool, last: bool) -> dict[str, Any]:
        found = rows.session_row(self._desk, row)
        if title and row.messages:
            conversations = await self._desk.store.conversations(row.key, 1)
            if conversations and conversations[0].title:
                found["derivedTitle"] = conversations[0].title
        if last and row.conversation:
            text = rows.last_text(await self._desk.store.lines(row.conversation, SMALL))
            if text:
                found["lastMessagePreview"] = text
        return found

    async def describe(self, call: Call) -> Any:
        """Return one session, or null."""
        params: Describe = call.params
        key, _ = self._desk.key(params.key, params.agentId)
        row = await self._desk.store.session(key)
        if row is None or rows.is_hidden(row):
            return {"session": None}
        title, last = bool(params.includeDerivedTitles), bool(params.includeLastMessage)
        return {"session": await self._row(row, title=title, last=last)}

    async def preview(self, call: Call) -> Any:
        """Return the last lines of some sessions."""
        params: Preview = call.params
        previews = [await self._preview(key, params.limit or 12, params.maxChars or 240) for key in params.keys]
        return {"ts": self._desk.now(), "previews": previews}

    async def _preview(self, text: str, limit: int, max_chars: int) -> dict[str, Any]:
        key, _ = self._desk.key(text)
        row = await self._desk.store.session(key)
        if row is None or rows.is_hidden(row):
            return {"key": text, "status": "missing", "items": []}
        lines = await self._desk.store.lines(row.conversation, min(limit, 100)) if row.conversation else []
        items = []
        for message in rows.messages(lines, row.started_at // 1000, row.conversation):
            content = message["content"]
            said = content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
            said = said.strip()
            if said:
                role = "tool" if message["role"] == "toolResult" else message["role"]
                items.append({"role": role, "text": said if len(said) <= max_chars else said[: max_chars - 1] + "…"})
        return {"key": text, "status": "ok" if items else "empty", "items": items}

    async def resolve(self, call: Call) -> Any:
        """Return the canonical key of a session that a client names in some way."""
        params: Resolve = call.params
        if params.key:
            key, agent = self._desk.key(params.key, params.agentId)
            return {"ok": True, "key": key, "agentId": agent}
        matching = [row for row in await self._desk.store.sessions(MAX_SESSIONS) if _is_meant(row, params)]
        if params.agentId:
            matching = [row for row in matching if row.agent == params.agentId]
        if len(matching) == 1:
            return {"ok": True, "key": matching[0].key, "agentId": matching[0].agent}
        if params.allowMissing or matching:
            candidates = [{"key": row.key, "agentId": row.agent} for row in matching[:10]]
            return {"ok": False, **({"candidates": candidates} if candidates else {})}
        named = params.sessionId or params.label or params.shortId
        if not named:
            raise RpcError(Code.INVALID_REQUEST, "Either key, sessionId, shortId or label is required")
        raise RpcError(Code.INVALID_REQUEST, f"No session found: {named}")

    async def create(self, call: Call) -> Any:
        """Make a session, and say something in it if there is something to say."""
        params: Create = call.params
        desk = self._desk
        agent = desk.agent(params.agentId, "sessions.create")
        key = desk.key(params.key, params.agentId)[0] if params.key else f"agent:{agent}:dashboard:{new_id()}"
        agent = key.split(":")[1]
        settings = {name: getattr(params, name) for name in ("label", "displayName", "model", "thinkingLevel")}
        settings = {name: value for name, value in settings.items() if value is not None}
        self._check(settings)
        await desk.store.change_session(key, SessionChange(settings={**settings, "deleted": None}), agent)
        await desk.gateway.settings.load()
        text, run = params.message or params.task, params.idempotencyKey or new_id()
        if text or params.attachments:
            await self._talk.chat(call, key, agent, text or "", run, files=params.attachments)
        desk.streams.changed(key, agent, reason="create")
        entry = await self._entry(key)
        started = {"runStarted": True, "runId": run} if text or params.attachments else {"runStarted": False}
        return {"ok": True, "key": key, **_ids(entry), "entry": entry, **started, "resolved": self._resolved(entry)}

    async def _entry(self, key: str) -> dict[str, Any]:
        row = await self._desk.store.session(key)
        return rows.session_row(self._desk, row) if row is not None else {}

    def _resolved(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {"modelProvider": entry.get("modelProvider"), "model": entry.get("model")}

    def _check(self, settings: dict[str, Any]) -> None:
        """Raise RpcError when a setting cannot be used."""
        level = settings.get("thinkingLevel")
        if level is not None:
            rows.check_level(level)
        model = settings.get("model")
        if model is not None and not all(str(model).partition("/")[::2]):
            raise RpcError(Code.INVALID_REQUEST, f'model "{model}" is not a model; write it as provider/model')

    async def patch(self, call: Call) -> Any:
        """Change what is stored about a session."""
        params: Patch = call.params
        desk = self._desk
        key, agent = desk.key(params.key, params.agentId)
        given = params.model_fields_set
        settings = {name: getattr(params, name) for name in _STORED if name in given}
        self._check(settings)
        for name in ("archived", "pinned"):
            if settings.get(name) is False:
                settings[name] = None
        row = await desk.store.session(key)
        if "queueMode" in given:
            queue = dict((row.settings.get("queue") if row else None) or {})
            mode = parse_mode(params.queueMode) if params.queueMode else None
            if params.queueMode and mode is None:
                raise RpcError(Code.INVALID_REQUEST, f'queueMode "{params.queueMode}" is not known')
            queue["mode"] = mode.value if mode is not None else None
            settings["queue"] = {name: value for name, value in queue.items() if value is not None} or None
        if params.expectedSessionId and (row is None or row.conversation != params.expectedSessionId):
            raise RpcError(Code.INVALID_REQUEST, "session changed since last load; reload and retry")
        await desk.store.change_session(key, SessionChange(settings=settings), agent)
        await desk.gateway.settings.load()
        desk.streams.changed(key, agent, reason="patch")
        entry = await self._entry(key)
        path = str(desk.gateway.site.database)
        return {"ok": True, "path": path, "key": key, "entry": entry, "resolved": self._resolved(entry)}

    async def reset(self, call: Call) -> Any:
        """Begin a new conversation; the old one stays in the store."""
        params: Reset = call.params
        key, agent = self._desk.key(params.key, params.agentId)
        await self._begin_anew(key, agent, {})
        self._desk.streams.changed(key, agent, reason=params.reason or "reset")
        entry = await self._entry(key)
        return {"ok": True, "key": key, "entry": entry, "resolved": self._resolved(entry)}

    async def _begin_anew(self, key: str, agent: str, settings: dict[str, Any]) -> bool:
        desk = self._desk
        open_runs = desk.runs.of_session(key, RunState.RUNNING, RunState.WAITING)
        change = SessionChange(stop=True, new_conversation=True, settings=settings)
        changed = await desk.store.change_session(key, change)
        if changed is None:
            return False
        if changed.stopped:
            desk.gateway.wakeups.announce(STOPPED, [changed.stopped])
        for run in open_runs:
            if run.state is RunState.RUNNING:
                desk.streams.abort(run, "rpc")
            elif run.state is RunState.WAITING:
                desk.streams.settle(run, "")
        return True

    async def delete(self, call: Call) -> Any:
        """Take a session off the list. What was said stays in the store, as an earlier conversation."""
        params: Delete = call.params
        desk = self._desk
        key, agent = desk.key(params.key, params.agentId)
        if key == desk.main_key(agent):
            raise RpcError(Code.INVALID_REQUEST, f"Cannot delete the main session ({key}).")
        row = await desk.store.session(key)
        if row is None or rows.is_hidden(row) or (params.archivedOnly and not row.settings.get("archived")):
            return {"ok": True, "key": key, "deleted": False, "archived": []}
        cleared: dict[str, Any] = dict.fromkeys(row.settings)
        await self._begin_anew(key, agent, {**cleared, "deleted": True})
        await desk.gateway.settings.load()
        desk.streams.changed(key, agent, reason="delete")
        return {"ok": True, "key": key, "deleted": True, "archived": [row.conversation] if row.conversation else []}

    async def compact(self, call: Call) -> Any:
        """Say that a transcript needs no compacting: what does not fit is left out when a turn is made."""
        params: Compact = call.params
        key, _ = self._desk.key(params.key, params.agentId)
        reason = "transcripts are shortened by themselves when a turn needs the room"
        return {"ok": False, "key": key, "compacted": False, "reason": reason}

    async def subscribe(self, call: Call) -> Any:
        """Let the connection hear what changes in the list of sessions."""
        connection = self._desk.hub.get(call.caller.connection)
        if connection is not None:
            connection.watches_sessions = True
        params: SessionsList = call.params
        if not params.model_fields_set:
            return {"subscribed": True}
        return {"subscribed": True, "list": await self._page(params)}

    async def unsubscribe(self, call: Call) -> Any:
        """Take it back."""
        connection = self._desk.hub.get(call.caller.connection)
        if connection is not None:
            connection.watches_sessions = False
        return {"subscribed": False}

    async def messages_subscribe(self, call: Call) -> Any:
        """Let the connection hear what is said in a session."""
        key, _ = self._desk.key(call.params.key, call.params.agentId)
        connection = self._desk.hub.get(call.caller.connection)
        if connection is not None and len(connection.subscriptions) >= MAX_SESSIONS:
            raise RpcError(Code.UNAVAILABLE, "too many subscriptions on one connection")
        self._desk.hub.subscribe(call.caller.connection, [key])
        return {"subscribed": True, "key": key}

    async def messages_unsubscribe(self, call: Call) -> Any:
        """Take it back."""
        key, _ = self._desk.key(call.params.key, call.params.agentId)
        self._desk.hub.unsubscribe(call.caller.connection, [key])
        return {"subscribed": False, "key": key}


def _ids(entry: dict[str, Any]) -> dict[str, Any]:
    return {"sessionId": entry["sessionId"]} if entry.get("sessionId") else {}


def _is_meant(row: SessionSummary, params: Resolve) -> bool:
    if rows.is_hidden(row):
        return False
    if params.sessionId:
        return row.conversation == params.sessionId
    if params.label:
        return row.settings.get("label") == params.label
    if params.shortId:
        parts: Sequence[str] = (row.conversation, row.key.rpartition(":")[2])
        return any(part.startswith(params.shortId) for part in parts if part)
    return False


_DANGEROUS = frozenset({"model", "thinkingLevel", "queueMode", "verboseLevel", "reasoningLevel"})


def _patch_scope(params: Patch) -> Scope:
    """Return what a patch needs: names are for those who write, what changes how an agent works is for admins."""
    return Scope.ADMIN if _DANGEROUS & params.model_fields_set else Scope.WRITE


def _create_scope(params: Create) -> Scope:
    return Scope.ADMIN if params.model or params.thinkingLevel else Scope.WRITE


def session_methods(desk: Desk, talk: Talk) -> list[Method]:
    """Return the methods."""
    s = Sessions(desk, talk)
    return [
        Method("sessions.list", SessionsList, s.list, Scope.READ),
        Method("sessions.describe", Describe, s.describe, Scope.READ),
        Method("sessions.preview", Preview, s.preview, Scope.READ),
        Method("sessions.resolve", Resolve, s.resolve, Scope.READ, hidden=True),
        Method("sessions.subscribe", SessionsList, s.subscribe, Scope.READ),
        Method("sessions.unsubscribe", Params, s.unsubscribe, Scope.READ),
        Method("sessions.messages.subscribe", MessagesSubscribe, s.messages_subscribe, Scope.READ),
        Method("sessions.messages.unsubscribe", KeyParams, s.messages_unsubscribe, Scope.READ),
        Method("sessions.create", Create, s.create, _create_scope),
        Method("sessions.patch", Patch, s.patch, _patch_scope),
        Method("sessions.reset", Reset, s.reset, Scope.ADMIN),
        Method("sessions.delete", Delete, s.delete, Scope.ADMIN),
        Method("sessions.compact", Compact, s.compact, Scope.ADMIN),
    ]
