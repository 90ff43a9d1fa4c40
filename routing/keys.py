"""Session keys: the one place that writes and reads them.

A key reads `agent:<agent>:<rest>`. The rest says which conversation it is: `main`, a person
(`telegram:direct:42`), a group (`telegram:group:-100`), or something automatic (`cron:<job>`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tidegate.events import Peer
from tidegate.routing import normalize
from tidegate.routing.links import IdentityLinks
from tidegate.routing.normalize import fold, trim

_OPAQUE: Final = frozenset({("matrix", "channel"), ("matrix", "group"), ("signal", "group")})
_PEER_KINDS: Final = frozenset({"direct", "group", "channel"})
_CRON_RUN: Final = re.compile(r"cron:[^:]+:run:[^:]+")


class DmScope(StrEnum):
    """How direct conversations are divided into sessions."""

    MAIN = "main"
    PER_PEER = "per-peer"
    PER_CHANNEL_PEER = "per-channel-peer"
    PER_ACCOUNT_CHANNEL_PEER = "per-account-channel-peer"


class GroupScope(StrEnum):
    """How group conversations are divided into sessions."""

    PER_GROUP = "per-group"
    MAIN = "main"


@dataclass(frozen=True, slots=True)
class PeerRef:
    """A peer as a rule or a caller wrote it; unlike `Peer` its kind may be one we do not know."""

    kind: str
    id: str

    @classmethod
    def of(cls, peer: Peer | None) -> PeerRef | None:
        """Return the reference to an event's peer."""
        return None if peer is None else cls(peer.kind.value, peer.id)


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """Everything that a session key is made of.

    Attributes:
        peer: None stands for a conversation without a peer, which belongs to the main session.
        main_key: Last part of the main session's key; config files can only say `main`.
    """

    agent: str
    channel: str
    peer: PeerRef | None = None
    account: str | None = None
    dm_scope: DmScope = DmScope.MAIN
    group_scope: GroupScope = GroupScope.PER_GROUP
    links: IdentityLinks = field(default_factory=IdentityLinks)
    main_key: str = normalize.DEFAULT_AGENT


@dataclass(frozen=True, slots=True)
class ParsedKey:
    """A well-formed `agent:<agent>:<rest>` key, in lower case except for opaque ids."""

    agent: str
    rest: str

    def __str__(self) -> str:
        return f"agent:{self.agent}:{self.rest}"


class KeyShape(StrEnum):
    """What a text that should be a session key turns out to be."""

    MISSING = "missing"
    AGENT = "agent"
    MALFORMED_AGENT = "malformed_agent"
    LEGACY_OR_ALIAS = "legacy_or_alias"


@dataclass(frozen=True, slots=True)
class KeyClass:
    """What a session key tells about its session.

    Attributes:
        subagent_depth: How many sub-agents deep the session runs; 0 for every other session.
        is_incognito: The session lives in memory only.
    """

    shape: KeyShape
    is_cron: bool = False
    is_cron_run: bool = False
    subagent_depth: int = 0
    is_acp: bool = False
    is_incognito: bool = False


@dataclass(frozen=True, slots=True)
class DeliveryRoute:
    """The conversation that a session key names."""

    channel: str
    peer: PeerRef
    account: str | None = None
    thread: str | None = None


class SessionKeyError(ValueError):
    """A session key does not say which agent it belongs to.

    Attributes:
        code: `MALFORMED_AGENT_SESSION_KEY` or `SESSION_KEY_WITHOUT_AGENT`.
    """

    def __init__(self, key: str, code: str) -> None:
        super().__init__(f"session key {key!r}: {code}")
        self.code = code


def main_session_key(agent: str | None, main_key: str | None = None) -> str:
    """Return the key of an agent's main session."""
    return f"agent:{normalize.agent_id(agent)}:{normalize.main_key(main_key)}"


def session_key(request: KeyRequest) -> str:
    """Return the key of the session that a conversation belongs to."""
    peer, agent = request.peer, normalize.agent_id(request.agent)
    main = main_session_key(agent, request.main_key)
    if peer is None:
        return main
    channel = fold(request.channel) or "unknown"
    kind = normalize.peer_kind(peer.kind) or "direct"
    if kind != "direct":
        if request.group_scope is GroupScope.MAIN:
            return main
        return f"agent:{agent}:{channel}:{kind}:{fold_peer(channel, kind, peer.id)}"
    if request.dm_scope is DmScope.MAIN:
        return main
    person = request.links.canonical(request.channel, peer.id) or fold_peer(channel, kind, peer.id)
    if request.dm_scope is DmScope.PER_PEER:
        return f"agent:{agent}:direct:{person}"
    if request.dm_scope is DmScope.PER_CHANNEL_PEER:
        return f"agent:{agent}:{channel}:direct:{person}"
    return f"agent:{agent}:{channel}:{normalize.account_id(request.account)}:direct:{person}"


