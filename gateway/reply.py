"""Makes the end of a turn: what is said, in which parts, with which notes. Every reply passes the egress filter."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.adapters.base import TextPart
from tidegate.agent_runtime.transcript import encode_message
from tidegate.agent_runtime.turn import TurnOutcome
from tidegate.agent_runtime.workspace import WorkspaceFiles
from tidegate.events import Address, PeerKind
from tidegate.gateway import replies
from tidegate.gateway.agents import Agent
from tidegate.gateway.egress import (
    EgressRules,
    PrefixContext,
    Suppress,
    filter_reply,
    prefix_template,
    resolve_prefix,
    short_model_name,
)
from tidegate.gateway.media import OutboundMedia
from tidegate.gateway.parts import file_draft, text_drafts
from tidegate.gateway.ruleset import Ruleset
from tidegate.sessions.model import ClaimedTurn, Draft, Finish, TurnState

MAX_TOKENS = 1 << 53
"""More than this a server cannot mean."""

Render = Callable[[Address, str], tuple[TextPart, ...]]


class ReplyMaker:
    """Makes the reply of one turn, for the address captured with its newest message."""

    def __init__(self, turn: ClaimedTurn, rules: Ruleset, render: Render, media: OutboundMedia) -> None:
        self._turn = turn
        self._rules = rules
        self._render = render
        self._media = media
        self._event = turn.reply_event
        self._channel = rules.channel(self._event.address)

    def failure(self, text: str, reason: str, outcome: TurnOutcome | None = None) -> Finish:
        """Return the end of a turn that gave no answer; the sender is told in plain words."""
        silent = self._channel.error_policy == "silent"
        usage = outcome.usage if outcome is not None else None
        return Finish(
            messages=(),
            drafts=() if silent else self._drafts(self._with_notes(text, "")),
            state=TurnState.FAILED,
            tokens_in=min(usage.input, MAX_TOKENS) if usage else 0,
            tokens_out=min(usage.output, MAX_TOKENS) if usage else 0,
            reason=reason,
            told="" if silent else text,
        )

    async def reply(self, outcome: TurnOutcome, agent: Agent, workspace: WorkspaceFiles) -> Finish:
        """Return the end of a turn with an answer, or with an explanation of the limit it ran into.

        Args:
            workspace: The session's files, from which the agent may attach.
        """
        text, files = await self._media.take(outcome.reply.text, workspace, self._channel.media_max)
        spoken = filter_reply(text, EgressRules(self._prefix(outcome, agent), has_media=bool(files)))
        drafts: tuple[Draft, ...] = ()
        if isinstance(spoken, Suppress):
            if self._event.peer.kind is PeerKind.DIRECT:
                return self.failure(replies.failure("empty"), "empty", outcome)
        else:
            drafts = self._drafts(self._with_notes(spoken.text, outcome.fallback_from and outcome.model))
            drafts += tuple(file_draft(self._event.address, file.blob, file.name, file.kind) for file in files)
        return Finish(
            messages=(encode_message(outcome.reply),),
            drafts=drafts,
            state=TurnState.ANSWERED,
            model=outcome.model,
            tokens_in=min(outcome.usage.input, MAX_TOKENS),
            tokens_out=min(outcome.usage.output, MAX_TOKENS),
            reason=outcome.limit,
        )

    def _with_notes(self, text: str, other_model: str) -> str:
        """Return the text with what has to be told besides: a new conversation, messages set aside, another model."""
        before = []
        if self._turn.notice:
            before.append(replies.stale(self._turn.notice))
        if self._turn.set_aside:
            before.append(replies.set_aside(self._turn.set_aside))
        after = [replies.fallback(other_model)] if other_model else []
        return "\n\n".join([*before, *([text] if text else []), *after])

    def _drafts(self, text: str) -> tuple[Draft, ...]:
        return text_drafts(
            self._event.address,
            self._render(self._event.address, text),
            reply_to=self._event.message_id or None,
            reply_to_mode=self._channel.reply_to_mode,
        )

    def _prefix(self, outcome: TurnOutcome, agent: Agent) -> str:
        name = agent.options.identity.name
        template = prefix_template(
            self._channel.response_prefix, self._rules.config.messages.response_prefix, identity_name=name
        )
        if not template:
            return ""
        model = outcome.model or agent.model_ref
        context = PrefixContext(short_model_name(model), model, model.partition("/")[0], agent.settings.thinking, name)
        return resolve_prefix(template, context)
