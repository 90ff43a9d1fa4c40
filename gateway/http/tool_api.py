"""`/tools/invoke`: one call of a tool of an agent, without a model. Only tools that read; policy decides first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from aiohttp import web

from tidegate.config.load import Loaded
from tidegate.gateway.agents import AgentFactory
from tidegate.gateway.http.access import Access, read_limited
from tidegate.gateway.http.headers import add_route, json_answer
from tidegate.gateway.http.openai_api import default_agent, place_of_key
from tidegate.gateway.http.openai_wire import MAX_USER, ApiError, read_body
from tidegate.gateway.plane.tool_calls import CallRefused, Wanted, call_tool
from tidegate.routing.normalize import optional_agent_id

MAX_CALL = 2 << 20
"""Bytes of a request."""

log = structlog.get_logger("http")


class ToolApi:
    """The route."""

    def __init__(self, access: Access, loaded: Callable[[], Loaded], agents: Callable[[], AgentFactory]) -> None:
        self._access = access
        self._loaded = loaded
        self._agents = agents

    def attach(self, app: web.Application) -> None:
        """Add the route."""
        add_route(app, "/tools/invoke", self._serve, "POST")

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        """Answer a request. A named boundary: whatever goes wrong is an answer."""
        try:
            await self._access.check(request)
        except ApiError as error:
            return json_answer(error.body, status=error.status, headers=error.headers)
        try:
            return json_answer(await self._invoke(read_body(await read_limited(request, MAX_CALL))))
        except ApiError as error:
            return json_answer(_failure(error.status, "invalid_request", str(error)).body, status=error.status)
        except CallRefused as error:
            return json_answer(error.body, status=error.status)
        except Exception:
            log.exception("tool.not_invoked")
            return json_answer(_failure(500, "tool_error", "internal error").body, status=500)

    async def _invoke(self, data: dict[str, Any]) -> dict[str, Any]:
        given = data.get("tool") or data.get("name")
        if not isinstance(given, str) or not given.strip():
            raise _failure(400, "invalid_request", "tools.invoke requires name")
        arguments = data.get("args") or {}
        if not isinstance(arguments, dict):
            raise _failure(400, "invalid_request", "args must be an object")
        if isinstance(data.get("action"), str):
            arguments = {"action": data["action"], **arguments}
        key, agent_id = self._session(data)
        wanted = Wanted(given, arguments, key, agent_id, dry_run=data.get("dryRun") is True)
        _, result = await call_tool(self._agents(), wanted)
        return {"ok": True, "result": result}

    def _session(self, data: dict[str, Any]) -> tuple[str, str]:
        loaded = self._loaded()
        named = data.get("agentId")
        agent = optional_agent_id(named) if isinstance(named, str) and named else default_agent(loaded)
        if agent is None or agent not in loaded.config.agents.members():
            raise _failure(400, "invalid_request", f"Unknown agent '{str(named)[:MAX_USER]}'.")
        key = data.get("sessionKey")
        place = place_of_key(loaded, key if isinstance(key, str) and key.strip() else "main", agent)
        return place.key, place.agent


def _failure(status: int, kind: str, message: str) -> CallRefused:
    return CallRefused(status, kind, message)
