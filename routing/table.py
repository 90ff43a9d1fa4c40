"""The route table: from a message to the agent that answers it, by lookups only.

Rules are filed under what they ask for. A message can only be asked for in a fixed number of ways (its own
account or any, its guild or none, its team or none), so a route costs the same with ten bindings and with
ten thousand. Of rules filed under the same key only the first per role is kept: the others can never win.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate.routing import normalize
from tidegate.routing.bindings import (
    ANY,
    Binding,
    Constraints,
    MatchedBy,
    PeerKey,
    RouteQuery,
    Rule,
    compile_rule,
    peer_key,
    query_account,
)
from tidegate.routing.keys import DmScope, GroupScope, KeyRequest, main_session_key, session_key
from tidegate.routing.links import IdentityLinks
from tidegate.routing.normalize import fold, trim
from tidegate.routing.roster import Roster


@dataclass(frozen=True, slots=True)
class SessionScopes:
    """The config's `session` section as far as keys depend on it. None means that the config is silent."""

    dm_scope: DmScope | None = None
    group_scope: GroupScope | None = None
    links: IdentityLinks = field(default_factory=IdentityLinks)
    main_key: str = normalize.DEFAULT_AGENT


@dataclass(frozen=True, slots=True)
class Route:
    """Who answers a message, in which session, and why.

    Attributes:
        key: The session's key by the plain rules; `sessions.resolve_session` adds guests, threads and topics.
        binding: The rule that decided, or None.
        dm_scope_is_explicit: Somebody chose the scope (config, rule or caller); it is not just the default.
    """

    agent: str
    channel: str
    account: str
    key: str
    main_key: str
    matched_by: MatchedBy
    dm_scope: DmScope
    group_scope: GroupScope
    binding: Binding | None = None
    dm_scope_is_explicit: bool = False


@dataclass(slots=True)
class Bucket:
    """The first rule filed under one key without roles, and the first for each role."""

    anyone: Rule | None = None
    by_role: dict[str, Rule] = field(default_factory=dict)

    def file(self, rule: Rule) -> None:
        """Keep `rule` where no earlier rule stands; rules are filed in config order."""
        if not rule.roles:
            self.anyone = self.anyone or rule
        for role in rule.roles:
            self.by_role.setdefault(role, rule)

    def first(self, roles: Sequence[str]) -> Rule | None:
        """Return the earliest rule here that fits somebody with `roles`."""
        fitting = [self.by_role[role] for role in roles if role in self.by_role]
        if self.anyone is not None:
            fitting.append(self.anyone)
        return min(fitting, key=_order) if fitting else None


@dataclass(frozen=True, slots=True)
class RouteTable:
    """Bindings, agents and session scopes, compiled once per config."""

    bindings: tuple[Binding, ...] = ()
    roster: Roster = field(default_factory=Roster)
    scopes: SessionScopes = field(default_factory=SessionScopes)
    buckets: Mapping[tuple[MatchedBy, Constraints], Bucket] = field(default_factory=dict)

    @classmethod
    def compile(
        cls, bindings: Sequence[Binding], roster: Roster | None = None, scopes: SessionScopes | None = None
    ) -> RouteTable:
        """File every binding that can match; `bindings` are in config order."""
        buckets: dict[tuple[MatchedBy, Constraints], Bucket] = {}
        for rule in filter(None, map(compile_rule, sorted(bindings, key=lambda binding: binding.index))):
            buckets.setdefault((rule.level, rule.constraints), Bucket()).file(rule)
        return cls(tuple(bindings), roster or Roster(), scopes or SessionScopes(), buckets)

    def find(self, query: RouteQuery) -> tuple[MatchedBy, Rule | None]:
        """Return the strongest level with a fitting rule, and its first such rule."""
        for level, wanted in levels(query):
            found = (self.buckets.get((filed_under(level), constraints)) for constraints in wanted)
            rules = [rule for bucket in found if bucket and (rule := bucket.first(query.roles))]
            if rules:
                return level, min(rules, key=_order)
        return MatchedBy.DEFAULT, None


