"""What there is to choose from: models, agents, commands, tools, skills."""

from __future__ import annotations

import asyncio
import hashlib
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from tidegate.agent_runtime.context import ALWAYS, PRIVATE
from tidegate.agent_runtime.models.catalog import PROVIDERS
from tidegate.agent_runtime.models.demo import DEMO_MODEL
from tidegate.agent_runtime.tools.base import Effect
from tidegate.agent_runtime.tools.builtin import builtin_tools
from tidegate.agent_runtime.workspace import WorkspaceFiles
from tidegate.config.sections.agents import AgentOptions
from tidegate.gateway.chat_commands import COMMAND_MENU
from tidegate.gateway.plane.contract import Call, Code, Method, NoParams, Params, RpcError, Scope, Text
from tidegate.gateway.plane.methods import rows
from tidegate.gateway.plane.methods.desk import Desk
from tidegate.gateway.plane.methods.history import ChatHistory, History
from tidegate.routing.command_table import BY_SPELLING

BOOTSTRAP_FILES = (*ALWAYS, *PRIVATE)
"""Files of a workspace that stand in prompts."""
MAX_FILE = 1 << 20


class ModelsList(Params):
    """`models.list`."""

    view: Literal["default", "configured", "provider-config", "all"] | None = None
    provider: str | None = None
    includeDetails: bool | None = None
    refresh: bool | None = None
    preparedOnly: bool | None = None
    sessionKey: Text | None = None
    agentId: Text | None = None
    authProfileId: Text | None = None


class Identity(Params):
    """`agent.identity.get`."""

    agentId: Text | None = None
    sessionKey: str | None = None


class CommandsList(Params):
    """`commands.list`."""

    sessionKey: Text | None = None
    agentId: Text | None = None
    provider: Text | None = None
    scope: Literal["text", "native", "both"] | None = None
    includeArgs: bool | None = None


class ToolsCatalog(Params):
    """`tools.catalog`, `tools.effective`."""

    agentId: Text | None = None
    sessionKey: Text | None = None
    includePlugins: bool | None = None


class Metadata(Params):
    """`chat.metadata`."""

    agentId: Text | None = None
    authProfileId: Text | None = None
    sessionKey: Text | None = None


class FilesList(Params):
    """`agents.files.list`."""

    agentId: Text


class FileGet(FilesList):
    """`agents.files.get`."""

    name: Text


class SkillsStatus(Params):
    """`skills.status`."""

    agentId: Text | None = None
    sessionKey: Text | None = None


