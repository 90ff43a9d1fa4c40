"""Which of the waiting messages form the next turn. Pure: the store holds the queue, this decides over it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tidegate.events import Address, Sender
from tidegate.routing.queue_settings import QueueMode

TITLE: Final = "[Messages that arrived while the agent was busy]"
_IMITATION: Final = re.compile(
    r"(?:^|(?<=[\r\x0b\x0c\x85\u2028\u2029]))(?=[ \t]*(?:---[ \t]*(?:$|[\r\x0b\x0c\x85\u2028\u2029])|Queued #\d"
    r"|\[(?:Messages that arrived|Earlier messages in this chat|The message to answer|In reply to|Queue overflow"
    r"|Files that came)))",
    re.MULTILINE,
)
_MAX_NAME: Final = 64


class RunAction(StrEnum):
    """What to do with something that wants a turn."""

    RUN_NOW = "run-now"
    ENQUEUE = "enqueue-followup"
    DROP = "drop"


class Admission(StrEnum):
    """Whether messages wait in the session's queue: none, some that may run, some that may not yet."""

    EMPTY = "empty"
    READY = "ready"
    BLOCKED = "blocked"


def run_action(
    *, is_active: bool, is_heartbeat: bool, is_reset: bool, waits_for_run: bool, admission: Admission
) -> RunAction:
    """Return what to do with a new turn.

    Args:
        is_active: A run of the session is under way.
        is_reset: The message is `/new` or `/reset`.
        waits_for_run: The mode queues behind an active run (all but interrupt).
    """
    if is_heartbeat:
        is_quiet = not is_active and admission is Admission.EMPTY
        return RunAction.RUN_NOW if is_quiet else RunAction.DROP
    if is_reset:
        return RunAction.RUN_NOW
    if admission is not Admission.EMPTY or (is_active and waits_for_run):
        return RunAction.ENQUEUE
    return RunAction.RUN_NOW


@dataclass(frozen=True, slots=True)
class QueuedItem:
    """A waiting message.

    Attributes:
        seq: Its place in the session's order.
        is_owner: The sender may do what the owner may.
        is_solo: It never shares a turn and is never set aside (room events, cron, recovered work).
        is_command: A chat command; it never reaches the model with other text.
    """

    seq: int
    address: Address
    sender: Sender
    text: str
    is_owner: bool = False
    has_media: bool = False
    is_solo: bool = False
    is_command: bool = False

    @property
    def runs_alone(self) -> bool:
        """Whether the item may share a turn with no other."""
        return self.is_solo or self.is_command


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """The next turn.

    Attributes:
        items: What the turn consists of, in order.
        text: What the model reads.
        is_owner: The rights of the turn: the least that any of its senders has.
        sender: Who speaks, or None when several people do.
        set_aside: Older messages that will not be answered; their senders are told.
        rest: What goes on waiting, in order.
    """

    items: tuple[QueuedItem, ...]
    text: str
    is_owner: bool
    sender: Sender | None
    set_aside: tuple[QueuedItem, ...] = ()
    rest: tuple[QueuedItem, ...] = ()

    @property
    def address(self) -> Address:
        """Where the answer goes."""
        return self.items[0].address


def plan_turn(waiting: Sequence[QueuedItem], mode: QueueMode) -> TurnPlan | None:
    """Return the next turn of a session, or None when nothing waits.

    collect: the leading messages with one and the same route. interrupt: the newest message, older ones are set
    aside. All other modes: the oldest message alone; what could not be steered is answered in its place.
    """
    queue = sorted(waiting, key=lambda item: item.seq)
    if not queue:
        return None
    if mode is QueueMode.INTERRUPT:
        return _plan_interrupt(queue)
    take = _leading_group(queue) if mode is QueueMode.COLLECT else 1
    return _turn(queue[:take], rest=queue[take:])


def _leading_group(queue: Sequence[QueuedItem]) -> int:
    head = queue[0]
    if head.runs_alone:
        return 1
    size = 1
    while size < len(queue) and not queue[size].runs_alone and queue[size].address == head.address:
        size += 1
    return size


def _plan_interrupt(queue: list[QueuedItem]) -> TurnPlan:
    ordinary = [item for item in queue if not item.runs_alone]
    if not ordinary:
        return _turn(queue[:1], rest=queue[1:])
    newest, older = ordinary[-1], ordinary[:-1]
    # What must run alone keeps its place before the newest message.
    head = next((item for item in queue if item.runs_alone and item.seq < newest.seq), newest)
    return _turn([head], older, [item for item in queue if item is not head and item not in older])


def _turn(
    items: Sequence[QueuedItem], set_aside: Sequence[QueuedItem] = (), rest: Sequence[QueuedItem] = ()
) -> TurnPlan:
    senders = {item.sender.id for item in items}
    return TurnPlan(
        items=tuple(items),
        text=merged_text(items),
        is_owner=all(item.is_owner for item in items),
        sender=items[0].sender if len(senders) == 1 else None,
        set_aside=tuple(set_aside),
        rest=tuple(rest),
    )


def merged_text(items: Sequence[QueuedItem]) -> str:
    """Return what the model reads for a turn: a single message as it is, several numbered and with their senders."""
    if len(items) == 1:
        return items[0].text
    parts = [TITLE]
    for number, item in enumerate(items, 1):
        name = _name(item.sender)
        said_by = f" (from {name})" if name else ""
        parts.append(f"---\nQueued #{number}{said_by}\n{quote_imitations(item.text)}")
    return "\n\n".join(parts)


def quote_imitations(text: str) -> str:
    """Return `text` with lines that look like our own separators marked as quoted, so that nobody can forge one."""
    return _IMITATION.sub("> ", text)


def _name(sender: Sender) -> str:
    name = sender.name or sender.username or sender.id
    plain = "".join(sign if sign.isprintable() and sign not in "()" else " " for sign in name)
    return " ".join(plain.split())[:_MAX_NAME]
