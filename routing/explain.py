"""Why a message goes where it goes, and which rules can never decide anything.

This may look at every binding: it answers a person's question, not a message.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from tidegate.errors import RoutingError
from tidegate.routing import normalize
from tidegate.routing.bindings import (
    ANY,
    Binding,
    Constraints,
    MatchedBy,
    RouteQuery,
    Rule,
    compile_rule,
    impossible,
    peer_key,
    query_account,
)
from tidegate.routing.normalize import fold, trim
from tidegate.routing.table import Bucket, Route, RouteTable, filed_under, generalisations, levels, select_route


@dataclass(frozen=True, slots=True)
class Candidate:
    """One rule of a level; `reason` is empty when it fits."""

    binding: Binding
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LevelReport:
    """What one level had to say.

    Attributes:
        winner: The level's first fitting rule, or None. Only the first level with a winner decides.
        candidates: Every rule filed on this level, in config order.
        note: Why the level could not apply at all, or empty.
    """

    level: MatchedBy
    winner: Binding | None
    candidates: tuple[Candidate, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole way from a message to its session. Exactly one of `route` and `error` is set.

    Attributes:
        ignored: Rules that no message can ever fit, with the reason.
    """

    levels: tuple[LevelReport, ...]
    ignored: tuple[Candidate, ...]
    route: Route | None
    error: RoutingError | None


def explain(query: RouteQuery, table: RouteTable) -> Explanation:
    """Return how `select_route` comes to its answer for `query`."""
    rules = [rule for rule in map(compile_rule, table.bindings) if rule is not None]
    reachable = dict(levels(query))
    reports = tuple(
        _report(level, query, [rule for rule in rules if rule.level is filed_under(level)], level in reachable)
        for level in MatchedBy
        if level is not MatchedBy.DEFAULT
    )
    ignored = tuple(Candidate(b, reason) for b in table.bindings if (reason := _unusable(b)))
    try:
        return Explanation(reports, ignored, select_route(query, table), None)
    except RoutingError as error:
        return Explanation(reports, ignored, None, error)


def _unusable(binding: Binding) -> str:
    if not binding.is_route:
        return "it is not a route"
    return impossible(binding.match) or ""


_NEEDS = {
    MatchedBy.PEER: "the message names no peer",
    MatchedBy.PARENT: "the conversation hangs under no other",
    MatchedBy.PEER_WILDCARD: "the message names no peer of a known kind",
    MatchedBy.GUILD_ROLES: "the message comes from no guild",
    MatchedBy.GUILD: "the message comes from no guild",
    MatchedBy.TEAM: "the message comes from no team",
}


def _report(level: MatchedBy, query: RouteQuery, rules: list[Rule], is_reachable: bool) -> LevelReport:
    note = "" if is_reachable else _NEEDS.get(level, "the message names no channel")
    asked = replace(query, peer=query.parent_peer) if level is MatchedBy.PARENT else query
    candidates = tuple(
        Candidate(rule.binding, note or _mismatch(rule, asked))
        for rule in sorted(rules, key=lambda rule: rule.binding.index)
    )
    winner = next((c.binding for c in candidates if not c.reason), None)
    return LevelReport(level, winner, candidates, note)


def _mismatch(rule: Rule, query: RouteQuery) -> str:
    """Return the first thing about `query` that does not fit, or empty."""
    wanted, channel = rule.constraints, fold(query.channel)
    account = query_account(query.account)
    if wanted.channel != channel:
        return f"channel is {channel!r}, the rule wants {wanted.channel!r}"
    if wanted.account not in (ANY, account):
        hint = " (a rule without accountId means 'default')" if rule.binding.match.account is None else ""
        return f"account is {account!r}, the rule wants {wanted.account!r}{hint}"
    if wanted.peer is not None and (reason := _peer_mismatch(wanted, query)):
        return reason
    for name, want, have in (("guild", wanted.guild, query.guild), ("team", wanted.team, query.team)):
        if want and want != trim(have or ""):
            return f"{name} is {trim(have or '')!r}, the rule wants {want!r}"
    if rule.roles and not set(rule.roles) & set(query.roles):
        return f"the sender has none of the roles {', '.join(rule.roles)}"
    return ""


def _peer_mismatch(wanted: Constraints, query: RouteQuery) -> str:
    have = peer_key(query.peer)
    if wanted.peer is None or have == wanted.peer:
        return ""
    if have is None or have[0] is not wanted.peer[0]:
        return f"peer is {'absent' if query.peer is None else query.peer.kind}, the rule wants a {wanted.peer[0]}"
    if wanted.peer[1] == ANY:
        return ""
    same = "; ids are compared with their case" if have[1].lower() == wanted.peer[1].lower() else ""
    return f"peer id is {have[1]!r}, the rule wants {wanted.peer[1]!r}{same}"


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A rule that can never decide anything, or never as it was meant.

    Attributes:
        by: The earlier rules that take everything it could match; empty when the rule itself is the reason.
    """

    binding: Binding
    reason: str
    by: tuple[Binding, ...] = ()


def shadowed(table: RouteTable, channels: Collection[str] | None = None) -> tuple[Shadowed, ...]:
    """Return every binding that can never match or never work, in config order, with the reason.

    Args:
        channels: The channels that exist; None skips that check.
    """
    found = []
    buckets: dict[tuple[MatchedBy, Constraints], Bucket] = {}
    for binding in sorted(table.bindings, key=lambda binding: binding.index):
        rule = compile_rule(binding)
        if rule is not None:
            cover = _cover(rule, buckets)
            buckets.setdefault((rule.level, rule.constraints), Bucket()).file(rule)
        else:
            cover = ()
        reason = _own_fault(binding, table, channels)
        if reason:
            found.append(Shadowed(binding, reason))
        elif cover:
            names = ", ".join(str(b) for b in cover)
            found.append(Shadowed(binding, f"everything it matches goes to an earlier rule: {names}", cover))
    return tuple(found)


def _cover(rule: Rule, buckets: dict[tuple[MatchedBy, Constraints], Bucket]) -> tuple[Binding, ...]:
    """Return the earlier rules of the same level that together take all of `rule`, or nothing."""
    wider = (buckets.get((rule.level, constraints)) for constraints in generalisations(rule.constraints))
    earlier = [bucket for bucket in wider if bucket is not None]
    whole = [bucket.anyone.binding for bucket in earlier if bucket.anyone is not None]
    if whole:
        return (min(whole, key=lambda binding: binding.index),)
    by_role = [[b.by_role[role].binding for b in earlier if role in b.by_role] for role in rule.roles]
    if not by_role or not all(by_role):
        return ()
    return tuple(dict.fromkeys(min(owners, key=lambda binding: binding.index) for owners in by_role))


def _own_fault(binding: Binding, table: RouteTable, channels: Collection[str] | None) -> str:
    if not binding.is_route:
        return ""
    reason = impossible(binding.match)
    if reason:
        return f"it can never match: {reason}"
    channel = fold(binding.match.channel)
    if channels is not None and channel not in {fold(known) for known in channels}:
        return f"there is no channel {channel!r}"
    agent = trim(binding.agent or "")
    if agent and not table.roster.admits(normalize.agent_id(agent)):
        return f"there is no agent {normalize.agent_id(agent)!r}: messages it matches are refused"
    account = trim(binding.match.account or "")
    if account != ANY and any(sign in account for sign in "*?["):
        return f"accountId {account!r} is not a pattern; it means {normalize.account_id(account)!r}"
    return ""
