"""Agents made, changed and removed, and the files in which they are told who they are.

All of it goes through the configuration's writer: checked as a whole, under the hash of what was read, all or nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import structlog
from pydantic import Field

from tidegate.agent_runtime.workspace import WorkspaceFiles
from tidegate.config.paths import KeyPath
from tidegate.config.sections.agents import MAIN_AGENT, AgentOptions
from tidegate.config.sections.base import normalize_id
from tidegate.config.store import REMOVED
from tidegate.errors import ToolFailure
from tidegate.gateway.plane.contract import Call, Code, Method, Params, RpcError, Said, Scope
from tidegate.gateway.plane.methods.catalog import BOOTSTRAP_FILES, MAX_FILE, FileGet, about_file
from tidegate.gateway.plane.methods.desk import Desk
from tidegate.gateway.plane.methods.settings import Settings

Text = Annotated[str, Field(min_length=1, max_length=1024)]
Change = tuple[KeyPath, object]

log = structlog.get_logger("plane")


class AgentCreate(Params):
    """`agents.create`."""

    name: Text
    workspace: Text | None = None
    model: Text | None = None
    emoji: Annotated[str, Field(max_length=64)] | None = None
    avatar: str | None = None


class AgentUpdate(Params):
    """`agents.update`. A model that is null is the default one again."""

    agentId: Text
    name: Text | None = None
    workspace: Text | None = None
    model: Text | None = None
    agentRuntime: Text | None = None
    emoji: Annotated[str, Field(max_length=64)] | None = None
    avatar: str | None = None


class AgentDelete(Params):
    """`agents.delete`."""

    agentId: Text
    deleteFiles: bool = False


class FileSet(FileGet):
    """`agents.files.set`."""

    content: Said
    expectedHash: Annotated[str, Field(min_length=1, max_length=64)] | None = None


class Agents:
    """The methods."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._settings = Settings(desk)
        self._writing = asyncio.Lock()

    def _options(self, agent: str) -> AgentOptions:
        return next(row for row in self._desk.gateway.loaded.config.agents.roster() if row.id == agent)

    async def create(self, call: Call) -> Any:
        """Make an agent; its id follows from its name."""
        params: AgentCreate = call.params
        agent = normalize_id(params.name, "")
        if not agent or agent == MAIN_AGENT:
            raise RpcError(Code.INVALID_REQUEST, f'"{params.name}" cannot be the name of a new agent')
        if agent in self._desk.agents():
            raise RpcError(Code.INVALID_REQUEST, f'agent "{agent}" already exists')
        plain, base_hash = await self._settings.read()
        entry: dict[str, object] = {"name": params.name.strip()}
        entry |= {key: value for key, value in (("workspace", params.workspace), ("model", params.model)) if value}
        identity = {key: value for key, value in (("emoji", params.emoji), ("avatar", params.avatar)) if value}
        if identity:
            entry["identity"] = identity
        changes = [*self._keep_default(plain), *_added(plain, agent, entry)]
        await self._settings.change(changes, base_hash, "agents-create", f"agent {agent} added")
        log.info("agent.created", agent=agent)
        return {"ok": True, "agentId": agent, "name": params.name.strip(), **self._placed(agent, params.workspace)}

    def _placed(self, agent: str, workspace: str | None) -> dict[str, Any]:
        if agent in self._desk.agents():
            return {"workspace": str(self._options(agent).workspace)}
        return {"workspace": workspace} if workspace else {}

    def _keep_default(self, plain: Mapping[str, Any]) -> list[Change]:
        """Return what lets the agent that answers now go on to answer when there is a second one."""
        section = self._desk.gateway.loaded.config.agents
        members = section.members()
        only = next(iter(members))
        if len(members) != 1 or members[only].default or section.ownership is not None:
            return []
        if section.defaults.system_agent.agent_id:
            return [] if _where(plain, only) else [(("agents", "entries", only), {})]
        return [((*(_where(plain, only) or ("agents", "entries", only)), "default"), True)]

    async def update(self, call: Call) -> Any:
        """Change an agent."""
        params: AgentUpdate = call.params
        agent = self._desk.agent(params.agentId, call.method)
        plain, base_hash = await self._settings.read()
        place = _where(plain, agent) or ("agents", "entries", agent)
        given = params.model_fields_set
        changes: list[Change] = []
        for name in ("name", "workspace", "model"):
            if name in given:
                value = getattr(params, name)
                changes.append(((*place, name), REMOVED if value is None else value))
        for name in ("emoji", "avatar"):
            if name in given:
                changes.append(((*place, "identity", name), getattr(params, name) or REMOVED))
        if not changes:
            raise RpcError(Code.INVALID_REQUEST, "agents.update: nothing to change")
        await self._settings.change(changes, base_hash, "agents-update", f"agent {agent} changed")
        return {"ok": True, "agentId": agent}

    async def delete(self, call: Call) -> Any:
        """Remove an agent with the bindings to it. What it said stays in the store, and its files on the disk."""
        params: AgentDelete = call.params
        agent = self._desk.agent(params.agentId, call.method)
        if agent in (MAIN_AGENT, self._desk.defaults()["defaultAgentId"]):
            raise RpcError(Code.INVALID_REQUEST, f'"{agent}" cannot be deleted')
        plain, base_hash = await self._settings.read()
        place = _where(plain, agent)
        if place is None:
            raise RpcError(Code.INVALID_REQUEST, f'agent "{agent}" does not stand in the main configuration file')
        workspace = self._options(agent).workspace
        bindings = _bindings(plain, agent)
        changes: list[Change] = [(path, REMOVED) for path in (*bindings, place)]
        await self._settings.change(changes, base_hash, "agents-delete", f"agent {agent} removed")
        gone = await asyncio.to_thread(self._remove_files, agent, workspace) if params.deleteFiles else False
        log.info("agent.deleted", agent=agent, bindings=len(bindings), files=gone)
        return {"ok": True, "agentId": agent, "removedBindings": len(bindings), "filesDeleted": gone}

    def _remove_files(self, agent: str, workspace: Path) -> bool:
        """Remove the workspace that the gateway made for an agent; a folder that a person chose is left alone."""
        own = self._desk.gateway.site.state_dir / f"workspace-{agent}"
        if workspace != own or own.is_symlink() or not own.is_dir():
            return False
        # Links in it are removed, not followed.
        shutil.rmtree(own, ignore_errors=True)
        return not own.exists()

    async def set_file(self, call: Call) -> Any:
        """Write one of the files that stand in prompts, if it is still what the client read."""
        params: FileSet = call.params
        options = self._options(self._desk.agent(params.agentId, call.method))
        if params.name not in BOOTSTRAP_FILES:
            raise RpcError(Code.INVALID_REQUEST, f'unsupported file "{params.name}"')
        data = params.content.encode("utf-8", "replace")
        if len(data) > MAX_FILE:
            raise RpcError(Code.INVALID_REQUEST, f"{params.name}: larger than {MAX_FILE} bytes")
        async with self._writing:
            if params.expectedHash is not None:
                await self._check_unchanged(options.workspace, params.name, params.expectedHash)
            try:
                await asyncio.to_thread(options.workspace.mkdir, parents=True, exist_ok=True)
                await WorkspaceFiles(options.workspace).write(params.name, data)
            except (ToolFailure, OSError) as error:
                raise RpcError(Code.UNAVAILABLE, f"{params.name}: {error}") from error
        found = await asyncio.to_thread(about_file, options.workspace, params.name, True)
        return {"ok": True, "agentId": options.id, "workspace": str(options.workspace), "file": found}

    async def _check_unchanged(self, workspace: Path, name: str, expected: str) -> None:
        try:
            content = await WorkspaceFiles(workspace).read(name, MAX_FILE)
        except ToolFailure:
            content = None
        if content is None or hashlib.sha256(content.decode("utf-8", "replace").encode()).hexdigest() != expected:
            raise RpcError(Code.INVALID_REQUEST, f"{name} changed since last load; read it again and retry")


