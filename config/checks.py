"""Checks that need more than one section: who answers, which bindings can match, what is unsafe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.config import known_keys
from tidegate.config.exposure import exposures
from tidegate.config.model import Config
from tidegate.config.paths import KeyPath
from tidegate.config.problems import ProblemKind
from tidegate.config.sections.agents import AGENT_ID, MAIN_AGENT
from tidegate.config.sections.base import normalize_id
from tidegate.config.sections.bindings import Binding
from tidegate.config.sections.channels import KNOWN_CHANNELS
from tidegate.config.sections.telegram import DEFAULT_ACCOUNT
from tidegate.config.validate import Findings

_ROSTER = ProblemKind.ROSTER
_BINDING = ProblemKind.BINDING


def check_roster(findings: Findings, data: Mapping[str, Any]) -> None:
    """Agent ids must be usable and distinct, and at most one agent may be the default."""
    agents = data.get("agents")
    if not isinstance(agents, dict):
        return
    entries, listed = agents.get("entries"), agents.get("list")
    named = list(entries) if isinstance(entries, dict) else []
    items = listed if isinstance(listed, list) else []
    if named and items:
        message = "agents.list and agents.entries cannot be used together"
        findings.refuse(("agents", "list"), message, "move the list's agents into agents.entries", _ROSTER, key=True)
    where: list[tuple[KeyPath, str, Any]] = [
        (("agents", "entries", name), name, entries[name] if isinstance(entries, dict) else None) for name in named
    ]
    where += [
        (("agents", "list", index), str(item["id"]), item)
        for index, item in enumerate(items)
        if isinstance(item, dict) and isinstance(item.get("id"), str)
    ]
    seen: dict[str, KeyPath] = {}
    for path, name, _ in where:
        folded = name.strip().lower()
        if not AGENT_ID.fullmatch(folded):
            slug = normalize_id(name, MAIN_AGENT)
            message = "an agent's id has 1 to 64 letters a–z, digits, '-' and '_', and does not begin with '-'"
            findings.refuse(path, message, f"rename it to '{slug}'", _ROSTER, key=True)
        elif folded in seen:
            findings.refuse(path, f"two agents have the id '{folded}'", "rename one of them", _ROSTER, key=True)
        seen[folded] = path
    marked = [path for path, _, item in where if isinstance(item, dict) and item.get("default") is True]
    _check_owner(findings, agents, marked, list(seen))


def _check_owner(findings: Findings, agents: Mapping[str, Any], marked: list[KeyPath], ids: list[str]) -> None:
    explicit = agents.get("ownership") == "explicit"
    path: KeyPath = ("agents", "ownership")
    if marked and explicit:
        message = "ownership 'explicit' and an agent marked as default exclude each other"
        findings.refuse(path, message, "remove one of the two", _ROSTER)
    elif len(marked) > 1:
        message = f"{len(marked)} agents are marked as default"
        findings.refuse(path, message, "keep `default: true` on one agent", _ROSTER)
    defaults = agents.get("defaults")
    system = defaults.get("systemAgent") if isinstance(defaults, dict) else None
    owner = system.get("agentId") if isinstance(system, dict) else None
    if isinstance(owner, str) and owner.strip().lower() not in (ids or [MAIN_AGENT]):
        owner_path: KeyPath = ("agents", "defaults", "systemAgent", "agentId")
        findings.refuse(owner_path, f"there is no agent '{owner}'", _nearest_agent(owner, ids), _ROSTER)
    elif len(ids) > 1 and not marked and owner is None:
        message = "no agent is the default, so messages that no binding matches are refused"
        hint = f'set agents.defaults.systemAgent.agentId, for example to "{ids[0]}"'
        findings.warn(("agents",), message, hint, _ROSTER, key=True)


def check_bindings(findings: Findings, config: Config, data: Mapping[str, Any]) -> None:
    """Warn about bindings to nobody, bindings that cannot match, and repeated ones."""
    raw = data.get("bindings")
    if not isinstance(raw, list) or len(raw) != len(config.bindings):
        return
    members = config.agents.members()
    seen: dict[tuple[object, ...], int] = {}
    for index, binding in enumerate(config.bindings):
        path: KeyPath = ("bindings", index)
        agent = binding.agent_id.strip()
        if agent and normalize_id(agent, MAIN_AGENT) not in members:
            message = f"there is no agent '{agent}', so messages this binding matches are refused"
            findings.warn((*path, "agentId"), message, _nearest_agent(agent, list(members)), _BINDING)
        if binding.type == "acp":
            findings.warn((*path, "type"), "bindings of type 'acp' are not used", "", ProblemKind.UNSUPPORTED)
            continue
        reason, key, hint = _cannot_match(config, binding)
        if reason:
            findings.warn((*path, "match", *key), f"this binding can never match: {reason}", hint, _BINDING)
        shape = _shape(binding)
        if shape in seen:
            message = f"this binding can never match: bindings[{seen[shape]}] matches the same messages first"
            findings.warn(path, message, "remove one of the two", _BINDING)
        seen.setdefault(shape, index)


def _shape(binding: Binding) -> tuple[object, ...]:
    match = binding.match
    peer = (match.peer.kind, match.peer.id.strip()) if match.peer else None
    account = match.account_id.strip()
    account = account if account == "*" else normalize_id(account, DEFAULT_ACCOUNT)
    return (
        match.channel.strip().lower(),
        account,
        peer,
        match.guild_id.strip(),
        match.team_id.strip(),
        frozenset(match.roles),
    )


def _cannot_match(config: Config, binding: Binding) -> tuple[str, tuple[str, ...], str]:
    match = binding.match
    channel = match.channel.strip().lower()
    if channel not in KNOWN_CHANNELS:
        close = known_keys.nearest(channel, sorted(KNOWN_CHANNELS))
        hint = f"did you mean '{close}'?" if close else ""
        return f"there is no channel '{match.channel}'", ("channel",), hint
    if match.peer is not None and not match.peer.id.strip():
        return "the peer's id is empty", ("peer", "id"), 'use "*" for any peer of this kind'
    telegram = config.channels.telegram
    if channel == "telegram" and telegram is not None and match.account_id.strip() != "*":
        accounts = telegram.account_options()
        account = normalize_id(match.account_id, DEFAULT_ACCOUNT)
        if account not in accounts:
            hint = f'set accountId to "{next(iter(accounts))}", or to "*" for every account'
            return f"telegram has no account '{account}'", (), hint
    return "", (), ""


def check_broadcast(findings: Findings, config: Config, data: Mapping[str, Any]) -> None:
    """Broadcasts are not used yet, but one that names nobody is a mistake already."""
    broadcast = data.get("broadcast")
    if not isinstance(broadcast, dict):
        return
    members = config.agents.members()
    for key, value in broadcast.items():
        if key == "strategy":
            continue
        inner: KeyPath = ("broadcast", key) if isinstance(value, list) else ("broadcast", key, "agents")
        names = value if isinstance(value, list) else value.get("agents") if isinstance(value, dict) else None
        for index, name in enumerate(names if isinstance(names, list) else []):
            if isinstance(name, str) and normalize_id(name, MAIN_AGENT) not in members:
                hint = _nearest_agent(name, list(members))
                findings.refuse((*inner, index), f"there is no agent '{name}'", hint, _ROSTER)


def check_safety(findings: Findings, config: Config) -> None:
    """Refuse an open door, and warn about settings that shut everybody out."""
    for found in exposures(config.gateway):
        findings.refuse(found.path, found.message, found.hint, ProblemKind.SAFETY)
    telegram = config.channels.telegram
    if telegram is None:
        return
    accounts = telegram.account_options()
    chosen = telegram.default_account
    if chosen is not None and normalize_id(chosen, DEFAULT_ACCOUNT) not in accounts:
        message = f"there is no account '{chosen}'"
        hint = "known accounts: " + ", ".join(accounts)
        findings.warn(("channels", "telegram", "defaultAccount"), message, hint)
    for name, account in accounts.items():
        own: KeyPath = ("channels", "telegram", "accounts", name)
        path = (*own, "dmPolicy") if name in telegram.accounts else ("channels", "telegram", "dmPolicy")
        if account.dm_policy == "open" and "*" not in account.allow_from:
            message = "dmPolicy 'open' admits nobody unless allowFrom contains \"*\""
            findings.warn(path, message, 'add "*" to allowFrom', ProblemKind.SAFETY)
        if account.enabled and account.bot_token is None and account.token_file is None:
            message = f"the account '{name}' has no token and will not connect"
            findings.warn(path[:-1], message, "set botToken, tokenFile or TELEGRAM_BOT_TOKEN")


OWN_FOLDERS = frozenset({"config", "logs", "blobs"})
"""Folders of the state directory that are the gateway's own."""


