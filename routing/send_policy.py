"""Whether a session may send at all: `session.sendPolicy`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.routing import keys, normalize
from tidegate.routing.normalize import fold


@dataclass(frozen=True, slots=True)
class SendRule:
    """One rule; every field that is not None must fit.

    Attributes:
        key_prefix: Compared with the key without `agent:<id>:`.
        raw_key_prefix: Compared with the whole key.
    """

    allows: bool
    channel: str | None = None
    chat_type: str | None = None
    key_prefix: str | None = None
    raw_key_prefix: str | None = None


@dataclass(frozen=True, slots=True)
class SendSubject:
    """The session that wants to send; channel and chat type are read off the key when not given."""

    key: str
    channel: str | None = None
    chat_type: str | None = None


def may_send(
    subject: SendSubject,
    rules: Sequence[SendRule] = (),
    *,
    default: bool = True,
    override: bool | None = None,
) -> bool:
    """Return whether a session may send: its own override, then any denying rule, any allowing one, the default."""
    if override is not None:
        return override
    verdicts = {rule.allows for rule in rules if _fits(rule, subject)}
    if False in verdicts:
        return False
    return True if True in verdicts else default


def _fits(rule: SendRule, subject: SendSubject) -> bool:
    route = keys.delivery_route(subject.key)
    parsed = keys.parse(subject.key)
    channel = fold(subject.channel) or (route.channel if route else "")
    chat_type = normalize.peer_kind(subject.chat_type) or (route.peer.kind if route else "")
    rest = parsed.rest if parsed is not None else fold(subject.key)
    return not (
        (rule.channel is not None and fold(rule.channel) != channel)
        or (rule.chat_type is not None and normalize.peer_kind(rule.chat_type) != chat_type)
        or (rule.key_prefix is not None and not rest.lower().startswith(fold(rule.key_prefix)))
        or (rule.raw_key_prefix is not None and not fold(subject.key).startswith(fold(rule.raw_key_prefix)))
    )