def _order(rule: Rule) -> int:
    return rule.binding.index


def filed_under(level: MatchedBy) -> MatchedBy:
    """Return the level whose rules a level consults: parents are looked up among the concrete peers."""
    return MatchedBy.PEER if level is MatchedBy.PARENT else level


def levels(query: RouteQuery) -> Iterator[tuple[MatchedBy, tuple[Constraints, ...]]]:
    """Yield each level that the query can reach, strongest first, with the constraints it can satisfy there."""
    channel, account = fold(query.channel), query_account(query.account)
    if not channel:
        return
    place = Constraints(channel, account, None, trim(query.guild or ""), trim(query.team or ""))
    peer, parent = peer_key(query.peer), peer_key(query.parent_peer)
    if _is_concrete(peer):
        yield MatchedBy.PEER, generalisations(replace(place, peer=peer))
    if _is_concrete(parent):
        yield MatchedBy.PARENT, generalisations(replace(place, peer=parent))
    if peer is not None:
        yield MatchedBy.PEER_WILDCARD, generalisations(replace(place, peer=(peer[0], ANY)))
    if place.guild:
        in_guild = tuple(c for c in generalisations(place) if c.guild)
        yield MatchedBy.GUILD_ROLES, in_guild
        yield MatchedBy.GUILD, in_guild
    if place.team:
        yield MatchedBy.TEAM, tuple(c for c in generalisations(place) if c.team and not c.guild)
    yield MatchedBy.ACCOUNT, (Constraints(channel, account),)
    yield MatchedBy.CHANNEL, (Constraints(channel, ANY),)


def _is_concrete(peer: PeerKey | None) -> bool:
    return peer is not None and bool(peer[1]) and peer[1] != ANY


def generalisations(place: Constraints) -> tuple[Constraints, ...]:
    """Return every set of constraints that `place` satisfies with its peer kept: at most eight."""
    return tuple(
        Constraints(place.channel, account, place.peer, guild, team)
        for account in dict.fromkeys((place.account, ANY))
        for guild in dict.fromkeys((place.guild, ""))
        for team in dict.fromkeys((place.team, ""))
    )


def select_route(query: RouteQuery, table: RouteTable) -> Route:
    """Return who answers a message and in which session.

    Raises:
        RoutingError: No agent may answer: the rule names an agent that does not exist, or nothing matches and
            nobody is the default.
    """
    matched_by, rule = table.find(query)
    binding = rule.binding if rule is not None else None
    return build_route(query, table, matched_by, binding, _choose_agent(query, table.roster, binding))


def _choose_agent(query: RouteQuery, roster: Roster, binding: Binding | None) -> str:
    if binding is not None:
        named = trim(binding.agent or "")
        return roster.require(named) if named else roster.require_default()
    if query.default_agent is not None and trim(query.default_agent):
        return roster.require(query.default_agent)
    return roster.require_default()


def build_route(
    query: RouteQuery, table: RouteTable, matched_by: MatchedBy, binding: Binding | None, agent: str
) -> Route:
    """Return the route of `query` to `agent`, with the scopes that apply to it."""
    scopes = table.scopes
    rule_dm, rule_group = (binding.dm_scope, binding.group_scope) if binding is not None else (None, None)
    chosen = rule_dm or query.dm_scope or scopes.dm_scope
    group_scope = rule_group or query.group_scope or scopes.group_scope or GroupScope.PER_GROUP
    account = query_account(query.account)
    request = KeyRequest(
        agent=agent,
        channel=query.channel,
        peer=query.peer,
        account=account,
        dm_scope=chosen or DmScope.MAIN,
        group_scope=group_scope,
        links=scopes.links,
        main_key=scopes.main_key,
    )
    return Route(
        agent=agent,
        channel=fold(query.channel),
        account=account,
        key=session_key(request),
        main_key=main_session_key(agent, scopes.main_key),
        matched_by=matched_by,
        dm_scope=request.dm_scope,
        group_scope=group_scope,
        binding=binding,
        dm_scope_is_explicit=chosen is not None,
    )
