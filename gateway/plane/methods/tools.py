"""`tools.invoke`: one call of a tool that reads, under the rules of `plane/tool_calls.py`."""

from __future__ import annotations

from typing import Any

from tidegate.gateway.plane.contract import Call, Method, Params, Scope, Text
from tidegate.gateway.plane.methods.desk import Desk
from tidegate.gateway.plane.tool_calls import CallRefused, Wanted, call_tool


class ToolsInvoke(Params):
    """`tools.invoke`. What reads may be repeated, so the idempotency key changes nothing."""

    name: Text
    args: dict[str, Any] | None = None
    sessionKey: Text | None = None
    agentId: Text | None = None
    confirm: bool | None = None
    idempotencyKey: Text | None = None
    conversationReadOrigin: str | None = None


def tool_methods(desk: Desk) -> list[Method]:
    """Return the method."""

    async def invoke(call: Call) -> Any:
        params: ToolsInvoke = call.params
        if params.sessionKey:
            key, agent = desk.key(params.sessionKey, params.agentId)
        else:
            agent = desk.agent(params.agentId, call.method)
            key = desk.main_key(agent)
        try:
            name, output = await call_tool(desk.gateway.agents, Wanted(params.name, params.args or {}, key, agent))
        except CallRefused as refusal:
            return {"toolName": params.name, **refusal.body}
        return {"ok": True, "toolName": name, "output": output, "source": "core"}

    return [Method("tools.invoke", ToolsInvoke, invoke, Scope.WRITE, lasting=False)]
