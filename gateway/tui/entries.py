"""One thing on the screen each: what is said and done in a session, and the sessions; as the gateway tells them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidegate.gateway.client.said import text_of
from tidegate.gateway.client.shape import fields
from tidegate.gateway.client.tools import summary

MAX_TEXT = 200_000
STOPPED = "stopped"


class Kind(StrEnum):
    """What an entry is."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    NOTE = "note"
    ERROR = "error"


class Step(StrEnum):
    """How far an entry is."""

    UNSENT = "unsent"
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    ASIDE = "aside"
    """A stop took it out of the queue."""


@dataclass(slots=True)
class Entry:
    """One thing on the screen.

    Attributes:
        id: Names it: a message of ours by its key, a tool call by its id, a streamed message by its item.
        about: What a tool was called with, in a few words.
        version: Rises with every change, so that what was drawn of it can be kept.
    """

    kind: Kind
    text: str = ""
    id: str = ""
    run: str = ""
    step: Step = Step.DONE
    about: str = ""
    began: int = 0
    ended: int = 0
    version: int = 0


@dataclass(slots=True)
class Row:
    """One session in the list.

    Attributes:
        queued: Messages that wait behind the running turn.
        is_unread: Something was said in it since it was last open here.
        began: Milliseconds since 1970.
    """

    key: str
    title: str = ""
    is_running: bool = False
    queued: int = 0
    updated: int = 0
    is_unread: bool = False
    is_main: bool = False
    began: int = 0


def row_of(session: Mapping[str, Any]) -> Row:
    """Return a session of the gateway's list."""
    names = ("label", "displayName", "derivedTitle")
    title = next((str(session[name]) for name in names if session.get(name)), "")
    return Row(
        str(session.get("key", "")),
        title,
        bool(session.get("hasActiveRun")),
        _number(session.get("queued")),
        _number(session.get("updatedAt")),
        is_main=session.get("isMain") is True,
        began=_number(session.get("createdAt")),
    )


def _number(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def older_offset(page: Mapping[str, Any]) -> int | None:
    """Return where the page before this one of a transcript begins; None when there is none."""
    offset = page.get("nextOffset")
    return offset if page.get("hasMore") and isinstance(offset, int) else None


def entries_of(messages: Sequence[Any]) -> list[Entry]:
    """Return a transcript's messages as they are shown: a tool's call and result are one entry."""
    found: list[Entry] = []
    calls: dict[str, Entry] = {}
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        role, at = message.get("role"), _number(message.get("timestamp"))
        run = str(fields(message.get("__openclaw")).get("runId", ""))
        text = text_of(message)[:MAX_TEXT]
        if role == "toolResult":
            call = calls.get(str(message.get("toolCallId", "")))
            if call is not None:
                call.step, call.ended = (Step.FAILED if message.get("isError") else Step.DONE), at
            continue
        end = message.get("stopReason") if role == "assistant" else ""
        if end == "error":
            reason = str(message.get("errorMessage") or text) or "the run failed"
            found.append(Entry(Kind.ERROR, reason[:MAX_TEXT], run=run))
            continue
        if text.strip() and role in ("user", "assistant"):
            found.append(Entry(Kind(role), text, run=run))
        if end == "aborted":
            found.append(Entry(Kind.NOTE, STOPPED, run=run))
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping) and part.get("type") == "toolCall":
                name, about = str(part.get("name", "")), summary(part.get("arguments"))
                entry = Entry(Kind.TOOL, name, str(part.get("id", "")), run, Step.FAILED, about, at)
                calls[entry.id] = entry
                found.append(entry)
    return found