class Catalog:
    """The methods."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._history = History(desk)

    def _options(self, agent: str) -> AgentOptions:
        return next(row for row in self._desk.gateway.loaded.config.agents.roster() if row.id == agent)

    async def models(self, call: Call) -> Any:
        """Return the models that are configured, those that agents use first."""
        params: ModelsList = call.params
        config = self._desk.gateway.loaded.config
        refs: dict[str, list[str]] = {}
        for agent in config.agents.roster():
            refs.setdefault(agent.model.primary or DEMO_MODEL, []).append("default")
            for ref in agent.model.fallbacks or ():
                refs.setdefault(ref, []).append("fallback")
        for name, provider in config.models.providers.items():
            for entry in provider.models:
                refs.setdefault(f"{name}/{entry.id}", [])
        wanted = params.provider
        models = [self._model(ref, tags) for ref, tags in refs.items() if wanted in (None, ref.partition("/")[0])]
        return {"models": models}

    def _model(self, ref: str, tags: list[str]) -> dict[str, Any]:
        provider, _, model = ref.partition("/")
        configured = self._desk.gateway.loaded.config.models.providers.get(provider)
        known = PROVIDERS.get(provider)
        env = self._desk.gateway.loaded.environment
        needs_key = configured is None and known is not None and bool(known.key_env)
        available = not needs_key or any(env.get(name) for name in (known.key_env if known is not None else ()))
        found: dict[str, Any] = {
            "id": model,
            "name": model,
            "provider": provider,
            "contextWindow": rows.window(self._desk, provider, model),
            "input": ["text"],
            "tags": sorted(set(tags)),
            "thinkingLevels": [{"id": level, "label": level} for level in rows.LEVELS],
            "thinkingDefault": "off",
            "available": available,
        }
        return found if available else {**found, "unavailableReason": "missing-auth"}

    async def agents(self, _: Call) -> Any:
        """Return the agents."""
        desk = self._desk
        defaults = desk.defaults()
        found = []
        for options in desk.gateway.loaded.config.agents.roster():
            provider, model = rows.model_of(desk, options.id)
            identity = {"name": options.identity.name or options.name, "emoji": options.identity.emoji}
            found.append(
                {
                    "id": options.id,
                    "kind": "agent",
                    "name": options.name or options.id,
                    "identity": {name: value for name, value in identity.items() if value},
                    "workspace": str(options.workspace),
                    "workspaceGit": (options.workspace / ".git").exists(),
                    "model": {"primary": f"{provider}/{model}"},
                    "thinkingLevels": [{"id": level, "label": level} for level in rows.LEVELS],
                    "thinkingOptions": list(rows.LEVELS),
                    "thinkingDefault": options.thinking_default or "off",
                }
            )
        return {
            "defaultId": defaults["defaultAgentId"],
            "ownership": defaults["ownership"],
            "selectionRequired": defaults["selectionRequired"],
            "mainKey": defaults["mainKey"],
            "scope": defaults["scope"],
            "agents": found,
        }

    async def identity(self, call: Call) -> Any:
        """Return how an agent appears."""
        params: Identity = call.params
        if params.sessionKey:
            agent = self._desk.key(params.sessionKey, params.agentId)[1]
        else:
            agent = self._desk.agent(params.agentId, call.method)
        options = self._options(agent)
        # An agent without a name of its own is called by its id; that is no name for people.
        name = options.identity.name or (options.name if options.name != agent else "")
        shown = name or "Assistant"
        found = {"agentId": agent, "name": shown, "nameSource": "config" if name else "default"}
        if options.identity.emoji:
            found["emoji"] = options.identity.emoji
        return {**found, "avatar": options.identity.emoji or shown[:1].upper()}

    async def commands(self, _: Call) -> Any:
        """Return the chat commands that are carried out."""
        return {"commands": [_command(name, text) for name, text in COMMAND_MENU]}

    async def metadata(self, call: Call) -> Any:
        """Return models and commands for a chat."""
        models = await self.models(replace(call, params=ModelsList()))
        commands = await self.commands(call)
        return {**models, **commands, "swarmEnabled": False, "runtimeSelectionLocked": False}

    async def startup(self, call: Call) -> Any:
        """Return what a client shows first: a page of the transcript with models and commands."""
        shown = await self._history.chat_history(call)
        return {**shown, "metadata": await self.metadata(call)}

    async def files(self, call: Call) -> Any:
        """Return the files in which an agent is told who it is."""
        options = self._options(self._desk.agent(call.params.agentId, call.method))
        found = await asyncio.to_thread(lambda: [about_file(options.workspace, name) for name in BOOTSTRAP_FILES])
        return {"agentId": options.id, "workspace": str(options.workspace), "files": found}

    async def file(self, call: Call) -> Any:
        """Return one of these files."""
        params: FileGet = call.params
        options = self._options(self._desk.agent(params.agentId, call.method))
        if params.name not in BOOTSTRAP_FILES:
            raise RpcError(Code.INVALID_REQUEST, f'unsupported file "{params.name}"')
        found = await asyncio.to_thread(about_file, options.workspace, params.name, True)
        return {"agentId": options.id, "workspace": str(options.workspace), "file": found}

    async def tools(self, call: Call) -> Any:
        """Return the tools of an agent."""
        params: ToolsCatalog = call.params
        if params.sessionKey:
            agent = self._desk.key(params.sessionKey, params.agentId)[1]
        else:
            agent = self._desk.agent(params.agentId, call.method)
        tools = [
            {
                "id": tool.name,
                "label": tool.name,
                "description": tool.description,
                "source": "core",
                "readOnly": tool.effect is Effect.READ,
                "defaultProfiles": [],
            }
            for tool in builtin_tools(WorkspaceFiles(self._options(agent).workspace), self._desk.gateway.clock)
        ]
        groups = [{"id": "builtin", "label": "Built-in", "source": "core", "tools": tools}]
        return {"agentId": agent, "profiles": [], "profile": "full", "groups": groups}

    async def skills(self, call: Call) -> Any:
        """Return the skills: there are none yet."""
        params: SkillsStatus = call.params
        agent = self._desk.agent(params.agentId, call.method)
        places = {"managedSkillsDir": str(self._desk.gateway.site.state_dir / "skills")}
        return {"workspaceDir": str(self._options(agent).workspace), **places, "agentId": agent, "skills": []}


def about_file(workspace: Path, name: str, content: bool = False) -> dict[str, Any]:
    """Return what is known about a file of a workspace; a link that leads out of it counts as missing."""
    path = workspace / name
    found: dict[str, Any] = {"name": name, "path": str(path), "missing": True}
    try:
        if not path.resolve().is_relative_to(workspace.resolve()):
            return found
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            # Reading a pipe would wait for whoever writes into it.
            return found
        found |= {"missing": False, "size": facts.st_size, "updatedAtMs": facts.st_mtime_ns // 1_000_000}
        if content:
            text = path.read_bytes()[:MAX_FILE].decode("utf-8", "replace")
            found |= {"content": text, "hash": hashlib.sha256(text.encode()).hexdigest()}
    except OSError:
        found["missing"] = True
    return found


def _command(name: str, description: str) -> dict[str, Any]:
    spec = BY_SPELLING.get(name)
    aliases = [f"/{name}", *(f"/{alias}" for alias in (spec.aliases if spec is not None else ()))]
    return {
        "name": name,
        "nativeName": name,
        "textAliases": aliases,
        "description": description,
        "category": "session",
        "source": "native",
        "scope": "both",
        "acceptsArgs": spec is None or spec.takes_arguments,
    }


def catalog_methods(desk: Desk) -> list[Method]:
    """Return the methods."""
    c = Catalog(desk)
    return [
        Method("models.list", ModelsList, c.models, Scope.READ),
        Method("agents.list", NoParams, c.agents, Scope.READ),
        Method("agent.identity.get", Identity, c.identity, Scope.READ),
        Method("commands.list", CommandsList, c.commands, Scope.READ),
        Method("chat.metadata", Metadata, c.metadata, Scope.READ),
        Method("chat.startup", ChatHistory, c.startup, Scope.READ),
        Method("agents.files.list", FilesList, c.files, Scope.READ),
        Method("agents.files.get", FileGet, c.file, Scope.READ),
        Method("tools.catalog", ToolsCatalog, c.tools, Scope.READ),
        Method("tools.effective", ToolsCatalog, c.tools, Scope.READ),
        Method("skills.status", SkillsStatus, c.skills, Scope.READ),
    ]