def _where(plain: Mapping[str, Any], agent: str) -> KeyPath | None:
    """Return where an agent stands in the file."""
    section = plain.get("agents")
    if not isinstance(section, Mapping):
        return None
    entries, listed = section.get("entries"), section.get("list")
    for name in entries if isinstance(entries, Mapping) else ():
        if str(name).strip().lower() == agent:
            return ("agents", "entries", name)
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(item, Mapping) and str(item.get("id", "")).strip().lower() == agent:
            return ("agents", "list", index)
    return None


def _added(plain: Mapping[str, Any], agent: str, entry: dict[str, object]) -> list[Change]:
    listed = (plain.get("agents") or {}).get("list")
    if isinstance(listed, list) and listed:
        return [(("agents", "list", len(listed)), {"id": agent, **entry})]
    return [(("agents", "entries", agent), entry)]


def _bindings(plain: Mapping[str, Any], agent: str) -> list[KeyPath]:
    """Return where bindings to an agent stand, the last ones first, so that removing one moves no other."""
    rows = plain.get("bindings")
    found: list[KeyPath] = [
        ("bindings", index)
        for index, row in enumerate(rows if isinstance(rows, list) else ())
        if isinstance(row, Mapping) and str(row.get("agentId", "")).strip().lower() == agent
    ]
    return found[::-1]


def agent_methods(desk: Desk) -> list[Method]:
    """Return the methods."""
    a = Agents(desk)
    return [
        Method("agents.create", AgentCreate, a.create, Scope.ADMIN, write_budget=True),
        Method("agents.update", AgentUpdate, a.update, Scope.ADMIN, write_budget=True),
        Method("agents.delete", AgentDelete, a.delete, Scope.ADMIN, write_budget=True),
        Method("agents.files.set", FileSet, a.set_file, Scope.ADMIN),
    ]