def fold_peer(channel: str, kind: str, peer_id: str) -> str:
    """Return a peer id as keys write it: in lower case, unless case tells two rooms of that platform apart."""
    trimmed = trim(peer_id)
    return (trimmed if (channel, kind) in _OPAQUE else trimmed.lower()) or "unknown"


def group_history_key(channel: str, account: str | None, kind: str, peer_id: str) -> str:
    """Return the key under which a group's unanswered messages are kept until the agent is addressed."""
    name = fold(channel) or "unknown"
    return f"{name}:{normalize.account_id(account)}:{kind}:{fold_peer(name, kind, peer_id)}"


def fold_rest(rest: str) -> str:
    """Return the part of a key after its agent in lower case, with opaque room ids left as they are."""
    parts = rest.split(":", 2)
    head = tuple(part.lower() for part in parts[:2])
    if len(parts) == 3 and head in _OPAQUE:
        return ":".join((*head, parts[2]))
    return rest.lower()


def parse(key: str | None) -> ParsedKey | None:
    """Return the parts of an agent session key, or None when `key` is not one."""
    parts = trim(key or "").split(":", 2)
    if len(parts) < 3 or parts[0].lower() != "agent" or not trim(parts[1]) or not parts[2]:
        return None
    return ParsedKey(fold(parts[1]), fold_rest(parts[2]))


def shape_of(key: str | None) -> KeyShape:
    """Return what kind of text `key` is."""
    folded = fold(key)
    if not folded:
        return KeyShape.MISSING
    if parse(key) is not None:
        return KeyShape.AGENT
    return KeyShape.MALFORMED_AGENT if folded.startswith("agent:") else KeyShape.LEGACY_OR_ALIAS


def agent_of(key: str | None, default_agent: str | None = None) -> str:
    """Return the agent that a session key belongs to; keys without an agent belong to `default_agent`.

    Raises:
        SessionKeyError: The key is malformed, or names no agent and there is no default.
    """
    parsed = parse(key)
    if parsed is not None:
        return normalize.agent_id(parsed.agent)
    if shape_of(key) is KeyShape.MALFORMED_AGENT:
        raise SessionKeyError(key or "", "MALFORMED_AGENT_SESSION_KEY")
    if default_agent is None:
        raise SessionKeyError(key or "", "SESSION_KEY_WITHOUT_AGENT")
    return normalize.agent_id(default_agent)


def classify(key: str | None) -> KeyClass:
    """Return what `key` tells about its session."""
    parsed = parse(key)
    rest = parsed.rest if parsed is not None else fold(key)
    segments = rest.split(":")
    return KeyClass(
        shape=shape_of(key),
        is_cron=parsed is not None and rest.startswith("cron:"),
        is_cron_run=parsed is not None and _CRON_RUN.match(rest) is not None,
        subagent_depth=segments.count("subagent") if segments[0] == "subagent" and len(segments) > 1 else 0,
        is_acp=rest.startswith("acp:"),
        is_incognito=parsed is not None and rest.startswith(("dashboard:incognito-", "subagent:incognito-")),
    )


def delivery_route(key: str | None) -> DeliveryRoute | None:
    """Return the conversation that a key names, or None when it names none (main, cron, per-peer keys)."""
    parsed = parse(key)
    if parsed is None:
        return None
    base, _, thread = parsed.rest.partition(":thread:")
    parts = base.split(":")
    if len(parts) >= 3 and parts[1] in _PEER_KINDS:
        account, kind, peer_id = None, parts[1], ":".join(parts[2:])
    elif len(parts) >= 4 and parts[2] in _PEER_KINDS:
        account, kind, peer_id = parts[1], parts[2], ":".join(parts[3:])
    else:
        return None
    if not parts[0] or not peer_id:
        return None
    return DeliveryRoute(parts[0], PeerRef(kind, peer_id), account, thread or None)


def resolve_main_alias(key: str, agent: str, main_key: str | None = None) -> str:
    """Return the agent's main session key for each of its spellings, and any other key unchanged."""
    own = main_session_key(agent, main_key)
    aliases = {
        "main",
        normalize.main_key(main_key),
        own,
        main_session_key(agent),
        main_session_key(None, main_key),
        main_session_key(None),
    }
    trimmed = trim(key)
    return own if trimmed.lower() in aliases else trimmed
