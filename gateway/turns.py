"""Runs one claimed turn: builds what the agent needs, watches the run, and makes the reply that is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from tidegate.adapters.base import TextPart
from tidegate.agent_runtime.context import PromptFacts, SessionContext
from tidegate.agent_runtime.events import Emit, MessageStarted, RunEvent, TextDelta, ToolEnded, ToolStarted
from tidegate.agent_runtime.loop import run_turn
from tidegate.agent_runtime.messages import Message, Role, ToolCall
from tidegate.agent_runtime.tools.base import SessionFacts
from tidegate.agent_runtime.tools.invoke import Toolbox, result_chars
from tidegate.agent_runtime.transcript import decode_message, encode_message
from tidegate.agent_runtime.turn import EndReason, TurnInput, TurnOutcome
from tidegate.clock import Clock
from tidegate.errors import LeaseLost, ModelError, StoreError
from tidegate.events import Address, MessageEvent, PeerKind
from tidegate.gateway import replies
from tidegate.gateway.agents import Agent, AgentFactory, Room
from tidegate.gateway.bus import EventBus, Fact
from tidegate.gateway.client_tools import HandedTools, HandingModel, HandingTools
from tidegate.gateway.connections import Connections
from tidegate.gateway.delivery import Outbox
from tidegate.gateway.media import InboundMedia, OutboundMedia
from tidegate.gateway.presence import Presence
from tidegate.gateway.preview import Preview
from tidegate.gateway.reply import ReplyMaker
from tidegate.gateway.ruleset import TERMINAL, WEBCHAT, Ruleset
from tidegate.sessions.model import ClaimedTurn, Finish, HistoryRow, JournalEntry
from tidegate.sessions.store import DeliveryStore, TurnStore

Render = Callable[[Address, str], tuple[TextPart, ...]]

CLOSE_SECONDS = 3.0
"""How long a stopped turn may take to tidy up what it showed."""
MAX_TOLD = 8_000
"""Characters of a call's arguments or result that those who watch are told."""
UNANSWERED = "(I gave no answer to this: it was stopped, or something failed.)"
"""What the agent finds in its transcript in place of an answer that was never given."""

_PEERS = frozenset(kind.value for kind in PeerKind)

log = structlog.get_logger("turns")


class TurnJournal:
    """Writes what a run does to the store, under the turn's lease (a runtime `Journal`)."""

    def __init__(
        self, turn: ClaimedTurn, store: TurnStore, steered: Callable[[Sequence[str]], None] = lambda _ids: None
    ) -> None:
        self._turn = turn
        self._store = store
        self._steered = steered
        self._may_be_waiting = False

    async def record_message(self, message: Message) -> None:
        """Make an assistant message with tool calls durable."""
        await self._write(JournalEntry((encode_message(message),)))

    async def tool_started(self, call: ToolCall) -> None:
        """Make it durable that a tool is about to run; raises LeaseLost when it may not."""
        await self._write(JournalEntry(tool_started=(call.id, call.name)))

    async def tool_ended(self, call: ToolCall, result: Message) -> None:
        """Make the result of a call durable."""
        await self._write(JournalEntry((encode_message(result),), tool_ended=call.id))

    async def take_steering(self) -> Sequence[Message]:
        """Take messages that arrived for this run. The store told with the last write whether any may wait."""
        if not self._may_be_waiting:
            return ()
        self._may_be_waiting = False
        accepted: list[str] = []

        def accept(event: MessageEvent, is_owner: bool, mode: str) -> str | None:
            text = self._accept(event, is_owner, mode)
            if text is not None and mode != "steer-backlog":
                accepted.append(event.message_id)
            return text

        rows = await self._store.take_steering(self._turn, accept, _user_body)
        if accepted:
            self._steered(accepted)
        return tuple(decode_message(row.body) for row in rows)

    async def _write(self, entry: JournalEntry) -> None:
        self._may_be_waiting = await self._store.journal(self._turn, entry)

    def _accept(self, event: MessageEvent, is_owner: bool, mode: str) -> str | None:
        """Return the text of a message that may join this run: same person, same place, same rights."""
        first = self._turn.reply_event
        senders = {item.sender.id for item in self._turn.events}
        fits = (
            mode in ("steer", "steer-backlog")
            and senders == {event.sender.id}
            and event.address == first.address
            and is_owner == self._turn.is_owner
            and not event.attachments
        )
        return event.text if fits else None


