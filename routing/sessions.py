"""From an event to its session: the plain route plus everything that needs to know who is speaking and where.

Three things are added to `table.select_route`, in this order:

1. A forum topic may have an agent of its own.
2. A direct message on a Telegram account other than the default one, which no binding claims, keeps to a session
   of that account whatever the scope says.
3. While nobody has chosen a direct-message scope, the main session is the owner's: everybody else gets a session
   per channel and person. Choosing `dmScope: "main"` shares it with all who are admitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidegate.events import MessageEvent, PeerKind
from tidegate.routing import normalize
from tidegate.routing.bindings import MatchedBy, RouteQuery
from tidegate.routing.keys import DmScope, GroupScope, KeyRequest, PeerRef, session_key
from tidegate.routing.table import Route, RouteTable, build_route, select_route
from tidegate.routing.threads import thread_keys

TELEGRAM: Final = "telegram"
_THREADS_ARE_PEERS: Final = frozenset({"discord"})
_CASE_MATTERS: Final = frozenset({"matrix"})


@dataclass(frozen=True, slots=True)
class ResolveOptions:
    """What the channels' own sections say about sessions.

    Attributes:
        default_accounts: The default account of each channel that names one; else it is `default`.
        topic_agents: From (account, topic peer id such as `-100:topic:5`) to the agent of that topic.
    """

    default_accounts: Mapping[str, str] = field(default_factory=dict)
    topic_agents: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def default_account(self, channel: str) -> str:
        """Return the default account of `channel`."""
        return normalize.account_id(self.default_accounts.get(channel))


@dataclass(frozen=True, slots=True)
class ResolvedSession:
    """Where a message belongs.

    Attributes:
        parent_key: The session that a thread or topic hangs under, or None.
        route: The plain route, with the topic's agent if there is one.
        dm_scope: The scope that made the key: the route's, or what the guest or account rule put in its place.
    """

    agent: str
    key: str
    parent_key: str | None
    matched_by: MatchedBy
    route: Route
    dm_scope: DmScope

    @property
    def is_main(self) -> bool:
        """Whether this is the agent's main session."""
        return self.key == self.route.main_key


def query_of(event: MessageEvent) -> RouteQuery:
    """Return what routing needs to know about an event."""
    return RouteQuery(
        channel=event.address.channel,
        account=event.address.account,
        peer=PeerRef.of(event.peer),
        parent_peer=PeerRef.of(event.parent_peer),
        guild=event.guild,
        team=event.team,
        roles=event.roles,
    )


def resolve_session(
    event: MessageEvent, table: RouteTable, options: ResolveOptions | None = None, *, is_owner: bool
) -> ResolvedSession:
    """Return the agent and session that an event belongs to.

    Args:
        is_owner: The sender is one of the owner's identities (`access.is_owner`).

    Raises:
        RoutingError: No agent may answer.
    """
    chosen = options or ResolveOptions()
    query = query_of(event)
    route = _with_topic_agent(select_route(query, table), event, query, table, chosen)
    dm_scope = _dm_scope(event, route, chosen, is_owner=is_owner)
    base = _key(query.peer, route, table, dm_scope)
    thread = _thread_suffix(event)
    keys = thread_keys(base, thread, base, keep_case=event.address.channel in _CASE_MATTERS)
    parent = keys.parent or _parent_peer_key(query, route, table)
    return ResolvedSession(route.agent, keys.key, parent, route.matched_by, route, dm_scope)


def _with_topic_agent(
    route: Route, event: MessageEvent, query: RouteQuery, table: RouteTable, options: ResolveOptions
) -> Route:
    agent = options.topic_agents.get((route.account, event.peer.id))
    if agent is None or event.peer.kind is PeerKind.DIRECT:
        return route
    return build_route(query, table, route.matched_by, route.binding, table.roster.require(agent))


def _dm_scope(event: MessageEvent, route: Route, options: ResolveOptions, *, is_owner: bool) -> DmScope:
    if event.peer.kind is not PeerKind.DIRECT:
        return route.dm_scope
    is_named = route.account != options.default_account(route.channel)
    if route.channel == TELEGRAM and route.matched_by is MatchedBy.DEFAULT and is_named:
        return DmScope.PER_ACCOUNT_CHANNEL_PEER
    if route.dm_scope_is_explicit or is_owner:
        return route.dm_scope
    return DmScope.PER_CHANNEL_PEER


def _key(peer: PeerRef | None, route: Route, table: RouteTable, dm_scope: DmScope) -> str:
    return session_key(
        KeyRequest(
            agent=route.agent,
            channel=route.channel,
            peer=peer,
            account=route.account,
            dm_scope=dm_scope,
            group_scope=route.group_scope,
            links=table.scopes.links,
            main_key=table.scopes.main_key,
        )
    )


def _thread_suffix(event: MessageEvent) -> str | None:
    """Return the thread part of the key; platforms whose threads are peers already have it in the peer id."""
    address = event.address
    if address.thread is None or address.channel in _THREADS_ARE_PEERS:
        return None
    if address.channel == TELEGRAM:
        return f"{address.chat}:{address.thread}" if event.peer.kind is PeerKind.DIRECT else None
    return None if event.peer.kind is PeerKind.DIRECT else address.thread


def _parent_peer_key(query: RouteQuery, route: Route, table: RouteTable) -> str | None:
    if query.parent_peer is None or route.group_scope is GroupScope.MAIN:
        return None
    return _key(query.parent_peer, route, table, route.dm_scope)


def shared_with(session: ResolvedSession, event: MessageEvent, table: RouteTable) -> tuple[str, ...]:
    """Return who else speaks into this session, one line each, for `tidegate route explain`."""
    if event.peer.kind is not PeerKind.DIRECT:
        return _shared_room(session, event)
    if session.is_main:
        if session.route.dm_scope_is_explicit:
            return ('everybody admitted to a direct chat with this agent: dmScope is "main"',)
        return ("the owner's other identities, on every channel, and the terminal chat",)
    linked = table.scopes.links.canonical(event.address.channel, event.peer.id)
    lines = []
    if linked is not None:
        names = ", ".join(table.scopes.links.names_of(linked))
        lines.append(f"the linked identities of {linked!r}: {names}")
    match session.dm_scope:
        case DmScope.PER_PEER:
            lines.append("a person with the same id on any other channel or account")
        case DmScope.PER_CHANNEL_PEER:
            lines.append(f"the same person on every {event.address.channel} account")
        case _:
            pass
    return tuple(lines)


def _shared_room(session: ResolvedSession, event: MessageEvent) -> tuple[str, ...]:
    if session.route.group_scope is GroupScope.MAIN:
        return ('the main session and every other group of this agent: groupScope is "main"',)
    where = "thread" if session.key != session.route.key else str(event.peer.kind)
    return (f"everybody admitted in this {where}", f"the same {where} seen by another {event.address.channel} account")