def check_workspaces(findings: Findings, config: Config, state_dir: Path) -> None:
    """Refuse a workspace from which an agent could change its own configuration or the gateway's state."""
    if any(problem.path.split(".")[0] == "agents" for problem in findings.problems):
        return
    kept = (Path(os.path.realpath(state_dir)), Path(os.path.realpath(findings.main)))
    for agent in config.agents.roster():
        workspace = Path(os.path.realpath(agent.workspace))
        inside = workspace.relative_to(kept[0]).parts[:1] if workspace.is_relative_to(kept[0]) else ()
        if not any(path.is_relative_to(workspace) for path in kept) and not set(inside) & OWN_FOLDERS:
            continue
        entry = config.agents.entries.get(agent.id)
        own = entry is not None and entry.workspace is not None
        path: KeyPath = ("agents", "entries", agent.id, "workspace") if own else ("agents", "defaults", "workspace")
        message = f"the workspace {workspace} holds the gateway's own configuration or state"
        findings.refuse(path, message, "choose a folder that holds only the agent's files", ProblemKind.SAFETY)


def _nearest_agent(name: str, ids: list[str]) -> str:
    close = known_keys.nearest(name, ids)
    if close:
        return f"did you mean '{close}'?"
    return "known agents: " + ", ".join(ids[:8]) if ids else f"the only agent is '{MAIN_AGENT}'"
