"""Every sentence that Tidegate itself says in a chat, written once. Never the text of an exception."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from tidegate.clock import SECOND

FAILURES = {
    "auth": "The model provider did not accept its key, so I cannot answer. The operator needs to check it.",
    "billing": "The model provider says that its account cannot be charged, so I cannot answer right now.",
    "rate_limit": "The model is limiting requests right now. Please send your message again in a few minutes.",
    "overloaded": "The model is overloaded right now. Please send your message again in a few minutes.",
    "timeout": "The model took too long to answer. Please send your message again.",
    "network": "I could not reach the model. Please send your message again in a few minutes.",
    "server": "The model had an internal problem. Please send your message again in a few minutes.",
    "not_found": "The configured model does not exist at its provider. The operator needs to check its name.",
    "format": "The model answered in a way I could not read. Please send your message again.",
    "empty": "The model gave no answer. Please send your message again, perhaps in other words.",
    "context_overflow": "This conversation has become too long for the model. Send /new to begin a fresh one.",
    "refused": "The model declined to answer this.",
}
FOR_THE_OPERATOR = frozenset({"auth", "billing", "not_found"})
"""Failures that stay until whoever runs the gateway changes something."""
FAILURE = "Something went wrong on my side and I could not answer. Please send your message again."
EXHAUSTED = (
    "I tried to answer this message several times and stopped each time, so I am giving up on it. "
    "Please send it again, perhaps in other words."
)
STALE = {
    "daily": "(New day, new conversation. /resume brings the earlier one back.)",
    "idle": "(You were away for a while, so this is a new conversation. /resume brings the earlier one back.)",
}
NOT_AVAILABLE = "/{name} is not available here."
NOT_ALLOWED = "You may not use /{name} here."
STOPPED = "Stopped."
NOTHING_TO_STOP = "Nothing is running."
NEW_CONVERSATION = "A new conversation begins. /resume brings the earlier one back."
NO_CONVERSATIONS = "There is no earlier conversation here."
NO_SUCH_CONVERSATION = "There is no such conversation here. Send /resume for the list."
RESUMED = "Back in the conversation from {when}."
QUEUE_RESET = "The queue follows the configuration again."
UNROUTED = "No agent is configured for this chat. The operator has been told."
PAIRED = "You are in. Say hello!"
PAIRED_OWNER = "You are in, and you are now this gateway's owner. Say hello!"


def failure(kind: str, detail: str = "") -> str:
    """Return what a person reads when a turn ended because of a model error of this kind.

    Args:
        detail: What exactly happened, as the owner may know it; empty for everybody else.
    """
    general = FAILURES.get(kind, FAILURE)
    if not detail:
        return general
    if kind in FOR_THE_OPERATOR:
        return f"I cannot answer: {detail}. `tidegate doctor` says what to check."
    return f"{general}\n({detail})"


def set_aside(count: int) -> str:
    """Return the note about earlier messages that stay unanswered."""
    return f"({_messages(count)} before this one {'was' if count == 1 else 'were'} set aside.)"


def stopped(count: int, *, was_running: bool) -> str:
    """Return the answer to /stop."""
    head = STOPPED if was_running else NOTHING_TO_STOP
    if not count:
        return head
    return f"{head} {_messages(count)} that waited {'was' if count == 1 else 'were'} set aside."


def new_conversation(count: int) -> str:
    """Return the answer to /new and /reset."""
    if not count:
        return NEW_CONVERSATION
    return f"{NEW_CONVERSATION} {_messages(count)} that waited {'was' if count == 1 else 'were'} set aside."


def queue_full(text: str) -> str:
    """Return the note to somebody whose message was dropped from a full queue."""
    return f"Too many messages are waiting, so this one was not taken: “{excerpt(text)}”"


def pairing(sender: str, code: str, channel: str) -> str:
    """Return what an unknown sender reads."""
    return (
        f"This agent does not know you yet.\n\nYour id: `{sender}`\nPairing code: `{code}`\n\n"
        f"Whoever runs this gateway can let you in with:\n`tidegate pairing approve {channel} {code}`"
    )


def fallback(model: str) -> str:
    """Return the note that another model answered."""
    return f"(Answered by {model}.)"


def stale(reason: str) -> str:
    """Return the note about an automatic new conversation."""
    return STALE.get(reason, STALE["idle"])


OUTCOMES = {
    "dead": "was refused and did not arrive",
    "unknown": "may or may not have arrived; it is not sent again",
    "expired": "could not be sent in time and did not arrive",
}
"""What the states of a part in trouble mean, for people."""


def trouble_line(where: str, state: str, reason: str) -> str:
    """Return the line of one part in the owner's digest."""
    return f"{where}: {OUTCOMES.get(state, state)} ({reason or 'no reason known'})"


def trouble(lines: Sequence[str], count: int) -> str:
    """Return the owner's digest of parts that did not certainly arrive."""
    more = f"\n… and {count - len(lines)} more" if count > len(lines) else ""
    noun = "message" if count == 1 else "messages"
    return (
        f"Delivery report: {count} {noun} did not certainly arrive.\n"
        + "\n".join(f"- {line}" for line in lines)
        + more
        + "\n`tidegate deliveries list` shows them."
    )


def resume_list(rows: Sequence[tuple[int, str, int]], zone: str) -> str:
    """Return the list for /resume: (number, title, start in microseconds UTC)."""
    lines = [f"{number}. {title or '(no text)'} · {when(at, zone)}" for number, title, at in rows]
    return "Earlier conversations:\n" + "\n".join(lines) + "\n\nSend /resume and a number."


def when(instant: int, zone: str) -> str:
    """Return an instant (microseconds UTC) as people read it."""
    return f"{datetime.fromtimestamp(instant / SECOND, ZoneInfo(zone)):%Y-%m-%d %H:%M}"


def excerpt(text: str, limit: int = 60) -> str:
    """Return the first words of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _messages(count: int) -> str:
    return "One message" if count == 1 else f"{count} messages"
