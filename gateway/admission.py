"""Judges one platform event: who speaks, whether we were addressed, which agent answers, in which session.

Pure apart from the pairing code: rules and people in, verdict out. The verdict is stored with the event.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate.adapters.base import TextPart
from tidegate.clock import HOUR, Clock
from tidegate.errors import RoutingError
from tidegate.events import Address, EventKind, MessageEvent, PeerKind
from tidegate.gateway import replies
from tidegate.gateway.parts import text_drafts
from tidegate.gateway.people import People
from tidegate.gateway.ruleset import OWN_CHANNELS, ChannelRules, Ruleset
from tidegate.routing.access import Approach, Deny, Identity, Pair, decide_access, is_owner, may_command
from tidegate.routing.commands import Command, is_abort_request, is_control_command_message, parse_command
from tidegate.routing.debounce import TELEGRAM_SPLIT_WAIT, debounce_time, should_debounce
from tidegate.routing.mentions import MentionPolicy, decide_mention, facts_of
from tidegate.routing.queue_settings import (
    QueueOverride,
    QueueSettings,
    inline_queue_directive,
    parse_drop,
    parse_mode,
    resolve_settings,
)
from tidegate.routing.reset import reset_request
from tidegate.routing.sessions import ResolvedSession, resolve_session
from tidegate.sessions.model import (
    DeliveryKind,
    Draft,
    Enqueue,
    EventState,
    NewEvent,
    PairingRequest,
    QueueRule,
    Record,
)

CODE_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""32 letters and digits that nobody mistakes for one another."""
CODE_LENGTH = 8
PAIRING_LIFETIME = HOUR
PAIRING_PENDING = 3
"""Most requests that may be pending for one account."""
ALBUM_WINDOW = 800_000
"""Microseconds to wait for the other files of an album; Telegram hands them over as separate updates."""
MAX_TEXT = 200_000
"""Characters of one message; more is cut, and the agent is told."""

SHARED_COMMANDS = frozenset({"new", "reset", "resume", "queue"})
"""Commands that change a session for everybody in it."""

Render = Callable[[Address, str], tuple[TextPart, ...]]
"""Splits a Markdown text into parts for the platform of an address."""


