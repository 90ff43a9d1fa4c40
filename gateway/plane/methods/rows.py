"""Sessions and messages in the shapes that clients read."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from tidegate.agent_runtime.messages import Message, Role
from tidegate.agent_runtime.models.catalog import window_of
from tidegate.agent_runtime.models.demo import DEMO_MODEL
from tidegate.agent_runtime.transcript import decode_message
from tidegate.gateway.egress import visible
from tidegate.gateway.plane.contract import Code, RpcError
from tidegate.gateway.plane.methods.desk import Desk
from tidegate.gateway.plane.methods.endings import with_ending
from tidegate.gateway.plane.runs import RunState
from tidegate.sessions.model import SessionSummary
from tidegate.sessions.operating import Line

PREVIEW = 200
"""Characters of the last message in a row."""
_REQUEST = re.compile(r"agent:[^:]+:(?:openai|openresponses):[^:]{8}-[^:]{4}-[^:]{4}-[^:]{4}-[^:]{12}")
LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh")
"""Thinking levels that a session may ask for."""


def check_level(level: str) -> None:
    """Raise RpcError when a session cannot think as much as that."""
    if level not in LEVELS:
        text = f'thinkingLevel "{level}" is not supported (use {"|".join(LEVELS)})'
        raise RpcError(Code.INVALID_REQUEST, text)


def model_of(desk: Desk, agent: str, settings: Any = None) -> tuple[str, str]:
    """Return provider and model that a session's next turn asks first."""
    chosen = (settings or {}).get("model")
    if not chosen:
        options = next((row for row in desk.gateway.loaded.config.agents.roster() if row.id == agent), None)
        chosen = (options.model.primary if options else None) or DEMO_MODEL
    provider, _, model = str(chosen).partition("/")
    return provider, model


def window(desk: Desk, provider: str, model: str) -> int:
    """Return how many tokens a model takes."""
    configured = desk.gateway.loaded.config.models.providers.get(provider)
    entries = configured.models if configured is not None else ()
    for entry in entries:
        if entry.id == model and (entry.context_tokens or entry.context_window):
            return int(entry.context_tokens or entry.context_window or 0)
    return window_of(provider, model)


def defaults(desk: Desk) -> dict[str, Any]:
    """Return what holds for sessions that say nothing else."""
    provider, model = model_of(desk, str(desk.defaults()["defaultAgentId"]))
    return {
        "modelProvider": provider,
        "model": model,
        "contextTokens": window(desk, provider, model),
        "thinkingLevels": [{"id": level, "label": level} for level in LEVELS],
        "thinkingOptions": list(LEVELS),
        "thinkingDefault": "off",
        "modelSelectionTarget": "session",
    }


def is_hidden(row: SessionSummary) -> bool:
    """Return whether a session was deleted and nobody has said anything in it since."""
    return bool(row.settings.get("deleted")) and not row.messages and not row.waiting


def is_of_request(key: str) -> bool:
    """Return whether a session was made for one request of a program that named no conversation."""
    return _REQUEST.fullmatch(key) is not None


