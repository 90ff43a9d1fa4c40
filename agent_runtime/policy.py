"""Which tools an agent may use: rules in, decision out.

The layers only narrow: profile, allow and deny, then the same for the provider in use. Deny always wins.
Names are matched without case, `*` is a wildcard, `group:x` stands for the tools of a group, and some older
names are understood.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from tidegate.agent_runtime.tools.base import Effect

ALIASES: Mapping[str, str] = {"bash": "exec", "cron": "automations", "apply-patch": "apply_patch"}

GROUPS: Mapping[str, tuple[str, ...]] = {
    "group:fs": ("ls", "read", "write", "edit", "apply_patch", "find"),
    "group:runtime": ("exec", "process"),
    "group:web": ("web_search", "web_fetch"),
    "group:memory": ("memory_search", "memory_get"),
    "group:sessions": (
        "sessions",
        "sessions_list",
        "sessions_history",
        "sessions_search",
        "sessions_send",
        "sessions_spawn",
        "sessions_yield",
        "subagents",
        "agents_wait",
        "session_status",
    ),
    "group:messaging": ("message",),
    "group:automation": ("heartbeat_respond", "automations", "gateway"),
    "group:nodes": ("nodes",),
    "group:agents": ("agents_list", "progress_card", "ask_user"),
    "group:media": ("view_image", "image_generate", "tts", "pdf"),
}

PROFILES: Mapping[str, tuple[str, ...]] = {
    "minimal": ("session_status",),
    "coding": ("group:fs", "group:runtime", "group:web", "group:memory", "group:sessions", "group:media"),
    "messaging": ("group:messaging", "group:sessions"),
    "full": ("*",),
}

OWNER_ONLY = frozenset({"gateway", "automations", "nodes"})
"""Tools that act on the gateway itself."""


@dataclass(frozen=True, slots=True)
class ToolRules:
    """One layer of rules.

    Attributes:
        profile: A name of `PROFILES`; empty means full.
        allow: When not empty, only these.
        also_allow: Added to the profile.
        deny: Never these.
    """

    profile: str = ""
    allow: tuple[str, ...] = ()
    also_allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.allow and self.also_allow:
            raise ValueError("allow and alsoAllow cannot stand in one place")
        if self.profile and self.profile not in PROFILES:
            raise ValueError(f"unknown tool profile {self.profile!r}; known: {', '.join(PROFILES)}")


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """All rules of one agent, widest first.

    Attributes:
        layers: The gateway's rules, the agent's, the chat's, ...; each only narrows.
        by_provider: Further layers for a `provider` or `provider/model`; the longer name wins.
    """

    layers: tuple[ToolRules, ...] = ()
    by_provider: Mapping[str, ToolRules] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subject:
    """Who makes the call, as far as policy cares.

    Attributes:
        model: `provider/model` in use.
    """

    is_owner: bool = False
    model: str = ""


@dataclass(frozen=True, slots=True)
class ToolDecision:
    """Whether a call may run and, if not, why: `denied`, `not_allowed` or `owner_only`."""

    allowed: bool
    reason: str = ""


def decide_tool(name: str, effect: Effect, subject: Subject, policy: ToolPolicy) -> ToolDecision:
    """Return whether `subject` may call the tool `name`.

    `effect` does not matter to these rules yet; asking before some effects is decided here as well.
    """
    layers = (*policy.layers, *_provider_layer(policy.by_provider, subject.model))
    if any(_matches(name, layer.deny, implied=False) for layer in layers):
        return ToolDecision(False, "denied")
    if name in OWNER_ONLY and not subject.is_owner:
        return ToolDecision(False, "owner_only")
    if not all(_allows(layer, name) for layer in layers):
        return ToolDecision(False, "not_allowed")
    return ToolDecision(True)


def expand_groups(names: Iterable[str]) -> tuple[str, ...]:
    """Return `names` in their present spelling, groups replaced by their tools, each once."""
    expanded: dict[str, None] = {}
    for name in names:
        plain = normalize_name(name)
        expanded.update(dict.fromkeys(GROUPS.get(plain, (plain,))))
    return tuple(expanded)


def normalize_name(name: str) -> str:
    """Return a tool name as it is spelt today."""
    plain = name.strip().lower()
    return ALIASES.get(plain, plain)


def _provider_layer(by_provider: Mapping[str, ToolRules], model: str) -> tuple[ToolRules, ...]:
    for key in (model, model.split("/", 1)[0]):
        if key and key in by_provider:
            return (by_provider[key],)
    return ()


def _allows(layer: ToolRules, name: str) -> bool:
    if layer.profile or layer.also_allow:
        profile = PROFILES[layer.profile or "full"]
        if not _matches(name, (*profile, *layer.also_allow), implied=True):
            return False
    return not layer.allow or _matches(name, layer.allow, implied=True)


def _matches(name: str, patterns: tuple[str, ...], *, implied: bool) -> bool:
    """Tell whether a rule names the tool. Allowing `write` implies `apply_patch`; denying it does not."""
    return any(
        fnmatchcase(name, pattern) or (implied and name == "apply_patch" and pattern == "write")
        for pattern in expand_groups(patterns)
    )
