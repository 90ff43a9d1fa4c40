"""The rules of a claim: which waiting messages form the next turn, what the model reads, when a day is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zoneinfo import ZoneInfo

from tidegate.agent_runtime.messages import Image, Message, Role
from tidegate.agent_runtime.transcript import encode_message
from tidegate.events import MessageEvent, PeerKind
from tidegate.gateway.ruleset import Ruleset
from tidegate.routing import keys
from tidegate.routing.queue_overflow import OverflowSummary, summary_line
from tidegate.routing.queue_policy import QueuedItem, plan_turn, quote_imitations
from tidegate.routing.queue_settings import QueueMode
from tidegate.routing.reset import SessionTimes, freshness, reset_policy, reset_type
from tidegate.sessions.model import ClaimRules, Overflow, QueuedEvent, SessionFacts, TurnPlan, UserText

TALK_BEFORE = "[Earlier messages in this chat, for context]"
TALK_NOW = "[The message to answer]"
MAX_QUOTE = 500
"""Characters of a message that somebody replies to."""


def claim_rules(rules: Ruleset, zone_of: Callable[[str], str]) -> ClaimRules:
    """Return the decisions of a claim under the rules in force.

    Args:
        zone_of: The IANA zone of an agent.
    """

    def stale(facts: SessionFacts, now: int) -> str | None:
        parsed = keys.parse(facts.key)
        channel = parsed.rest.split(":")[0] if parsed else None
        policy = reset_policy(rules.reset, reset_type(facts.key), channel)
        times = SessionTimes(facts.touched_at, facts.started_at, facts.touched_at)
        verdict = freshness(times, policy, now, ZoneInfo(zone_of(facts.agent)))
        return None if verdict.is_fresh or verdict.stale_reason is None else verdict.stale_reason.value

    return ClaimRules(plan=_plan, stale=stale, encode=_encode)


def _encode(text: UserText) -> str:
    return encode_message(Message(Role.USER, text.text, tuple(Image(*image) for image in text.images)))


def _plan(waiting: Sequence[QueuedEvent], talk: Sequence[MessageEvent], overflow: Overflow) -> TurnPlan:
    bursts = _bursts(waiting)
    mode = QueueMode(waiting[-1].mode)
    plan = plan_turn([_item(burst) for burst in bursts], mode)
    assert plan is not None
    sizes = {burst[0].seq: len(burst) for burst in bursts}
    set_aside = sum(sizes[item.seq] for item in plan.set_aside)
    answered = sum(sizes[item.seq] for item in plan.items)
    text = plan.text
    newest = waiting[set_aside + answered - 1].event
    if len(plan.items) == 1 and newest.peer.kind is not PeerKind.DIRECT:
        text = f"{_who(newest)}: {text}"
    if talk:
        text = "\n".join([TALK_BEFORE, *(_said(event) for event in talk), "", TALK_NOW, text])
    texts = [UserText(text)]
    if overflow.count:
        lines = tuple(summary_line(said) for said in overflow.texts)
        summary = OverflowSummary(newest.address, plan.is_owner, overflow.count, lines)
        texts.insert(0, UserText(summary.text()))
    return TurnPlan(set_aside + answered, set_aside, tuple(texts))


def _bursts(waiting: Sequence[QueuedEvent]) -> list[list[QueuedEvent]]:
    """Join events that continue one another: quick successions, pieces of one text, files of one album."""
    bursts: list[list[QueuedEvent]] = []
    for event in waiting:
        if event.joins and bursts:
            bursts[-1].append(event)
        else:
            bursts.append([event])
    return bursts


def _item(burst: Sequence[QueuedEvent]) -> QueuedItem:
    first, events = burst[0], [item.event for item in burst]
    joiner = "" if events[0].continues else "\n"
    text = quote_imitations(joiner.join(event.text for event in events if event.text))
    has_media = any(event.attachments for event in events)
    return QueuedItem(
        seq=first.seq,
        address=first.event.address,
        sender=first.event.sender,
        text=_quoted(events[0]) + (text or ("(attachment)" if has_media else "(no text)")),
        is_owner=all(item.is_owner for item in burst),
        has_media=has_media,
    )


def _quoted(event: MessageEvent) -> str:
    if event.reply_to is None or not event.reply_to.text.strip():
        return ""
    said = " ".join(event.reply_to.text.split())
    said = said if len(said) <= MAX_QUOTE else said[: MAX_QUOTE - 1] + "…"
    whose = "your message" if event.reply_to.is_ours else "a message"
    return f"[In reply to {whose}: {said}]\n"


def _said(event: MessageEvent) -> str:
    return f"{_who(event)}: {quote_imitations(event.text) or '(attachment)'}"


def _who(event: MessageEvent) -> str:
    sender = event.sender
    return " ".join((sender.name or sender.username or sender.id).split())[:64]