def session_row(desk: Desk, row: SessionSummary) -> dict[str, Any]:
    """Return a session as clients read it."""
    rest = row.key.split(":")[2:]
    is_group = "group" in rest or "channel" in rest
    settings = row.settings
    provider, model = model_of(desk, row.agent, settings)
    active = desk.runs.active(row.key)
    ended = desk.runs.of_session(row.key, RunState.ENDED)
    found: dict[str, Any] = {
        "key": row.key,
        "agentId": row.agent,
        "kind": "group" if is_group else "direct",
        "chatType": "group" if is_group else "direct",
        "classification": "main" if desk.main_key(row.agent) == row.key else ("group" if is_group else "direct"),
        "isMain": desk.main_key(row.agent) == row.key,
        "createdAt": row.started_at // 1000,
        "updatedAt": row.touched_at // 1000,
        "lastInteractionAt": row.touched_at // 1000,
        "archived": bool(settings.get("archived")),
        "pinned": bool(settings.get("pinned")),
        "unread": False,
        "systemSent": row.messages > 0,
        "abortedLastRun": bool(ended) and ended[-1].status == "aborted",
        "modelProvider": provider,
        "model": model,
        "modelOverrideSource": "user" if settings.get("model") else None,
        "contextTokens": window(desk, provider, model),
        "inputTokens": sum(run.tokens_in for run in ended),
        "outputTokens": sum(run.tokens_out for run in ended),
        "totalTokens": sum(run.tokens_in + run.tokens_out for run in ended),
        "totalTokensFresh": False,
        "status": "running" if row.running or active else "done",
        "hasActiveRun": row.running or bool(active),
        "activeRunIds": active,
        "queued": max(0, row.waiting - (1 if row.running else 0)),
    }
    found |= {"sessionId": row.conversation} if row.conversation else {}
    if len(rest) > 1 and rest[0] in {name for name, _ in _channels(desk)}:
        found["channel"] = rest[0]
    if is_of_request(row.key):
        found["viaApi"] = True
    for name in (
        "label",
        "displayName",
        "thinkingLevel",
        "verboseLevel",
        "reasoningLevel",
        "category",
        "icon",
        "color",
    ):
        if settings.get(name) is not None:
            found[name] = settings[name]
    queue = settings.get("queue")
    if isinstance(queue, dict) and queue.get("mode"):
        found["effectiveQueueMode"] = queue["mode"]
    return found


def _channels(desk: Desk) -> set[tuple[str, str]]:
    return {(row.channel, row.account) for row in desk.gateway.connections.all()}


async def row_of(desk: Desk, key: str) -> dict[str, Any] | None:
    """Return the row of a session that is there."""
    row = await desk.store.session(key)
    return session_row(desk, row) if row is not None and not is_hidden(row) else None


def message(line: Line, fallback_ms: int, conversation: str) -> dict[str, Any]:
    """Return a message of a transcript as clients read it.

    Args:
        fallback_ms: Its time where the transcript knows none.
    """
    said = decode_message(line.body)
    at = line.at // 1000 or fallback_ms
    about: dict[str, Any] = {"id": f"{conversation}:{line.seq}", "seq": line.seq, "recordTimestampMs": at}
    if line.run:
        about["runId"] = line.run
    if said.role is Role.USER:
        return {"role": "user", "content": said.text, "timestamp": at, "__openclaw": about}
    if said.role is Role.TOOL:
        content = [{"type": "text", "text": said.text}]
        tool = {"toolCallId": said.tool_call_id, "isError": said.is_error}
        return {"role": "toolResult", "content": content, **tool, "timestamp": at, "__openclaw": about}
    provider, _, model = line.model.partition("/")
    return {
        "role": "assistant",
        "content": _content(said),
        **({"provider": provider, "model": model} if line.model else {}),
        "stopReason": "toolUse" if said.tool_calls else "stop",
        "timestamp": at,
        "__openclaw": about,
    }


def _content(said: Message) -> list[dict[str, Any]]:
    text = visible(said.text)
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for call in said.tool_calls:
        try:
            arguments = json.loads(call.arguments or "{}")
        except ValueError:
            arguments = call.arguments
        content.append({"type": "toolCall", "id": call.id, "name": call.name, "arguments": arguments})
    return content


def messages(lines: Sequence[Line], began_ms: int, conversation: str) -> list[dict[str, Any]]:
    """Return messages as clients read them, with the ends of turns that gave no whole answer."""
    found: list[dict[str, Any]] = []
    last = began_ms
    for line in lines:
        last = line.at // 1000 or last
        found += with_ending(line, message(line, last, conversation), conversation)
    return found


def last_text(lines: Sequence[Line]) -> str:
    """Return the newest visible text, shortened."""
    for line in reversed(lines):
        said = decode_message(line.body)
        text = " ".join(visible(said.text).split())
        if said.role is not Role.TOOL and text:
            return text if len(text) <= PREVIEW else text[: PREVIEW - 1] + "…"
    return ""
