"""Carries out chat commands, each once: the effect and the answer are one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from tidegate.adapters.base import TextPart
from tidegate.errors import StoreError
from tidegate.events import Address
from tidegate.gateway import replies
from tidegate.gateway.admission import Judge
from tidegate.gateway.parts import text_drafts
from tidegate.gateway.ruleset import WEBCHAT
from tidegate.gateway.session_settings import SessionSettings
from tidegate.routing.commands import Command
from tidegate.routing.queue_settings import QueueOverride, QueueRequest, QueueSettings, parse_queue_arguments
from tidegate.sessions.model import (
    Changed,
    ConversationSummary,
    DeliveryKind,
    Draft,
    PendingCommand,
    QueueRule,
    SessionChange,
)
from tidegate.sessions.store import EventStore, ReadStore
from tidegate.sessions.wakeups import COMMANDS, LANES, SESSIONS, STOPPED, Wakeups

SWEEP_SECONDS = 5.0
MAX_LISTED = 10
"""Earlier conversations that /resume lists."""

COMMAND_MENU: Sequence[tuple[str, str]] = (
    ("help", "What I understand"),
    ("new", "Begin a new conversation"),
    ("stop", "Stop what I am doing"),
    ("status", "How this conversation stands"),
    ("resume", "Go on with an earlier conversation"),
    ("queue", "What happens to messages while I am busy"),
    ("whoami", "Who you are to me"),
)

log = structlog.get_logger("commands")


class ChatCommands:
    """Works off stored commands in order, also those that a crash left behind."""

    def __init__(
        self,
        store: EventStore,
        reads: ReadStore,
        settings: SessionSettings,
        wakeups: Wakeups,
        judge: Callable[[], Judge],
        render: Callable[[Address, str], tuple[TextPart, ...]],
        status: Callable[[PendingCommand], str],
        timezone: Callable[[str], str],
    ) -> None:
        self._store = store
        self._reads = reads
        self._settings = settings
        self._wakeups = wakeups
        self._judge = judge
        self._render = render
        self._status = status
        self._timezone = timezone

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(), name="commands.listen")
            group.create_task(self._sweep(), name="commands.sweep")

    async def _listen(self) -> None:
        async for _ in self._wakeups.listen(COMMANDS):
            await self._work()

    async def _sweep(self) -> None:
        while True:
            await self._work()
            await asyncio.sleep(SWEEP_SECONDS)

    async def _work(self) -> None:
        try:
            for pending in await self._store.pending_commands():
                await self._carry_out(pending)
        except StoreError as error:
            log.error("commands.failed", error=str(error))

    async def _carry_out(self, pending: PendingCommand) -> None:
        judge = self._judge()
        command = judge.command(pending.event)
        change, answer = await self._plan(judge, pending, command)

        def reply(changed: Changed) -> Sequence[Draft]:
            text = answer if isinstance(answer, str) else answer(changed)
            parts = self._render(pending.event.address, text)
            # A client of the control plane has to know which of its requests this answers.
            mode = "all" if pending.event.address.channel == WEBCHAT else "off"
            return text_drafts(
                pending.event.address,
                parts,
                kind=DeliveryKind.NOTICE,
                reply_to=pending.event.message_id,
                reply_to_mode=mode,
            )

        changed = await self._store.apply_command(pending.event_id, change, reply)
        if changed is None:
            return
        if changed.stopped:
            self._wakeups.announce(STOPPED, [changed.stopped])
        if change.settings:
            await self._settings.load()
        if change.then:
            self._wakeups.announce(SESSIONS, [pending.session_key])
        self._wakeups.announce(LANES, [pending.event.address])
        log.info("command.done", session=pending.session_key, command=command.name if command else None)

    async def _plan(
        self, judge: Judge, pending: PendingCommand, command: Command | None
    ) -> tuple[SessionChange, str | Callable[[Changed], str]]:
        """Return what a command changes and what it answers."""
        if command is None or not command.is_supported:
            return SessionChange(), replies.NOT_AVAILABLE.format(name=command.name if command else "this")
        match command.name:
            case "stop":
                return SessionChange(stop=True), lambda done: replies.stopped(
                    done.set_aside, was_running=done.stopped is not None
                )
            case "new" | "reset":
                return self._new(judge, pending, command)
            case "resume":
                return await self._resume(pending, command)
            case "queue":
                return self._queue(judge, pending, command)
            case "status":
                return SessionChange(), await self._status_text(judge, pending)
            case "whoami":
                return SessionChange(), _whoami(pending)
            case _:
                return SessionChange(), _help()

    def _new(
        self, judge: Judge, pending: PendingCommand, command: Command
    ) -> tuple[SessionChange, Callable[[Changed], str]]:
        queue = judge.queue_settings(pending.session_key, pending.event.address.channel)
        rule = QueueRule(queue.mode.value, queue.debounce_ms * 1000, queue.cap, queue.drop.value)
        change = SessionChange(stop=True, new_conversation=True, then=command.argument, then_rule=rule)
        return change, lambda done: replies.new_conversation(done.set_aside)

    async def _resume(
        self, pending: PendingCommand, command: Command
    ) -> tuple[SessionChange, str | Callable[[Changed], str]]:
        rows = await self._earlier(pending)
        zone = self._timezone(pending.agent)
        if not rows:
            return SessionChange(), replies.NO_CONVERSATIONS
        if not command.argument:
            listed = [(number, row.title, row.started_at) for number, row in enumerate(rows, 1)]
            return SessionChange(), replies.resume_list(listed, zone)
        chosen = _choose(rows, command.argument)
        if chosen is None:
            return SessionChange(), replies.NO_SUCH_CONVERSATION
        when = replies.when(chosen.started_at, zone)
        return SessionChange(
            stop=True, resume=chosen.id
        ), lambda done: replies.RESUMED.format(when=when) if done.found else replies.NO_SUCH_CONVERSATION

    async def _earlier(self, pending: PendingCommand) -> list[ConversationSummary]:
        rows = await self._reads.conversations(pending.session_key, MAX_LISTED + 1)
        return [row for row in rows if row.ended_at is not None and row.messages][:MAX_LISTED]

    def _queue(self, judge: Judge, pending: PendingCommand, command: Command) -> tuple[SessionChange, str]:
        asked = parse_queue_arguments(command.argument)
        channel = pending.event.address.channel
        match asked.request:
            case QueueRequest.INVALID:
                return SessionChange(), asked.problem
            case QueueRequest.CLEAR:
                return SessionChange(settings={"queue": None}), replies.QUEUE_RESET
            case QueueRequest.SET:
                stored = _stored(asked.override, self._settings.get(pending.session_key).get("queue") or {})
                return SessionChange(settings={"queue": stored}), f"Queue: {_described(stored)}"
            case _:
                settings = judge.queue_settings(pending.session_key, channel)
                return SessionChange(), f"Queue: {_shown(settings)}"

    async def _status_text(self, judge: Judge, pending: PendingCommand) -> str:
        row = await self._reads.session(pending.session_key)
        queue = judge.queue_settings(pending.session_key, pending.event.address.channel)
        lines = [self._status(pending)]
        if row is not None:
            state = "running" if row.running else "idle"
            waiting = row.waiting - 1 if row.running and row.waiting else row.waiting
            lines.append(f"Session: {state}, {waiting} waiting, {row.messages} messages in this conversation")
            if row.conversation:
                lines.append(f"Began: {replies.when(row.started_at, self._timezone(pending.agent))}")
        lines.append(f"Queue: {_shown(queue)}")
        return "\n".join(lines)


def _choose(rows: Sequence[ConversationSummary], argument: str) -> ConversationSummary | None:
    if argument.isdecimal() and 1 <= int(argument) <= len(rows):
        return rows[int(argument) - 1]
    matching = [row for row in rows if len(argument) >= 8 and row.id.startswith(argument.lower())]
    return matching[0] if len(matching) == 1 else None


def _stored(override: QueueOverride, before: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(before)
    if override.mode is not None:
        found["mode"] = override.mode.value
    if override.debounce_ms is not None:
        found["debounce"] = override.debounce_ms
    if override.cap is not None:
        found["cap"] = override.cap
    if override.drop is not None:
        found["drop"] = override.drop.value
    return found


def _described(stored: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in stored.items()
    )


def _shown(settings: QueueSettings) -> str:
    return f"{settings.mode.value}, debounce {settings.debounce_ms} ms, cap {settings.cap}, drop {settings.drop.value}"


def _whoami(pending: PendingCommand) -> str:
    event = pending.event
    role = "the owner" if pending.is_owner else "a guest"
    return (
        f"You are `{event.address.channel}:{event.sender.id}`, {role}.\n"
        f"Agent: {pending.agent}\nSession: `{pending.session_key}`"
    )


def _help() -> str:
    lines = [f"/{name} – {text}" for name, text in COMMAND_MENU]
    return "I understand these commands:\n" + "\n".join(lines) + "\n\nAnything else goes to the agent."
