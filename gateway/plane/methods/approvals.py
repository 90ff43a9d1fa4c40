"""The policy file about commands that agents may run: kept for clients that edit it, in the state directory.

No tool of ours runs commands yet, so nothing reads the policy.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from tidegate.config.store import write_atomically
from tidegate.gateway.plane.contract import Call, Code, Method, NoParams, Params, RpcError, Scope
from tidegate.gateway.plane.methods.desk import Desk
from tidegate.ids import new_id

FILE = "exec-approvals.json"
MAX_BYTES = 1 << 20
_EMPTY: dict[str, Any] = {"version": 1, "defaults": {}, "agents": {}}
_DEFAULTS = {"security": "deny", "ask": "off", "askFallback": "deny", "autoAllowSkills": False}


class PolicySocket(Params):
    """Where another program may ask; kept, not used."""

    path: str | None = None
    token: str | None = None


class PolicyDefaults(Params):
    """What holds for agents that say nothing else."""

    security: str | None = None
    ask: str | None = None
    askFallback: str | None = None
    autoAllowSkills: bool | None = None


class Allowed(Params):
    """One pattern of commands."""

    pattern: Annotated[str, Field(min_length=1, max_length=4096)]
    id: str | None = None
    source: str | None = None
    commandText: str | None = None
    argPattern: str | None = None
    lastUsedAt: float | None = None
    lastUsedCommand: str | None = None
    lastResolvedPath: str | None = None


class AgentPolicy(PolicyDefaults):
    """What holds for one agent, or for all under `*`."""

    allowlist: Annotated[list[Allowed], Field(max_length=5_000)] | None = None


class PolicyFile(Params):
    """The file."""

    version: Literal[1]
    socket: PolicySocket | None = None
    defaults: PolicyDefaults | None = None
    agents: dict[str, AgentPolicy] | None = None


class SetPolicy(Params):
    """`exec.approvals.set`."""

    file: PolicyFile
    baseHash: Annotated[str, Field(min_length=1)] | None = None


class Approvals:
    """The methods."""

    def __init__(self, desk: Desk) -> None:
        self._path = desk.gateway.site.state_dir / FILE
        self._lock = asyncio.Lock()

    async def get(self, _: Call) -> Any:
        """Return the policy and its hash."""
        async with self._lock:
            return await asyncio.to_thread(_snapshot, self._path)

    async def set(self, call: Call) -> Any:
        """Replace the policy that the caller has seen."""
        params: SetPolicy = call.params
        async with self._lock:
            before = await asyncio.to_thread(_snapshot, self._path)
            if before["exists"] and params.baseHash is None:
                text = "exec approvals base hash required; re-run exec.approvals.get and retry"
                raise RpcError(Code.INVALID_REQUEST, text)
            if params.baseHash is not None and params.baseHash != before["hash"]:
                text = "exec approvals changed since last load; re-run exec.approvals.get and retry"
                raise RpcError(Code.INVALID_REQUEST, text)
            file = params.file.model_dump(mode="json", exclude_none=True)
            for policy in file.get("agents", {}).values():
                for row in policy.get("allowlist", ()):
                    row.setdefault("id", new_id())
            text = json.dumps(file, indent=2, ensure_ascii=False)
            if len(text) > MAX_BYTES:
                raise RpcError(Code.INVALID_REQUEST, "the policy is larger than 1 MiB")
            await asyncio.to_thread(write_atomically, self._path, text + "\n")
            return await asyncio.to_thread(_snapshot, self._path)


def _snapshot(path: Path) -> dict[str, Any]:
    try:
        text, exists = path.read_text(encoding="utf-8"), True
        file = json.loads(text)
    except FileNotFoundError:
        text, exists, file = "", False, _EMPTY
    except ValueError as error:
        raise RpcError(Code.UNAVAILABLE, f"{path} cannot be read: {error}; repair or remove it") from error
    digest = hashlib.sha256(text.encode()).hexdigest()
    defaults = {**_DEFAULTS, **file.get("defaults", {})}
    return {"path": str(path), "exists": exists, "file": file, "hash": digest, "resolvedDefaults": defaults}


def approval_methods(desk: Desk) -> list[Method]:
    """Return the methods."""
    a = Approvals(desk)
    return [
        Method("exec.approvals.get", NoParams, a.get, Scope.ADMIN),
        Method("exec.approvals.set", SetPolicy, a.set, Scope.ADMIN),
    ]
