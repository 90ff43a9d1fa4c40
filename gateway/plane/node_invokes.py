"""Asking a node to do something: one answer, from the very connection that was asked, within a time.

The key of a request is a row in the store before the node hears of it, and the answer is one before the operator does:
a repeat, also after a restart, never asks the node twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from tidegate.errors import StoreError
from tidegate.gateway.plane.connection import Connection
from tidegate.gateway.plane.contract import Code, RpcError, Waiting
from tidegate.gateway.plane.frames import encode
from tidegate.gateway.plane.hub import Hub
from tidegate.gateway.plane.node_commands import NodeRules
from tidegate.gateway.plane.nodes import LiveNode, NodeBook
from tidegate.ids import new_id
from tidegate.sessions.devices import Device, IdempotencyStore

METHOD = "node.invoke"
CALLER = "operator"
DEFAULT_MS = 30_000
MAX_MS = 600_000
MAX_OF_NODE = 32
"""Requests that one node may work on at a time."""
MAX_OF_ALL = 256
MAX_PARAMS = 4 << 20
"""Characters of the parameters of a request."""
MAX_RESULT = 16 << 20
"""Characters of a result."""
MAX_KEPT = 256 << 10
"""Characters of a result that is kept for a repeat of its request."""
MAX_WORDS = 2_000
PAIRING_CHANGED = "node pairing changed while invocation was active"
BUSY = "the node works on too many requests; try again in a moment"

log = structlog.get_logger("plane.nodes")


@dataclass(frozen=True, slots=True)
class Asked:
    """What an operator asks a node for.

    Attributes:
        ms: Milliseconds within which the answer has to come.
    """

    node: str
    command: str
    params: Any
    ms: int
    key: str

    def print(self) -> str:
        """Return a short text that stands for what is asked, so that a key is not used for two things."""
        whole = f"{self.node}\n{self.command}\n{encode(self.params)}"
        return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


Outcome = dict[str, Any] | RpcError


@dataclass(slots=True)
class Invoke:
    """A request that a node works on; `outcome` is set once."""

    id: str
    asked: Asked
    connection: Connection
    timer: asyncio.TimerHandle | None = None
    outcome: Outcome | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Invokes:
    """All requests that are under way."""

    def __init__(self, store: IdempotencyStore, hub: Hub, book: NodeBook) -> None:
        self._store = store
        self._hub = hub
        self._book = book
        self._open: dict[str, Invoke] = {}
        self._by_key: dict[str, Invoke] = {}
        hub.leaving.append(self._left)

    async def ask(self, asked: Asked) -> Waiting:
        """Ask a node, or find out that it was asked before; what is returned waits for its answer.

        Raises:
            RpcError: It may not be asked, or is not here. Waiting raises it when the node says no, or does not
                answer in time.
        """
        until = asyncio.get_running_loop().time() + asked.ms / 1000
        before = await self._store.recall_key(CALLER, METHOD, asked.key)
        if before is None:
            device = await self._book.find(asked.node)
            live = self._may_ask(device, asked)
            stored = json.dumps({"print": asked.print()})
            before = await self._store.claim_key(CALLER, METHOD, asked.key, stored)
            if before is None:
                return await self._dispatch(asked, live, until)
        return self._again(asked, before)

    def _may_ask(self, device: Device | None, asked: Asked) -> LiveNode:
        live = self._book.live(asked.node)
        if device is None or live is None:
            raise not_connected()
        surface = device.node
        if surface is None or not surface.approved_at:
            raise RpcError(Code.UNAVAILABLE, PAIRING_CHANGED, {"code": "PAIRING_CHANGED"}, retryable=True)
        check_command(self._book.rules(), device.about.platform, asked.command)
        if asked.command not in self._book.commands(device):
            text = f'node command not allowed: the node does not offer "{asked.command}"'
            details = {"reason": "command not declared by node", "command": asked.command}
            raise RpcError(Code.INVALID_REQUEST, text, details)
        of_node = sum(1 for item in self._open.values() if item.connection is live.connection)
        if of_node >= MAX_OF_NODE or len(self._open) >= MAX_OF_ALL:
            raise RpcError(Code.UNAVAILABLE, BUSY, retryable=True)
        return live

    async def _dispatch(self, asked: Asked, live: LiveNode, until: float) -> Waiting:
        loop = asyncio.get_running_loop()
        if self._book.live(asked.node) is not live:
            # It went while the key was stored; it never heard of the request.
            gone = not_connected()
            await self._keep(asked, gone)
            raise gone
        invoke = Invoke(new_id(), asked, live.connection)
        self._open[invoke.id] = self._by_key[asked.key] = invoke
        invoke.timer = loop.call_at(until, self._too_late, invoke)
        text = encode({} if asked.params is None else asked.params)
        request = {
            "id": invoke.id,
            "nodeId": asked.node,
            "command": asked.command,
            "paramsJSON": text,
            "timeoutMs": max(1, int((until - loop.time()) * 1000)),
            "idempotencyKey": asked.key,
        }
        self._hub.push(live.connection.id, "node.invoke.request", request)
        return Waiting(lambda: self._told(invoke))

    async def _told(self, invoke: Invoke) -> dict[str, Any]:
        await invoke.done.wait()
        assert invoke.outcome is not None
        if isinstance(invoke.outcome, RpcError):
            await self._keep(invoke.asked, invoke.outcome)
            raise invoke.outcome
        return invoke.outcome

    def _again(self, asked: Asked, before: str) -> Waiting:
        """Answer a repeat: as the first request is answered, or was."""
        stored: dict[str, Any] = json.loads(before)
        if stored.get("print") != asked.print():
            raise RpcError(Code.INVALID_REQUEST, "idempotencyKey was used for another request")
        running = self._by_key.get(asked.key)
        if running is not None:
            return Waiting(lambda: self._told_in_time(running, asked.ms))
        if "error" in stored:
            error = stored["error"]
            raise RpcError(
                Code(error["code"]), error["message"], error.get("details"), retryable=error.get("retryable")
            )
        if "answer" in stored:
            return Waiting(lambda: _known(stored["answer"]))
        text = "the node was asked before, and what came of it is not known; use another idempotencyKey to ask again"
        raise RpcError(Code.UNAVAILABLE, text, {"code": "OUTCOME_UNKNOWN", "nodeCommandDispatched": True})

    async def _told_in_time(self, running: Invoke, ms: int) -> dict[str, Any]:
        try:
            async with asyncio.timeout(ms / 1000):
                await running.done.wait()
        except TimeoutError:
            raise timed_out() from None
        return await self._told(running)

    async def _keep(self, asked: Asked, outcome: Outcome) -> None:
        row: dict[str, Any] = {"print": asked.print()}
        row["error" if isinstance(outcome, RpcError) else "answer"] = (
            outcome.as_wire() if isinstance(outcome, RpcError) else outcome
        )
        text = encode(row)
        if len(text) > MAX_KEPT:
            return
        try:
            await self._store.settle_key(CALLER, METHOD, asked.key, text)
        except StoreError as error:
            # A repeat then hears that the outcome is not known, which is true.
            log.warning("node.outcome_not_kept", reason=str(error))

    async def result(self, connection: str, node: str, invoke_id: str, outcome: Callable[[Asked], Outcome]) -> bool:
        """Take the answer of a node; False when nobody waits for it from this very connection.

        Args:
            outcome: Returns what the answer means; a ValueError of it is the node's fault.
        """
        invoke = self._open.get(invoke_id)
        if invoke is None or invoke.connection.id != connection or invoke.asked.node != node:
            return False
        try:
            answer = outcome(invoke.asked)
        except (ValueError, RecursionError):
            answer = node_said_no("INVALID_RESULT", "the node's result is no JSON, or nested too deep")
        # Settled before it is stored: a second answer to the same request finds nobody.
        self._close(invoke)
        try:
            await self._keep(invoke.asked, answer)
        finally:
            self._finish(invoke, answer)
        return True

    def _too_late(self, invoke: Invoke) -> None:
        cancel = {"invokeId": invoke.id, "nodeId": invoke.asked.node}
        self._close(invoke)
        self._hub.push(invoke.connection.id, "node.invoke.cancel", cancel)
        self._finish(invoke, timed_out())

    def _left(self, connection: Connection) -> None:
        for invoke in [item for item in self._open.values() if item.connection is connection]:
            self._close(invoke)
            self._finish(invoke, _disconnected())

    def _close(self, invoke: Invoke) -> None:
        """Wait no more for an answer."""
        del self._open[invoke.id]
        if invoke.timer is not None:
            invoke.timer.cancel()

    def _finish(self, invoke: Invoke, outcome: Outcome) -> None:
        invoke.outcome = outcome
        self._by_key.pop(invoke.asked.key, None)
        invoke.done.set()


async def _known(answer: dict[str, Any]) -> dict[str, Any]:
    return answer


def check_command(rules: NodeRules, platform: str, command: str) -> None:
    """Raise RpcError when no node of a platform may be asked for a command."""
    if rules.may_ask(platform, command):
        return
    if command in rules.deny:
        text = f'node command not allowed: "{command}" is in gateway.nodes.commands.deny'
        raise RpcError(Code.INVALID_REQUEST, text, {"reason": "command denied", "command": command})
    text = f'node command not allowed: "{command}" requires explicit gateway.nodes.commands.allow opt-in'
    raise RpcError(Code.INVALID_REQUEST, text, {"reason": "command not allowlisted", "command": command})


def not_connected() -> RpcError:
    """Return the answer about a node that is not here."""
    text = "node not connected"
    details = {"code": "NOT_CONNECTED", "nodeError": {"code": "NOT_CONNECTED", "message": text}}
    return RpcError(Code.UNAVAILABLE, text, details | {"nodeCommandDispatched": False})


def _disconnected() -> RpcError:
    text = "node disconnected before it answered"
    details = {"code": "NOT_CONNECTED", "nodeError": {"code": "NOT_CONNECTED", "message": text}}
    return RpcError(Code.UNAVAILABLE, text, details | {"nodeCommandDispatched": True})


def timed_out() -> RpcError:
    """Return the answer about a node that kept silent."""
    error = {"code": "TIMEOUT", "message": "node invoke timed out"}
    details = {"nodeError": error, "nodeCommandDispatched": True}
    return RpcError(Code.UNAVAILABLE, "TIMEOUT: node invoke timed out", details)


def node_said_no(code: str, message: str) -> RpcError:
    """Return the answer of a node that refused, or failed."""
    code, message = code[:64] or "UNAVAILABLE", message[:MAX_WORDS] or "node command failed"
    details = {"nodeError": {"code": code, "message": message}, "nodeCommandDispatched": True, "code": code}
    return RpcError(Code.INVALID_REQUEST, message, details)
