"""`agents`: who answers, and with what."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, PrivateAttr

from tidegate.config.sections.base import (
    Count,
    Flag,
    Lazy,
    ModelChoice,
    ModelOrName,
    Names,
    Positive,
    Section,
    Thinking,
    absent,
)
from tidegate.config.sections.messages import GroupChat
from tidegate.config.sections.tools import AgentTools

MAIN_AGENT = "main"
AGENT_ID = re.compile(r"[a-z0-9_][a-z0-9_-]{0,63}")

ContextInjection = Literal["always", "continuation-skip", "never"]
TypingMode = Literal["never", "instant", "thinking", "message"]


def _time_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (OSError, ValueError, ZoneInfoNotFoundError) as error:
        raise ValueError(f"{value!r} is not a time zone; write it like Europe/Lisbon") from error
    return value


TimeZone = Annotated[str, AfterValidator(_time_zone)]


class Identity(Section):
    """How an agent appears."""

    name: str | None = None
    """Name people call it by."""
    theme: str | None = None
    """Character in a few words."""
    emoji: str | None = None
    """Used as acknowledgement reaction."""
    avatar: str | None = None
    """File or address of a picture."""


class Owner(Section):
    """The agent that owns what belongs to no conversation."""

    agent_id: str | None = Field(default=None, min_length=1)
    """An agent's id; for `systemAgent` also the one that answers when no binding matches."""


class SilentReply(Section):
    """Where an agent may choose to say nothing."""

    group: Literal["allow", "disallow"] = "allow"
    """In groups."""
    internal: Literal["allow", "disallow"] = "allow"
    """In turns no person started."""


class AgentEntry(Section):
    """One agent; what is unset comes from `agents.defaults`."""

    default: Flag = False
    """This agent answers when no binding matches; at most one agent may say so."""
    name: str | None = None
    """Name in lists."""
    description: str | None = None
    """For people and for other agents."""
    workspace: str | None = None
    """Folder with the agent's files; unset: `workspace-<id>` in the state directory, `workspace` for the
    default agent."""
    model: ModelOrName | None = None
    """Model, or `{primary, fallbacks}`."""
    thinking_default: Thinking | None = None
    """How long it thinks before it answers."""
    skills: Names | None = None
    """Skills it may use; empty: none; unset: all."""
    identity: Lazy[Identity] = absent(Identity)
    """How it appears."""
    group_chat: Lazy[GroupChat] = absent(GroupChat)
    """How it reads groups."""
    tools: Lazy[AgentTools] = absent(AgentTools)
    """What it may do."""
    typing_mode: TypingMode | None = None
    """When the typing sign appears."""
    context_injection: ContextInjection | None = None
    """When workspace files are put before the conversation."""
    bootstrap_max_chars: Positive | None = None
    """Characters of one workspace file that are injected."""
    bootstrap_total_max_chars: Positive | None = None
    """Characters of all workspace files together."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Extra fields of model requests."""


class ListedAgent(AgentEntry):
    """An agent in the list form."""

    id: str
    """The agent's id."""


