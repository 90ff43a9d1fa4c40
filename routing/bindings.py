"""Bindings: the config's rules that give conversations to agents, in the form that routing compares."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tidegate.routing import normalize
from tidegate.routing.keys import DmScope, GroupScope, PeerRef
from tidegate.routing.normalize import fold, trim

ANY: Final = "*"


class MatchedBy(StrEnum):
    """Which level decided a route, strongest first."""

    PEER = "binding.peer"
    PARENT = "binding.peer.parent"
    PEER_WILDCARD = "binding.peer.wildcard"
    GUILD_ROLES = "binding.guild+roles"
    GUILD = "binding.guild"
    TEAM = "binding.team"
    ACCOUNT = "binding.account"
    CHANNEL = "binding.channel"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Match:
    """What a binding asks of a message, as the config says it; every field that is set must fit.

    Attributes:
        account: None means the account named `default`; `*` means every account.
        peer: Id `*` means every peer of that kind.
        roles: Any one of them is enough.
    """

    channel: str
    account: str | None = None
    peer: PeerRef | None = None
    guild: str | None = None
    team: str | None = None
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Binding:
    """One rule.

    Attributes:
        agent: None or blank means the default agent.
        index: Position in the config; of two rules on one level the earlier wins.
        where: `file:line:column` of the rule, or empty.
        is_route: False for entries of other kinds (`type: "acp"`), which ordinary routing skips.
    """

    agent: str | None
    match: Match
    index: int = 0
    where: str = ""
    dm_scope: DmScope | None = None
    group_scope: GroupScope | None = None
    is_route: bool = True

    def __str__(self) -> str:
        return f"bindings[{self.index}]" + (f" ({self.where})" if self.where else "")


@dataclass(frozen=True, slots=True)
class RouteQuery:
    """What routing needs to know about a message.

    Attributes:
        default_agent: Answers instead of the roster's default when nothing matches.
        dm_scope, group_scope: The caller's choice; weaker than the binding's, stronger than the config's.
    """

    channel: str
    account: str | None = None
    peer: PeerRef | None = None
    parent_peer: PeerRef | None = None
    guild: str | None = None
    team: str | None = None
    roles: tuple[str, ...] = ()
    default_agent: str | None = None
    dm_scope: DmScope | None = None
    group_scope: GroupScope | None = None


class PeerClass(StrEnum):
    """Peer kinds as bindings compare them: a group rule also fits a channel and the other way round."""

    PERSON = "person"
    ROOM = "room"

    @classmethod
    def of(cls, kind: str) -> PeerClass | None:
        """Return the class of a peer kind, or None for kinds that no binding can match."""
        return _CLASSES.get(normalize.peer_kind(kind))


_CLASSES: Final = {"direct": PeerClass.PERSON, "group": PeerClass.ROOM, "channel": PeerClass.ROOM}

PeerKey = tuple[PeerClass, str]


def peer_key(peer: PeerRef | None) -> PeerKey | None:
    """Return a peer in comparable form; ids are compared with their case, only trimmed."""
    if peer is None:
        return None
    kind = PeerClass.of(peer.kind)
    return None if kind is None else (kind, trim(peer.id))


@dataclass(frozen=True, slots=True)
class Constraints:
    """The comparable part of a binding or a message: where it is, without the roles."""

    channel: str
    account: str
    peer: PeerKey | None = None
    guild: str = ""
    team: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A binding that can match, with its level and its normalised constraints."""

    binding: Binding
    level: MatchedBy
    constraints: Constraints
    roles: tuple[str, ...] = field(default=())


def binding_account(match: Match) -> str:
    """Return the account that a rule is for: an id, or `*`. Other patterns are not globs."""
    return ANY if trim(match.account or "") == ANY else normalize.account_id(match.account)


def query_account(account: str | None) -> str:
    """Return the account that a message came in on."""
    return normalize.DEFAULT_ACCOUNT if trim(account or "") == ANY else normalize.account_id(account)


def impossible(match: Match) -> str | None:
    """Return why a rule can never match whatever arrives, or None."""
    channel = fold(match.channel)
    if not channel:
        return "it names no channel"
    if channel == ANY:
        return "'*' is not a channel; write one binding a channel"
    if match.peer is None:
        return None
    if PeerClass.of(match.peer.kind) is None:
        return f"peer kind {match.peer.kind!r} does not exist; use direct, group or channel"
    return None if trim(match.peer.id) else "its peer id is blank"


def compile_rule(binding: Binding) -> Rule | None:
    """Return the comparable form of a binding, or None when it can never match."""
    match = binding.match
    if not binding.is_route or impossible(match) is not None:
        return None
    constraints = Constraints(
        channel=fold(match.channel),
        account=binding_account(match),
        peer=peer_key(match.peer),
        guild=trim(match.guild or ""),
        team=trim(match.team or ""),
    )
    return Rule(binding, _level(constraints, match.roles), constraints, match.roles)


def _level(constraints: Constraints, roles: tuple[str, ...]) -> MatchedBy:
    if constraints.peer is not None:
        return MatchedBy.PEER_WILDCARD if constraints.peer[1] == ANY else MatchedBy.PEER
    if constraints.guild:
        return MatchedBy.GUILD_ROLES if roles else MatchedBy.GUILD
    if constraints.team:
        return MatchedBy.TEAM
    return MatchedBy.CHANNEL if constraints.account == ANY else MatchedBy.ACCOUNT


def bound_accounts(bindings: tuple[Binding, ...], channel: str) -> tuple[str, ...]:
    """Return the accounts of a channel that bindings name, sorted, without `*`."""
    wanted = fold(channel)
    found = {binding_account(b.match) for b in bindings if b.is_route and fold(b.match.channel) == wanted}
    return tuple(sorted(found - {ANY}))
