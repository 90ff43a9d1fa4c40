"""Vectors about names, routes and session keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidegate.errors import RoutingError
from tidegate.routing import automation_keys, keys, normalize, send_policy
from tidegate.routing.bindings import Binding, Match, RouteQuery, bound_accounts
from tidegate.routing.keys import DmScope, GroupScope, KeyRequest, PeerRef
from tidegate.routing.links import IdentityLinks
from tidegate.routing.roster import Roster
from tidegate.routing.table import Route, RouteTable, SessionScopes, select_route

Row = dict[str, Any]


def text(value: Any) -> str | None:
    """Return what the raw router reads a value as: numbers as text, anything else that is not text as absent."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return str(int(value)) if float(value).is_integer() else str(value)
    return value if isinstance(value, str) else None


def peer(value: Any) -> PeerRef | None:
    """Return a raw peer."""
    if not isinstance(value, dict):
        return None
    return PeerRef(text(value.get("kind")) or "", text(value.get("id")) or "")


def dm_scope(value: Any) -> DmScope | None:
    """Return a raw dmScope; what nobody knows counts as absent."""
    return DmScope(value) if value in set(DmScope) else None


def group_scope(value: Any) -> GroupScope | None:
    """Return a raw groupScope."""
    return GroupScope(value) if value in set(GroupScope) else None


def links(value: Any) -> IdentityLinks:
    """Return raw identity links."""
    raw = value if isinstance(value, dict) else {}
    return IdentityLinks.build(
        {name: [t for t in map(text, entries) if t] for name, entries in raw.items() if isinstance(entries, list)}
    )


def bindings(config: Row) -> tuple[Binding, ...]:
    """Return the bindings of a raw config."""
    found = []
    for index, raw in enumerate(config.get("bindings") or []):
        match, session = raw.get("match") or {}, raw.get("session") or {}
        roles = match.get("roles")
        found.append(
            Binding(
                agent=text(raw.get("agentId")),
                match=Match(
                    channel=text(match.get("channel")) or "",
                    account=text(match.get("accountId")),
                    peer=peer(match.get("peer")),
                    guild=text(match.get("guildId")),
                    team=text(match.get("teamId")),
                    roles=tuple(r for r in roles if isinstance(r, str)) if isinstance(roles, list) else (),
                ),
                index=index,
                dm_scope=dm_scope(session.get("dmScope")),
                group_scope=group_scope(session.get("groupScope")),
                is_route=raw.get("type") != "acp",
            )
        )
    return tuple(found)


def roster(config: Row, *, loaded: bool) -> Roster:
    """Return the agents of a raw config; the loader supplies `main` where there are none."""
    agents = config.get("agents") or {}
    entries: list[tuple[str, Mapping[str, Any]]] | None = None
    if isinstance(agents.get("list"), list):
        entries = [(normalize.agent_id(text(entry.get("id"))), entry) for entry in agents["list"]]
    elif isinstance(agents.get("entries"), dict):
        entries = [(normalize.agent_id(name), entry or {}) for name, entry in agents["entries"].items()]
    if loaded and not entries:
        return Roster()
    system = ((agents.get("defaults") or {}).get("systemAgent") or {}).get("agentId")
    return Roster(
        agents=None if entries is None else tuple(name for name, _ in entries),
        marked=tuple(name for name, entry in entries or () if entry.get("default") is True),
        is_explicit=agents.get("ownership") == "explicit",
        system_agent=text(system),
    )


def scopes(session: Row, *, loaded: bool) -> SessionScopes:
    """Return a raw session section; the loader forces the main key."""
    return SessionScopes(
        dm_scope=dm_scope(session.get("dmScope")),
        group_scope=group_scope(session.get("groupScope")),
        links=links(session.get("identityLinks")),
        main_key=normalize.main_key(None if loaded else text(session.get("mainKey"))),
    )


def table(config: Row, *, loaded: bool = True) -> RouteTable:
    """Return the route table of a raw config."""
    return RouteTable.compile(
        bindings(config), roster(config, loaded=loaded), scopes(config.get("session") or {}, loaded=loaded)
    )


