"""Threads and forum topics inside session keys."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tidegate.routing.normalize import trim

THREAD_MARK: Final = ":thread:"
_TOPIC: Final = re.compile(r"(?P<chat>.+?)(?::topic)?:(?P<topic>-?\d+)", re.IGNORECASE)
_THREAD_ID: Final = re.compile(r"(?:-?\d+(?::topic)?:)?(-?\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ThreadKeys:
    """A session key and the key of the session it branched off, if any."""

    key: str
    parent: str | None = None


def thread_keys(base: str, thread: str | None, parent: str | None = None, *, keep_case: bool = False) -> ThreadKeys:
    """Return the keys of a thread that hangs under `base`; a blank thread is the base itself."""
    name = trim(thread or "")
    if not name:
        return ThreadKeys(base)
    return ThreadKeys(f"{base}{THREAD_MARK}{name if keep_case else name.lower()}", parent)


def split_thread(key: str) -> tuple[str, str | None]:
    """Return a key without its last thread suffix, and that thread's id or None."""
    trimmed = trim(key)
    at = trimmed.lower().rfind(THREAD_MARK)
    if at < 0:
        return trimmed, None
    return trimmed[:at], trim(trimmed[at + len(THREAD_MARK) :]) or None


def telegram_topic_peer(chat: str, topic: int | None) -> str:
    """Return the peer id of a Telegram forum topic, or of the plain group without one."""
    return chat if topic is None else f"{chat}:topic:{topic}"


def telegram_forum_topic(*, is_group: bool, is_forum: bool, thread: int | None) -> int | None:
    """Return the topic of a group message; the general topic of a forum is 1.

    Telegram also sets thread ids on replies in ordinary groups, where they mean nothing to us.
    """
    if not (is_group and is_forum):
        return None
    return 1 if thread is None else thread


def parse_topic(conversation: str) -> tuple[str, int] | None:
    """Return chat and topic of `<chat>:topic:<n>` (or the short `<chat>:<n>`), or None."""
    found = _TOPIC.fullmatch(trim(conversation))
    return (found["chat"], int(found["topic"])) if found else None


def parse_thread_id(text: str) -> int | None:
    """Return the thread id in `5`, `-100:5` or `-100:topic:5`, or None when there is none."""
    found = _THREAD_ID.fullmatch(trim(text))
    return int(found[1]) if found else None
