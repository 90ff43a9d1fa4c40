"""Methods about nodes, and those that nodes themselves call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from pydantic import Field

from tidegate.gateway.plane.connection import missing_scope
from tidegate.gateway.plane.contract import Call, Code, Method, NoParams, Params, Role, RpcError, Scope
from tidegate.gateway.plane.devices import MAX_LABEL
from tidegate.gateway.plane.frames import NonEmpty, encode, parse_json
from tidegate.gateway.plane.node_commands import scope_to_ask
from tidegate.gateway.plane.node_invokes import (
    DEFAULT_MS,
    MAX_MS,
    MAX_PARAMS,
    MAX_RESULT,
    Asked,
    Invokes,
    Outcome,
    node_said_no,
)
from tidegate.gateway.plane.nodes import NodeBook, paired_row, request_row, unknown_node

NODES = frozenset({Role.NODE})

HearNode = Callable[[Call, str, dict[str, Any]], Awaitable[str]]
"""Takes an event of a node: its name and payload; returns why it is not handled, empty when it is."""


MAX_FRAME = 1 << 26
"""Characters: more than a frame can hold. What is too long for us is answered as an error of the node."""


class RequestParams(Params):
    """A request by its id."""

    requestId: NonEmpty


class NodeParams(Params):
    """A node by its id."""

    nodeId: NonEmpty


class RenameParams(NodeParams):
    """`node.rename`."""

    displayName: Annotated[str, Field(min_length=1, max_length=MAX_LABEL)]


class InvokeParams(NodeParams):
    """`node.invoke`."""

    command: Annotated[str, Field(min_length=1, max_length=256)]
    idempotencyKey: Annotated[str, Field(min_length=1, max_length=512)]
    params: Any = None
    timeoutMs: Annotated[int, Field(ge=0)] | None = None
    sessionKey: NonEmpty | None = None
    turnSourceChannel: str | None = None
    turnSourceTo: str | None = None
    turnSourceAccountId: str | None = None
    turnSourceThreadId: str | int | None = None


class NodeError(Params):
    """What a node says went wrong."""

    code: Annotated[str, Field(min_length=1, max_length=MAX_FRAME)] | None = None
    message: Annotated[str, Field(min_length=1, max_length=MAX_FRAME)] | None = None


class ResultParams(Params):
    """`node.invoke.result`."""

    id: NonEmpty
    nodeId: NonEmpty
    ok: bool
    payload: Any = None
    payloadJSON: Annotated[str, Field(max_length=MAX_FRAME)] | None = None
    error: NodeError | None = None


class EventParams(Params):
    """`node.event`."""

    event: Annotated[str, Field(min_length=1, max_length=128)]
    payload: Any = None
    payloadJSON: Annotated[str, Field(max_length=MAX_FRAME)] | None = None


class _Nodes:
    """The handlers."""

    def __init__(self, book: NodeBook, invokes: Invokes, hear: HearNode | None) -> None:
        self._book = book
        self._invokes = invokes
        self._hear = hear

    async def pair_list(self, call: Call) -> Any:
        mine = [d for d in await self._book.nodes() if self._book.sees(call.caller, d.id)]
        waiting = [(device, device.node.asked) for device in mine if device.node is not None]
        pending = sorted(
            (request_row(device, asked) for device, asked in waiting if asked is not None), key=lambda row: row["ts"]
        )
        paired = [paired_row(device) for device in mine if device.node is not None and device.node.approved_at]
        return {"pending": pending, "paired": paired}

    async def approve(self, call: Call) -> Any:
        device = await self._book.decide(call.caller, call.params.requestId, approve=True)
        return {"requestId": call.params.requestId, "node": paired_row(device)}

    async def reject(self, call: Call) -> Any:
        device = await self._book.decide(call.caller, call.params.requestId, approve=False)
        return {"requestId": call.params.requestId, "nodeId": device.id}

    async def remove(self, call: Call) -> Any:
        await self._book.remove(call.caller, call.params.nodeId)
        return {"nodeId": call.params.nodeId}

    async def rename(self, call: Call) -> Any:
        name = " ".join(call.params.displayName.split())
        if not name:
            raise RpcError(Code.INVALID_REQUEST, "displayName required")
        await self._book.rename(call.caller, call.params.nodeId, name)
        return {"nodeId": call.params.nodeId, "displayName": name}

    async def list(self, _: Call) -> Any:
        rows = [self._book.row(device) for device in await self._book.nodes()]
        return {"ts": self._now(), "nodes": rows}

    def _now(self) -> int:
        return self._book.clock.now() // 1000

    async def describe(self, call: Call) -> Any:
        device = await self._book.find(call.params.nodeId)
        if device is None:
            raise unknown_node()
        return {"ts": self._now(), **self._book.row(device)}

    async def invoke(self, call: Call) -> Any:
        params: InvokeParams = call.params
        if len(encode(params.params)) > MAX_PARAMS:
            raise RpcError(Code.INVALID_REQUEST, f"params are larger than {MAX_PARAMS} characters")
        ms = min(params.timeoutMs or DEFAULT_MS, MAX_MS)
        asked = Asked(params.nodeId, params.command.strip(), params.params, ms, params.idempotencyKey)
        # The command as it is asked for decides, not as it was written.
        if not call.caller.may(scope := scope_to_ask(asked.command)):
            raise missing_scope(scope)
        return await self._invokes.ask(asked)

    async def result(self, call: Call) -> Any:
        params: ResultParams = call.params
        if params.nodeId != call.caller.device:
            raise RpcError(Code.INVALID_REQUEST, "nodeId mismatch")
        taken = await self._invokes.result(
            call.caller.connection, call.caller.device, params.id, lambda asked: _outcome(params, asked)
        )
        return {"ok": True} if taken else {"ok": True, "ignored": True}

    async def event(self, call: Call) -> Any:
        params: EventParams = call.params
        reason = "not supported"
        if self._hear is not None:
            reason = await self._hear(call, params.event, _payload(params))
        return {"ok": True, "event": params.event, "handled": False, "reason": reason} if reason else {"ok": True}

    async def pull(self, call: Call) -> Any:
        return {"nodeId": call.caller.device, "actions": []}

    async def bins(self, _: Call) -> Any:
        return {"bins": []}


def _payload(params: EventParams) -> dict[str, Any]:
    found = params.payload
    if found is None and params.payloadJSON is not None:
        try:
            found = parse_json(params.payloadJSON)
        except ValueError:
            return {}
    return found if isinstance(found, dict) else {}


def _outcome(params: ResultParams, asked: Asked) -> Outcome:
    """Return what a node's answer means. Raises ValueError when it says that it is JSON and is none."""
    if not params.ok:
        error = params.error or NodeError()
        return node_said_no(error.code or "", error.message or "")
    text = params.payloadJSON or ""
    too_large = node_said_no("RESULT_TOO_LARGE", f"the node's result is larger than {MAX_RESULT} characters")
    if len(text) > MAX_RESULT:
        return too_large
    # Also when the payload came beside it: operators read both.
    parsed = parse_json(text) if text.strip() else None
    payload = parsed if params.payload is None else params.payload
    if len(text) + len(encode(payload)) > 2 * MAX_RESULT:
        return too_large
    answer = {"ok": True, "nodeId": asked.node, "command": asked.command, "payload": payload}
    return answer | {"payloadJSON": params.payloadJSON}