def query(raw: Row) -> RouteQuery:
    """Return a raw route input."""
    roles = raw.get("memberRoleIds")
    return RouteQuery(
        channel=text(raw.get("channel")) or "",
        account=text(raw.get("accountId")),
        peer=peer(raw.get("peer")),
        parent_peer=peer(raw.get("parentPeer")),
        guild=text(raw.get("guildId")),
        team=text(raw.get("teamId")),
        roles=tuple(r for r in roles if isinstance(r, str)) if isinstance(roles, list) else (),
        default_agent=text(raw.get("defaultAgentId")),
        dm_scope=dm_scope(raw.get("dmScope")),
        group_scope=group_scope(raw.get("groupScope")),
    )


def answer_route(row: Row) -> Any:
    """Answer a row: what the loader accepts is routed as loaded, what it rejects as the raw router sees it."""
    is_loaded = row.get("loader", "accept") == "accept"
    try:
        route = select_route(query(row["input"]), table(row["config"], loaded=is_loaded))
    except RoutingError as error:
        return {"error": error.code}
    return _route(route)


def _route(route: Route) -> Row:
    return {
        "agentId": route.agent,
        "channel": route.channel,
        "accountId": route.account,
        "sessionKey": route.key,
        "mainSessionKey": route.main_key,
        "matchedBy": route.matched_by.value,
        "lastRoutePolicy": "main" if route.key == route.main_key else "session",
        "dmScope": route.dm_scope.value,
        "groupScope": route.group_scope.value,
    }


def answer_normalize(row: Row) -> Any:
    """Answer a row about names."""
    raw = row["input"]
    if row["fn"] == "listBoundAccountIds":
        return list(bound_accounts(bindings(raw), raw["channel"]))
    functions: dict[str, Callable[[str | None], str | None]] = {
        "normalizeAgentId": normalize.agent_id,
        "normalizeAgentIdStrict": normalize.optional_agent_id,
        "normalizeAccountId": normalize.account_id,
        "normalizeOptionalAccountId": normalize.optional_account_id,
        "normalizeMainKey": normalize.main_key,
        "normalizeMessageChannel": normalize.message_channel,
    }
    return functions[row["fn"]](text(raw.get("value")))


def answer_session_key(row: Row) -> Any:
    """Answer a row about session keys."""
    return _SESSION_KEYS[row["fn"]](row["input"])


def _agent_session_key(raw: Row) -> str:
    return keys.session_key(
        KeyRequest(
            agent=raw.get("agentId") or "",
            channel=raw.get("channel") or "",
            peer=peer(raw.get("peer")),
            account=raw.get("accountId"),
            dm_scope=dm_scope(raw.get("dmScope")) or DmScope.MAIN,
            group_scope=group_scope(raw.get("groupScope")) or GroupScope.PER_GROUP,
            links=links(raw.get("identityLinks")),
            main_key=normalize.main_key(raw.get("mainKey")),
        )
    )


def _outbound_base_key(raw: Row) -> str:
    session = raw.get("session") or {}
    return _agent_session_key({**session, **raw})


def _parse(raw: Row) -> Any:
    parsed = keys.parse(raw["sessionKey"])
    return None if parsed is None else {"agentId": parsed.agent, "rest": parsed.rest}


def _agent_of(raw: Row) -> Any:
    try:
        return keys.agent_of(raw["sessionKey"], raw.get("configuredDefaultAgentId"))
    except keys.SessionKeyError as error:
        return {"error": error.code}


def _classify(raw: Row) -> Row:
    found = keys.classify(raw["sessionKey"])
    return {
        "cron": found.is_cron,
        "cronRun": found.is_cron_run,
        "subagent": found.subagent_depth > 0,
        "subagentDepth": found.subagent_depth,
        "acp": found.is_acp,
        "incognito": found.is_incognito,
        "shape": found.shape.value,
    }


def _delivery_route(raw: Row) -> Any:
    route = keys.delivery_route(raw["sessionKey"])
    if route is None:
        return None
    extra = {"accountId": route.account, "threadId": route.thread}
    known = {name: value for name, value in extra.items() if value is not None}
    return {"channel": route.channel, "peerKind": route.peer.kind, "peerId": route.peer.id, **known}