@dataclass(frozen=True, slots=True)
class Judge:
    """The rules in force, and who is known.

    Attributes:
        bot_username: Our own name on an account, for `/status@ourname`.
        settings: What `/queue` set for a session, by its key.
    """

    rules: Ruleset
    people: People
    render: Render
    clock: Clock
    bot_username: Callable[[Address], str | None]
    session_settings: Callable[[str], Mapping[str, Any]]

    def judge(self, event: MessageEvent) -> NewEvent:
        """Return the event with its verdict."""
        if event.kind is EventKind.REACTION or (event.kind is EventKind.EDIT and not event.text):
            return NewEvent(event, Record(EventState.IGNORED, event.kind.value))
        if event.kind is EventKind.EDIT:
            return NewEvent(event, Record(EventState.IGNORED, "edit"))
        event = _bounded(event)
        channel = self.rules.channel(event.address)
        paired = self.people.paired(event.address.channel, event.address.account)
        verdict = decide_access(Approach.of(event), channel.access, paired)
        if isinstance(verdict, Pair):
            return self._pair(event)
        if isinstance(verdict, Deny):
            return NewEvent(event, Record(EventState.DENIED, verdict.reason.value, keep_text=False))
        return self._admitted(event, channel)

    def judge_for(
        self, event: MessageEvent, key: str, agent: str, *, commands: bool = True, owner: bool = True
    ) -> NewEvent:
        """Return the verdict on what is said into a session that is named, whatever the routes say.

        Args:
            commands: A text that is a command is carried out, not answered; the owner's only.
            owner: The owner says it.
        """
        commands = commands and owner
        event = _bounded(event)
        is_command = self.rules.config.commands.text and is_control_command_message(event.text, None)
        if commands and (is_command or self._resets(event, None)):
            return NewEvent(event, Record(EventState.COMMAND, "", key, agent, is_owner=True))
        return self._enqueue(event, key, agent, owner=owner, may_command=commands)

    def owns(self, event: MessageEvent) -> bool:
        """Return whether the sender of an event is the owner."""
        if event.address.channel in OWN_CHANNELS:
            return True
        policy = self.rules.command_policy(self.people.owners)
        return is_owner(Identity(event.address.channel, event.sender.id), policy.owners)

    def _pair(self, event: MessageEvent) -> NewEvent:
        now = self.clock.now()
        code = "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH))
        channel, account = event.address.channel, event.address.account
        name = " ".join((event.sender.name or event.sender.username or event.sender.id).split())[:64]
        request = PairingRequest(channel, account, event.sender.id, name, code, now, now + PAIRING_LIFETIME)
        text = replies.pairing(event.sender.id, code, channel)
        drafts = text_drafts(event.address, self.render(event.address, text), kind=DeliveryKind.NOTICE)
        record = Record(
            EventState.PAIRING,
            "pairing required",
            keep_text=False,
            drafts=drafts,
            pairing=request,
            pairing_limit=PAIRING_PENDING,
        )
        return NewEvent(event, record)

    def _admitted(self, event: MessageEvent, channel: ChannelRules) -> NewEvent:
        owner = self.owns(event)
        try:
            session = resolve_session(event, self.rules.table, self.rules.resolve, is_owner=owner)
        except RoutingError as error:
            drafts = text_drafts(event.address, self.render(event.address, replies.UNROUTED), kind=DeliveryKind.NOTICE)
            told = drafts if event.peer.kind is PeerKind.DIRECT else ()
            return NewEvent(event, Record(EventState.UNROUTED, error.code, drafts=told))
        username = self.bot_username(event.address)
        who = Identity(event.address.channel, event.sender.id)
        commands = self.rules.command_policy(self.people.owners)
        may = owner or may_command(who, commands, is_admitted=True)
        is_command = self.rules.config.commands.text and is_control_command_message(event.text, username)
        if self._skips(event, session, channel, is_command=is_command, may_command=may):
            keep = channel.history_limit
            state = EventState.CONTEXT if keep else EventState.IGNORED
            record = Record(state, "not addressed", session.key, session.agent, owner, keep)
            return NewEvent(event, record if keep else replace(record, session_key="", keep_text=False))
        if is_command or self._resets(event, username):
            may = may and not self._is_owners_alone(event, owner=owner)
            reason = "" if may else "not authorized"
            state = EventState.COMMAND if may else EventState.IGNORED
            return NewEvent(event, Record(state, reason, session.key, session.agent, owner))
        return self._enqueue(event, session.key, session.agent, owner=owner, may_command=may)

    def _is_owners_alone(self, event: MessageEvent, *, owner: bool) -> bool:
        """Return whether a command changes a group's session for everybody, which only the owner may do there.

        Where no owner is known, or `commands.allowFrom` says who may use commands, that decides.
        """
        if owner or event.peer.kind is PeerKind.DIRECT or self.rules.command_lists is not None:
            return False
        if not (self.rules.owners or self.people.owners):
            return False
        command = self.command(event)
        return command is not None and command.name in SHARED_COMMANDS

    def _skips(
        self,
        event: MessageEvent,
        session: ResolvedSession,
        channel: ChannelRules,
        *,
        is_command: bool,
        may_command: bool,
    ) -> bool:
        """Return whether a group message was not meant for us. A pressed button of ours always is."""
        if event.peer.kind is PeerKind.DIRECT or event.kind is EventKind.BUTTON:
            return False
        patterns = self.rules.patterns.get(session.agent)
        facts = facts_of(
            event,
            matches_pattern=bool(patterns) and patterns is not None and patterns.match(event.text),
            has_patterns=bool(patterns),
        )
        policy = MentionPolicy(
            is_group=True,
            requires_mention=channel.mentions.requires_mention(event),
            allowed_implicit=self.rules.implicit_mentions,
            has_control_command=is_command,
            is_command_authorized=may_command,
        )
        return decide_mention(facts, policy).should_skip

    def _resets(self, event: MessageEvent, username: str | None) -> bool:
        return reset_request(event.text, self.rules.reset_triggers, username) is not None

    def _enqueue(self, event: MessageEvent, key: str, agent: str, *, owner: bool, may_command: bool) -> NewEvent:
        directive = inline_queue_directive(event.text) if may_command else None
        settings = self.queue_settings(key, event.address.channel, directive.override if directive else None)
        if directive is not None:
            event = replace(event, text=directive.text)
        rule = QueueRule(
            mode=settings.mode.value,
            debounce=settings.debounce_ms * 1000,
            cap=settings.cap,
            drop=settings.drop.value,
            window=self._window(event),
        )
        address = event.address

        def set_aside(count: int) -> Draft:
            return self._notice(address, replies.set_aside(count))

        def full(dropped: MessageEvent) -> Draft:
            return self._notice(dropped.address, replies.queue_full(dropped.text))

        verdict = Enqueue(key, agent, rule, owner, set_aside, full)
        return NewEvent(event, verdict)

    def queue_settings(self, key: str, channel: str, inline: QueueOverride | None = None) -> QueueSettings:
        """Return the queue settings in force for a session."""
        return resolve_settings(self.rules.queue, channel, session_override(self.session_settings(key)), inline)

    def _window(self, event: MessageEvent) -> int:
        """Return how long to wait for more of the same before a turn starts, in microseconds."""
        if event.album:
            return ALBUM_WINDOW
        wait = debounce_time(self.rules.debounce, event.address.channel)
        if event.continues:
            wait = max(wait, TELEGRAM_SPLIT_WAIT)
        if not should_debounce(event.text, has_media=bool(event.attachments)):
            return 0
        return int(wait.total_seconds() * 1_000_000)

    def _notice(self, address: Address, text: str) -> Draft:
        return text_drafts(address, self.render(address, text)[:1], kind=DeliveryKind.NOTICE)[0]

    def command(self, event: MessageEvent) -> Command | None:
        """Return the command that a stored command event is."""
        username = self.bot_username(event.address)
        if is_abort_request(event.text, username):
            return Command("stop")
        request = reset_request(event.text, self.rules.reset_triggers, username)
        if request is not None and not request.is_soft:
            return Command("new", request.payload)
        return parse_command(event.text, username)


def session_override(settings: Mapping[str, Any]) -> QueueOverride | None:
    """Return what `/queue` stored on a session, as an override of the configured queue."""
    stored = settings.get("queue")
    if not isinstance(stored, dict):
        return None
    return QueueOverride(
        parse_mode(stored.get("mode")), stored.get("debounce"), stored.get("cap"), parse_drop(stored.get("drop"))
    )


def _bounded(event: MessageEvent) -> MessageEvent:
    if len(event.text) <= MAX_TEXT:
        return event
    return replace(event, text=event.text[:MAX_TEXT] + "\n[cut: the message was longer]")