class AgentDefaults(Section):
    """Settings for all agents that do not say otherwise."""

    model: ModelOrName = absent(ModelChoice)
    """Model, or `{primary, fallbacks}`; unset: the offline demo model."""
    workspace: str | None = None
    """Folder of the default agent's files; other agents get a folder of their own beside it."""
    user_timezone: TimeZone | None = None
    """IANA name, used for resets, schedules and times shown to the agent; unset: this machine's zone."""
    timeout_seconds: Count = 172_800
    """Seconds a turn may take; 0: no limit."""
    max_concurrent: Positive = 64
    """Model runs at a time, for all agents together."""
    thinking_default: Thinking | None = None
    """How long the model thinks; unset: the model's own default."""
    typing_mode: TypingMode | None = None
    """When the typing sign appears; unset: at once in direct chats and on mention, else with the first words."""
    typing_interval_seconds: Positive = 6
    """Seconds between renewals of the typing sign."""
    bootstrap_max_chars: Positive = 20_000
    """Characters of one workspace file that are injected."""
    bootstrap_total_max_chars: Positive = 60_000
    """Characters of all workspace files together."""
    skip_bootstrap: Flag = False
    """Do not create the workspace's first files."""
    context_injection: ContextInjection = "always"
    """When workspace files are put before the conversation."""
    silent_reply: Lazy[SilentReply] = absent(SilentReply)
    """Where an agent may say nothing."""
    skills: Names | None = None
    """Skills agents may use; empty: none; unset: all."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Extra fields of model requests."""
    system_agent: Lazy[Owner] = absent(Owner)
    """The agent that owns what belongs to no conversation."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """One agent with the defaults filled in. `timeout_seconds` 0 means no limit."""

    id: str
    is_default: bool
    name: str
    workspace: Path
    model: ModelChoice
    identity: Identity
    group_chat: GroupChat
    tools: AgentTools
    thinking_default: Thinking | None
    typing_mode: TypingMode | None
    typing_interval_seconds: int
    timeout_seconds: int
    user_timezone: str | None
    bootstrap_max_chars: int
    bootstrap_total_max_chars: int
    skip_bootstrap: bool
    context_injection: ContextInjection
    silent_reply: SilentReply
    skills: tuple[str, ...] | None
    description: str
    params: dict[str, Any]


class AgentsSection(Section):
    """Who answers."""

    ownership: Literal["explicit"] | None = None
    """`explicit`: no agent is the default because of its place; bindings or `defaults.systemAgent` say who answers."""
    defaults: Lazy[AgentDefaults] = absent(AgentDefaults)
    """Settings for all agents."""
    entries: dict[str, Lazy[AgentEntry]] = Field(default_factory=dict)
    """Agents by id."""
    list: tuple[Lazy[ListedAgent], ...] = ()
    """The older form of `entries`; not both."""

    _state_dir: Path = PrivateAttr(default=Path("."))
    _home: Path = PrivateAttr(default=Path("."))

    def placed(self, state_dir: Path, home: Path) -> "AgentsSection":
        """The same section, knowing where workspaces belong."""
        section = self.model_copy()
        section._state_dir = state_dir
        section._home = home
        return section

    def members(self) -> dict[str, AgentEntry]:
        """Agents by normalised id, in file order; one called `main` when none is configured."""
        listed = {entry.id.strip().lower(): entry for entry in self.list}
        named = {name.strip().lower(): entry for name, entry in self.entries.items()}
        found: dict[str, AgentEntry] = {**listed, **named}
        return found or {MAIN_AGENT: AgentEntry.model_construct()}

    @property
    def default_agent_id(self) -> str | None:
        """The agent that answers when no binding matches; None when the file does not say."""
        members = self.members()
        if len(members) == 1:
            return next(iter(members))
        marked = [name for name, entry in members.items() if entry.default]
        if self.ownership is None and len(marked) == 1:
            return marked[0]
        named = (self.defaults.system_agent.agent_id or "").strip().lower()
        return named if named in members else None

    def roster(self) -> tuple[AgentOptions, ...]:
        """All agents with the defaults filled in."""
        default = self.default_agent_id
        return tuple(self._options(name, entry, default) for name, entry in self.members().items())

    def _options(self, name: str, entry: AgentEntry, default: str | None) -> AgentOptions:
        base = self.defaults
        model = entry.model or base.model
        if model.primary is None:
            model = model.model_copy(update={"primary": base.model.primary})
        skills = entry.skills if entry.skills is not None else base.skills
        return AgentOptions(
            id=name,
            is_default=name == default,
            name=entry.name or entry.identity.name or name,
            workspace=self._workspace(name, entry, default),
            model=model,
            identity=entry.identity,
            group_chat=entry.group_chat,
            tools=entry.tools,
            thinking_default=entry.thinking_default or base.thinking_default,
            typing_mode=entry.typing_mode or base.typing_mode,
            typing_interval_seconds=base.typing_interval_seconds,
            timeout_seconds=base.timeout_seconds,
            user_timezone=base.user_timezone,
            bootstrap_max_chars=entry.bootstrap_max_chars or base.bootstrap_max_chars,
            bootstrap_total_max_chars=entry.bootstrap_total_max_chars or base.bootstrap_total_max_chars,
            skip_bootstrap=base.skip_bootstrap,
            context_injection=entry.context_injection or base.context_injection,
            silent_reply=base.silent_reply,
            skills=skills,
            description=entry.description or "",
            params={**base.params, **entry.params},
        )

    def _workspace(self, name: str, entry: AgentEntry, default: str | None) -> Path:
        own = entry.workspace
        if own is None and name != default and self.defaults.workspace is not None:
            return self._expand(f"{self.defaults.workspace.rstrip('/')}-{name}")
        own = own if own is not None else self.defaults.workspace
        if own is not None:
            return self._expand(own)
        return self._state_dir / ("workspace" if name == default else f"workspace-{name}")

    def _expand(self, spelled: str) -> Path:
        if spelled == "~" or spelled.startswith("~/"):
            return self._home / spelled[2:]
        path = Path(spelled)
        return path if path.is_absolute() else self._state_dir / path