def _hook_key(raw: Row) -> Row:
    hooks = raw["hooks"]
    policy = automation_keys.HookKeyPolicy(
        default_key=hooks.get("defaultSessionKey"),
        allow_requested=hooks.get("allowRequestSessionKey") is True,
        allowed_prefixes=tuple(hooks.get("allowedSessionKeyPrefixes") or ()),
    )
    if policy.problem() is not None:
        return {"error": "HOOKS_CONFIG_REJECTED"}
    key = policy.choose(raw.get("sessionKey"), raw["generatedId"])
    return {"ok": False} if key is None else {"ok": True, "value": key}


def _alias(raw: Row) -> str:
    session = raw.get("session") or {}
    agent, main_key = raw["agentId"], session.get("mainKey")
    key = keys.resolve_main_alias(raw["sessionKey"], agent, main_key)
    is_main = key == keys.main_session_key(agent, main_key)
    return "global" if is_main and session.get("scope") == "global" else key


def _context_key(raw: Row) -> str:
    context, agent = raw["ctx"], raw["agentId"]
    if context.get("SessionKey"):
        parsed = keys.parse(context["SessionKey"])
        return str(parsed) if parsed else str(context["SessionKey"]).strip().lower()
    if raw["scope"] == "global":
        return "global"
    parts = (context.get("From") or "").split(":", 2)
    if len(parts) == 3 and parts[1] in ("group", "channel"):
        return keys.session_key(KeyRequest(agent, parts[0], PeerRef(parts[1], parts[2])))
    kind = context.get("ChatType")
    if kind in ("group", "channel"):
        channel = context.get("Provider") or (parts[0] if len(parts) > 1 else "")
        return keys.session_key(KeyRequest(agent, channel, PeerRef(kind, parts[-1])))
    return keys.main_session_key(agent)


def _send_policy(raw: Row) -> str:
    policy = raw.get("sendPolicy") or {}
    rules = [
        send_policy.SendRule(
            allows=rule.get("action") == "allow",
            channel=(rule.get("match") or {}).get("channel"),
            chat_type=(rule.get("match") or {}).get("chatType"),
            key_prefix=(rule.get("match") or {}).get("keyPrefix"),
            raw_key_prefix=(rule.get("match") or {}).get("rawKeyPrefix"),
        )
        for rule in policy.get("rules") or []
    ]
    override = (raw.get("entry") or {}).get("sendPolicy")
    allowed = send_policy.may_send(
        send_policy.SendSubject(raw["sessionKey"], raw.get("channel"), raw.get("chatType")),
        rules,
        default=policy.get("default") != "deny",
        override=None if override is None else override == "allow",
    )
    return "allow" if allowed else "deny"


def _session_target(raw: Row) -> Any:
    try:
        return automation_keys.session_target(raw.get("sessionTarget") or "")
    except ValueError:
        return {"error": "INVALID_SESSION_TARGET"}


_SESSION_KEYS: dict[str, Callable[[Row], Any]] = {
    "buildAgentSessionKey": _agent_session_key,
    "buildOutboundBaseSessionKey": _outbound_base_key,
    "buildAgentMainSessionKey": lambda raw: keys.main_session_key(raw.get("agentId"), raw.get("mainKey")),
    "buildGroupHistoryKey": lambda raw: keys.group_history_key(
        raw["channel"], raw.get("accountId"), raw["peerKind"], raw["peerId"]
    ),
    "parseAgentSessionKey": _parse,
    "resolveAgentIdFromSessionKey": _agent_of,
    "classify": _classify,
    "parseSessionDeliveryRoute": _delivery_route,
    "resolveCronAgentSessionKey": lambda raw: automation_keys.cron_key(raw["agentId"], raw.get("sessionKey")),
    "resolveCronSessionTargetSessionKey": _session_target,
    "resolveHookSessionKey": _hook_key,
    "normalizeHookDispatchSessionKey": lambda raw: automation_keys.hook_dispatch_key(
        raw["sessionKey"], raw.get("targetAgentId")
    ),
    "canonicalizeMainSessionAlias": _alias,
    "resolveSessionKey": _context_key,
    "resolveSendPolicy": _send_policy,
    "deriveLastRoutePolicy": lambda raw: "main" if raw["sessionKey"] == raw["mainSessionKey"] else "session",
}
