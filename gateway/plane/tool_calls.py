"""One call of a tool of an agent, without a model: the same rules for every door that offers it.

Only tools that read; policy decides first. Whatever changes something, runs something or goes out needs a turn, with
everything that watches over it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.agent_runtime.messages import Message, ToolCall
from tidegate.agent_runtime.policy import Subject, decide_tool, normalize_name
from tidegate.agent_runtime.tools.base import Effect, SessionFacts
from tidegate.agent_runtime.tools.invoke import Toolbox
from tidegate.errors import ModelError
from tidegate.gateway.agents import AgentFactory
from tidegate.gateway.ruleset import WEBCHAT
from tidegate.ids import new_id
from tidegate.routing.keys import delivery_route

MAX_NAME = 512


class CallRefused(Exception):
    """A call that is not made, or failed.

    Attributes:
        status: What it is over HTTP.
        kind: invalid_request, not_found or tool_error.
    """

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind

    @property
    def body(self) -> dict[str, Any]:
        """What clients are told."""
        return {"ok": False, "error": {"type": self.kind, "message": str(self)}}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call that somebody asks for.

    Attributes:
        session: Key of the session in whose room the tool works.
        dry_run: Only say whether it would be made.
    """

    name: str
    arguments: Mapping[str, Any]
    session: str
    agent: str
    dry_run: bool = field(default=False)


async def call_tool(agents: AgentFactory, wanted: Wanted) -> tuple[str, dict[str, Any]]:
    """Return the tool's own name, and what came of the call as `{content, details}`. Raises CallRefused."""
    try:
        agent = await agents.get(wanted.agent)
    except ModelError as error:
        raise CallRefused(500, "tool_error", str(error)) from error
    room = agent.room(wanted.session, is_private=delivery_route(wanted.session) is None)
    name = normalize_name(wanted.name)
    tool = room.registry.get(name)
    is_safe = tool is not None and tool.effect is Effect.READ
    subject = Subject(is_owner=True, model=agent.model_ref)
    if tool is None or not is_safe or not decide_tool(name, tool.effect, subject, agent.policy).allowed:
        raise CallRefused(404, "not_found", f"Tool not available: {wanted.name.strip()[:MAX_NAME]}")
    facts = SessionFacts(wanted.session, wanted.agent, WEBCHAT, agent.timezone, agent.model_ref, is_owner=True)
    ready = await Toolbox(room.registry, facts, agent.policy).prepare(
        ToolCall(new_id(), name, json.dumps(dict(wanted.arguments)))
    )
    if isinstance(ready, Message):
        raise CallRefused(400, "invalid_request", ready.text)
    if wanted.dry_run:
        return name, {"content": [], "details": {"dryRun": True, "tool": name}}
    result = await ready.run(None)
    if result.is_error:
        raise CallRefused(400, "tool_error", result.text)
    return name, {"content": [{"type": "text", "text": result.text}], "details": {}}