def _invoke_scope(params: InvokeParams) -> Scope:
    return scope_to_ask(params.command.strip())


def node_methods(book: NodeBook, invokes: Invokes, hear: HearNode | None = None) -> list[Method]:
    """Return the methods.

    Args:
        hear: Takes what nodes tell; without it all is left alone.
    """
    n = _Nodes(book, invokes, hear)

    def of_nodes(name: str, params: type[Params], handler: Callable[[Call], Awaitable[Any]]) -> Method:
        return Method(name, params, handler, None, roles=NODES)

    return [
        Method("node.pair.list", NoParams, n.pair_list, Scope.PAIRING),
        Method("node.pair.approve", RequestParams, n.approve, Scope.PAIRING),
        Method("node.pair.reject", RequestParams, n.reject, Scope.PAIRING),
        Method("node.pair.remove", NodeParams, n.remove, Scope.PAIRING),
        Method("node.rename", RenameParams, n.rename, Scope.PAIRING),
        Method("node.list", NoParams, n.list, Scope.READ),
        Method("node.describe", NodeParams, n.describe, Scope.READ),
        Method("node.invoke", InvokeParams, n.invoke, _invoke_scope),
        of_nodes("node.invoke.result", ResultParams, n.result),
        of_nodes("node.event", EventParams, n.event),
        of_nodes("node.pending.pull", NoParams, n.pull),
        of_nodes("skills.bins", NoParams, n.bins),
    ]
