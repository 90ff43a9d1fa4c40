"""What nodes tell the gateway: words for an agent, and which chat they show.

A node is a machine, not the owner: its words carry no rights of the owner and are never commands. It speaks in the main
session or in its own one, `agent:<agent>:node:<id>`, and listens to its own one only.
"""

from __future__ import annotations

from typing import Any

import structlog

from tidegate.events import Sender
from tidegate.gateway.plane.contract import Call, RpcError
from tidegate.gateway.plane.limits import WriteBudget
from tidegate.gateway.plane.methods.desk import Desk
from tidegate.gateway.plane.methods.talk import Talk
from tidegate.gateway.plane.nodes import NodeBook
from tidegate.gateway.plane.runs import RunKind
from tidegate.ids import new_id

MAX_TEXT = 20_000
"""Characters that a node may say at a time."""
_WORDS = {"voice.transcript": "text", "agent.request": "message"}

log = structlog.get_logger("plane.nodes")


class NodeEvents:
    """Takes the events of nodes."""

    def __init__(self, desk: Desk, talk: Talk, book: NodeBook) -> None:
        self._desk = desk
        self._talk = talk
        self._book = book
        self._budget = WriteBudget(desk.gateway.clock)

    async def hear(self, call: Call, name: str, payload: dict[str, Any]) -> str:
        """Take an event; returns why it is not handled, empty when it is. Raises RpcError when there are too many."""
        if name in _WORDS:
            return await self._words(call, name, payload)
        if name in ("chat.subscribe", "chat.unsubscribe"):
            return await self._listen(call, payload, begin=name == "chat.subscribe")
        return "not supported"

    async def _words(self, call: Call, name: str, payload: dict[str, Any]) -> str:
        text = payload.get(_WORDS[name])
        if not isinstance(text, str) or not text.strip():
            return "nothing said"
        if len(text) > MAX_TEXT:
            return f"longer than {MAX_TEXT} characters"
        if not await self._is_approved(call.caller.device):
            return "the node is not approved"
        key, agent = self._session(call, payload.get("sessionKey"))
        if key not in (self._desk.main_key(agent), own_key(agent, call.caller.device)):
            return "not a session of this node"
        self._budget.spend(call.caller.device, name)
        sender = Sender(f"node:{call.caller.device[:16]}", call.caller.client.display_name[:64])
        await self._talk.say(
            call, key, agent, text.strip(), new_id(), RunKind.CHAT, commands=False, sender=sender, owner=False
        )
        log.info("node.said", node=call.caller.device[:12], kind=name, session=key)
        return ""

    async def _is_approved(self, node: str) -> bool:
        device = await self._book.find(node)
        return device is not None and device.node is not None and device.node.approved_at > 0

    def _session(self, call: Call, name: Any) -> tuple[str, str]:
        try:
            if isinstance(name, str) and name.strip():
                return self._desk.key(name)
        except RpcError:
            return "", self._desk.agent(None)
        agent = self._desk.agent(None)
        return self._desk.main_key(agent), agent

    async def _listen(self, call: Call, payload: dict[str, Any], *, begin: bool) -> str:
        key, agent = self._session(call, payload.get("sessionKey"))
        if key != own_key(agent, call.caller.device):
            return "not a session of this node"
        if not await self._is_approved(call.caller.device):
            return "the node is not approved"
        change = self._desk.hub.subscribe if begin else self._desk.hub.unsubscribe
        change(call.caller.connection, [key])
        return ""


def own_key(agent: str, node: str) -> str:
    """Return the key of a node's own session with an agent."""
    return f"agent:{agent}:node:{node}"