def _history(rows: Sequence[HistoryRow]) -> list[Message]:
    """Return a transcript in which a turn that was stopped or failed is marked as such.

    Otherwise the agent would take up the stopped request together with the next message. The mark follows from
    what is stored, so a transcript reads the same in every turn.
    """
    history: list[Message] = []
    turn = 0
    for row in rows:
        message = decode_message(row.body)
        if row.turn != turn and history and message.role is Role.USER and not _is_answer(history[-1]):
            history.append(Message(Role.ASSISTANT, UNANSWERED))
        history.append(message)
        turn = row.turn
    return history


def _is_answer(message: Message) -> bool:
    return message.role is Role.ASSISTANT and not message.tool_calls


def _user_body(text: str) -> str:
    return encode_message(Message(Role.USER, text))


@dataclass(frozen=True, slots=True)
class TurnServices:
    """What every turn uses."""

    store: TurnStore
    outbox_store: DeliveryStore
    connections: Connections
    outbox: Outbox
    presence: Presence
    inbound_media: InboundMedia
    outbound_media: OutboundMedia
    bus: EventBus
    clock: Clock
    render: Render
    wake_lane: Callable[[Address], None]
    handed_tools: HandedTools


class TurnRunner:
    """Runs turns for the session workers. `use` swaps rules and agents on a reload; running turns keep theirs."""

    def __init__(self, services: TurnServices, rules: Ruleset, agents: AgentFactory) -> None:
        self._services = services
        self._rules = rules
        self._agents = agents

    def use(self, rules: Ruleset, agents: AgentFactory) -> None:
        """Take new rules and agents from the next turn on."""
        self._rules, self._agents = rules, agents

    async def run(self, turn: ClaimedTurn) -> Finish:
        """Run a turn to its end. Raises LeaseLost when it was ended from outside."""
        try:
            return await self._run_to_end(turn)
        except (LeaseLost, asyncio.CancelledError):
            self._tell("turn.cut_off", turn)
            raise

    async def _run_to_end(self, turn: ClaimedTurn) -> Finish:
        rules, agents, services = self._rules, self._agents, self._services
        maker = ReplyMaker(turn, rules, services.render, services.outbound_media)
        self._tell_started(turn)
        if turn.exhausted:
            self._tell("turn.ended", turn, state="failed", model="")
            return maker.failure(replies.EXHAUSTED, "exhausted")
        try:
            agent = await _agent(agents, turn)
        except ModelError as error:
            log.error("turn.no_agent", session=turn.lease.key, agent=turn.agent, reason=str(error))
            self._tell("turn.failed", turn, kind=error.kind, reason=str(error), model="")
            self._tell("turn.ended", turn, state="failed", model="")
            return maker.failure(replies.failure(error.kind, _detail(turn, rules, str(error))), error.kind)
        self._tell("turn.model", turn, model=agent.model_ref)
        room = agent.room(turn.lease.key, is_private=_is_private(turn, rules))
        preview = Preview(turn, services.connections, services.outbox, services.outbox_store)
        try:
            outcome = await self._run_watched(turn, agent, room, rules, preview)
        except (asyncio.CancelledError, LeaseLost):
            await self._close_if_stopped(turn, preview)
            raise
        end = await self._end(maker, agent, room, outcome, _detail(turn, rules, outcome.error_text))
        if not end.drafts:
            await preview.discard()
        if outcome.reason is EndReason.FAILED:
            self._tell_failure(turn, agent, outcome)
        self._tell("turn.ended", turn, state=end.state.value, model=end.model)
        log.info(
            "turn.ended",
            session=turn.lease.key,
            run=turn.run_id,
            state=end.state.value,
            model=end.model or None,
            tokens_in=end.tokens_in,
            tokens_out=end.tokens_out,
        )
        return end

    def fail(self, turn: ClaimedTurn, _error: BaseException) -> Finish:
        """Return the end of a turn whose run broke unexpectedly."""
        self._tell("turn.ended", turn, state="failed", model="")
        maker = ReplyMaker(turn, self._rules, self._services.render, self._services.outbound_media)
        return maker.failure(replies.FAILURE, "internal")

    def ended(self, turn: ClaimedTurn, end: Finish | None) -> None:
        """Tell those who watch that the end of a turn is durable; None when it was ended from outside."""
        if end is None:
            self._tell("turn.cut_off", turn)
            return
        said = [str(draft.payload.get("plain", draft.payload.get("body", ""))) for draft in end.drafts]
        self._tell(
            "turn.done",
            turn,
            state=end.state.value,
            text="\n\n".join(text for text in said if text),
            model=end.model,
            reason=end.reason,
            tokens_in=end.tokens_in,
            tokens_out=end.tokens_out,
        )

    def _tell_started(self, turn: ClaimedTurn) -> None:
        event = turn.reply_event
        self._tell(
            "turn.started",
            turn,
            attempt=turn.attempt,
            agent=turn.agent,
            conversation=turn.conversation,
            channel=event.address.channel,
            messages=[item.message_id for item in turn.events],
        )
        self._tell("run.said", turn, texts=[item.text for item in turn.events])

    async def _close_if_stopped(self, turn: ClaimedTurn, preview: Preview) -> None:
        """Mark a preview whose turn was stopped; one whose process stops is taken up again by the next."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._services.store.journal(turn, JournalEntry())
        except LeaseLost:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await preview.close()
                self._services.wake_lane(turn.reply_event.address)
        except (StoreError, TimeoutError) as error:
            log.warning("preview.not_closed", session=turn.lease.key, error=str(error))

    def _tell_failure(self, turn: ClaimedTurn, agent: Agent, outcome: TurnOutcome) -> None:
        """Say in the log, and to whoever watches, what a chat is told only in general words."""
        reason = outcome.error_text or outcome.error_kind
        log.warning(
            "turn.failed",
            session=turn.lease.key,
            run=turn.run_id,
            model=agent.model_ref,
            kind=outcome.error_kind,
            reason=reason,
        )
        self._tell("turn.failed", turn, kind=outcome.error_kind, reason=reason, model=agent.model_ref)

    async def _run_watched(
        self, turn: ClaimedTurn, agent: Agent, room: Room, rules: Ruleset, preview: Preview
    ) -> TurnOutcome:
        """Run with typing, acknowledgement and preview alive, and none of them afterwards."""
        services = self._services
        address = turn.reply_event.address
        channel = rules.channel(address)
        wants_preview = channel.streaming != "off" and address.channel != TERMINAL
        shown = services.presence.shown(
            turn.reply_event,
            typing=agent.options.typing_mode != "never",
            emoji=rules.ack_emoji(turn.reply_event, agent.options),
        )
        try:
            async with shown as group:
                if wants_preview:
                    group.create_task(preview.run(), name=f"preview:{turn.run_id}")
                try:
                    return await self._run(turn, agent, room, rules, self._emitter(turn, preview))
                finally:
                    preview.stop()
        except BaseExceptionGroup as failures:
            raise _single(failures) from None

    async def _run(self, turn: ClaimedTurn, agent: Agent, room: Room, rules: Ruleset, emit: Emit) -> TurnOutcome:
        services = self._services
        history = _history(turn.history)
        files = await services.inbound_media.take(turn, room.files, rules.channel(turn.reply_event.address))
        history.extend(files)
        facts = _prompt_facts(turn, agent, rules)
        session = SessionFacts(
            turn.lease.key,
            turn.agent,
            turn.reply_event.address.channel,
            agent.timezone,
            agent.model_ref,
            turn.is_owner,
        )
        box = Toolbox(room.registry, session, agent.policy, max_result_chars=result_chars(agent.settings.window))
        handed = services.handed_tools.of(event.message_id for event in turn.events)
        return await run_turn(
            TurnInput(tuple(history), turn.started_calls, turn.attempt),
            SessionContext(agent.files, facts, agent.settings, services.clock),
            agent.model if handed is None else HandingModel(agent.model, handed),
            box if handed is None else HandingTools(box, handed),
            TurnJournal(turn, services.store, lambda ids: self._tell("turn.steered", turn, messages=list(ids))),
            emit,
            agent.limits,
            services.clock,
        )

    def _emitter(self, turn: ClaimedTurn, preview: Preview) -> Emit:
        def emit(event: RunEvent) -> None:
            match event:
                case TextDelta(text):
                    preview.add(text)
                    if self._services.bus.is_watched:
                        self._tell("run.text", turn, text=text)
                case MessageStarted(iteration):
                    preview.restart()
                    self._tell("run.message", turn, number=iteration)
                case ToolStarted(call, name, summary, arguments):
                    self._tell("tool.started", turn, tool=name, summary=summary, call=call)
                    self._tell("run.call", turn, tool=name, call=call, arguments=arguments[:MAX_TOLD])
                case ToolEnded(call, name, is_error, seconds, result):
                    self._tell("run.result", turn, tool=name, call=call, is_error=is_error, result=result[:MAX_TOLD])
                    self._tell("tool.ended", turn, tool=name, is_error=is_error, seconds=round(seconds, 3), call=call)
                case _:
                    pass

        return emit

    async def _end(self, maker: ReplyMaker, agent: Agent, room: Room, outcome: TurnOutcome, detail: str) -> Finish:
        if outcome.reason is EndReason.FAILED:
            return maker.failure(replies.failure(outcome.error_kind, detail), outcome.error_kind, outcome)
        return await maker.reply(outcome, agent, room.files)

    def _tell(self, fact: str, turn: ClaimedTurn, **data: object) -> None:
        if self._services.bus.is_watched:
            where = {"run": turn.run_id, "lane": str(turn.reply_event.address)}
            self._services.bus.publish(Fact(fact, turn.lease.key, {**where, **data}))


async def _agent(agents: AgentFactory, turn: ClaimedTurn) -> Agent:
    """Return the agent, with the model and thinking level that its session asks for."""
    agent = await agents.get(turn.agent, str(turn.settings.get("model") or ""))
    level = turn.settings.get("thinkingLevel")
    return replace(agent, settings=replace(agent.settings, thinking=level)) if isinstance(level, str) else agent


def _is_private(turn: ClaimedTurn, rules: Ruleset) -> bool:
    """Return whether the owner is alone with the agent here."""
    event, key = turn.reply_event, turn.lease.key
    if event.address.channel == WEBCHAT and _PEERS & set(key.split(":")):
        # The operator looks into a chat that other people have part in.
        return False
    return event.peer.kind is PeerKind.DIRECT and turn.is_owner and rules.is_private(key)


def _detail(turn: ClaimedTurn, rules: Ruleset, text: str) -> str:
    """Return what exactly went wrong where only the owner reads it, else nothing."""
    return text if turn.is_owner and _is_private(turn, rules) else ""


def _prompt_facts(turn: ClaimedTurn, agent: Agent, rules: Ruleset) -> PromptFacts:
    event = turn.reply_event
    is_direct = event.peer.kind is PeerKind.DIRECT
    title = f" “{event.chat_title}”" if event.chat_title else ""
    names = {item.sender.name or item.sender.username or item.sender.id for item in turn.events}
    notes = rules.channel(event.address).group_notes
    places = (event.peer.id, event.address.chat, "*")
    return PromptFacts(
        timezone=agent.timezone,
        private=_is_private(turn, rules),
        may_stay_silent=not is_direct and agent.options.silent_reply.group == "allow",
        chat=f"{event.address.channel}, {event.peer.kind.value}{title}",
        sender=", ".join(sorted(names)) if len(names) < 6 else f"{len(names)} people",
        note="" if is_direct else next((notes[place] for place in places if place in notes), ""),
        runtime=f"agent {turn.agent}, model {agent.model_ref}",
    )


def _single(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the one failure that matters of a task group: a lost lease first, else the first of all."""
    lost = failures.subgroup(LeaseLost)
    chosen: BaseException = lost or failures
    while isinstance(chosen, BaseExceptionGroup):
        chosen = chosen.exceptions[0]
    return chosen
