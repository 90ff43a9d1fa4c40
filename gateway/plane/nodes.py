"""Nodes: machines that offer commands. Which of them are here, and what a person approved of what they offer.

A node is a paired device (see `devices.py`) whose commands are approved a second time. What it may be asked for is what
it declared when it connected, and was approved, and the configuration allows; all three are looked at for each request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import structlog

from tidegate.clock import Clock
from tidegate.gateway.plane.connection import Connection, missing_scope
from tidegate.gateway.plane.contract import Caller, Code, PlaneEvent, Role, RpcError, Scope
from tidegate.gateway.plane.hub import Hub
from tidegate.gateway.plane.node_commands import NodeRules, scopes_to_approve
from tidegate.ids import new_id
from tidegate.sessions.devices import Device, DeviceStore, NodeRequest, NodeSurface

MAX_CAPS = 64
MAX_COMMANDS = 256
SUPERSEDED = "client invalidated: the node connected again"
_NODE = Role.NODE.value

log = structlog.get_logger("plane.nodes")


@dataclass(frozen=True, slots=True)
class LiveNode:
    """A node that is connected.

    Attributes:
        since: When it connected; milliseconds UTC.
    """

    connection: Connection
    caps: tuple[str, ...]
    since: int

    @property
    def caller(self) -> Caller:
        """Who it is."""
        return self.connection.caller


class NodeBook:
    """Knows all nodes.

    Args:
        rules: Returns what the present configuration allows.
    """

    def __init__(
        self, store: DeviceStore, hub: Hub, clock: Clock, rules: Callable[[], NodeRules] = lambda: NodeRules()
    ) -> None:
        self.store = store
        self.hub = hub
        self.clock = clock
        self.rules = rules
        self._live: dict[str, LiveNode] = {}
        hub.leaving.append(self._left)

    def live(self, node: str) -> LiveNode | None:
        """Return a node that is connected."""
        return self._live.get(node)

    async def joined(self, connection: Connection) -> None:
        """Take a connected node in; approvers hear of what it offers beyond what they approved. Raises StoreError."""
        caller, now = connection.caller, self.clock.now()
        older = self._live.get(caller.device)
        live = LiveNode(connection, tuple(sorted(caller.caps))[:MAX_CAPS], now // 1000)
        self._live[caller.device] = live
        if older is not None:
            # A machine that lost its connection comes back before we notice; the old socket is nobody's.
            self.hub.revoke(older.connection, SUPERSEDED)
        made: list[NodeRequest] = []

        def note(device: Device | None) -> Device | None:
            if device is None:
                return None
            surface = device.node or NodeSurface(created_at=now)
            surface = replace(surface, version=caller.client.version[:64], connected_at=now)
            asked = self._asked(surface, live, now)
            if asked is not None and asked != surface.asked:
                made.append(asked)
            return replace(device, node=replace(surface, asked=asked))

        device = await self.store.change_device(caller.device, note)
        if device is None:
            self.hub.revoke(connection, "device removed")
            return
        for request in made:
            self.hub.publish(PlaneEvent("node.pair.requested", request_row(device, request)))

    def _asked(self, surface: NodeSurface, live: LiveNode, now: int) -> NodeRequest | None:
        """Return what a node offers that nobody has approved; the same offer keeps its request."""
        commands = self.rules().offered(live.caller.client.platform, live.caller.commands)[:MAX_COMMANDS]
        if surface.approved_at and set(commands) <= set(surface.commands) and set(live.caps) <= set(surface.caps):
            return None
        old = surface.asked
        if old is not None and (old.caps, old.commands) == (live.caps, commands):
            return old
        return NodeRequest(new_id(), live.caps, commands, now)

    def _left(self, connection: Connection) -> None:
        live = self._live.get(connection.caller.device)
        if live is not None and live.connection is connection:
            del self._live[connection.caller.device]

    async def find(self, node: str) -> Device | None:
        """Return the device of a node."""
        device = await self.store.device(node)
        return device if device is not None and is_node(device) else None

    async def decide(self, caller: Caller, request: str, *, approve: bool) -> Device:
        """Approve or reject what a node offers.

        Raises:
            RpcError: There is no such request, or the caller may not decide it.
        """
        device = next((d for d in await self.nodes() if d.node and d.node.asked and d.node.asked.id == request), None)
        if device is None or not self.sees(caller, device.id):
            raise unknown_request()
        assert device.node is not None
        assert device.node.asked is not None
        # Who refuses gives nothing away.
        for scope in scopes_to_approve(device.node.asked.commands) if approve else (Scope.PAIRING,):
            if not caller.may(scope):
                raise missing_scope(scope)
        now = self.clock.now()
        decided: list[Device] = []

        def settle(found: Device | None) -> Device | None:
            surface = found.node if found is not None else None
            if found is None or surface is None or surface.asked is None or surface.asked.id != request:
                return found
            if approve:
                surface = replace(
                    surface, caps=surface.asked.caps, commands=surface.asked.commands, created_at=now, approved_at=now
                )
            after = replace(found, node=replace(surface, asked=None))
            decided.append(after)
            return after

        await self.store.change_device(device.id, settle)
        if not decided:
            raise unknown_request()
        self._tell(device.id, request, "approved" if approve else "rejected")
        log.info("node.decided", node=device.id[:12], approved=approve)
        return decided[0]

    def _tell(self, node: str, request: str, decision: str) -> None:
        payload = {"requestId": request, "nodeId": node, "decision": decision, "ts": self.clock.now() // 1000}
        live = self._live.get(node)
        if live is not None:
            self.hub.push(live.connection.id, "node.pair.resolved", payload)
        self.hub.publish(PlaneEvent("node.pair.resolved", payload))

    async def remove(self, caller: Caller, node: str) -> None:
        """Take the role of a node from a device; its connections as a node end. Raises RpcError for an unknown one."""
        was: list[Device] = []

        def take(found: Device | None) -> Device | None:
            if found is None or not is_node(found) or not self.sees(caller, node):
                return found
            was.append(found)
            roles = tuple(role for role in found.roles if role != _NODE)
            if not roles:
                return None
            return replace(found, roles=roles, tokens=tuple(t for t in found.tokens if t.role != _NODE), node=None)

        await self.store.change_device(node, take)
        if not was:
            raise unknown_node()
        self._tell(node, "", "removed")
        self.hub.close_device(node, _NODE)
        log.info("node.removed", node=node[:12])

    async def rename(self, caller: Caller, node: str, name: str) -> None:
        """Give a node another name. Raises RpcError for an unknown one."""
        was: list[Device] = []

        def change(found: Device | None) -> Device | None:
            if found is None or not is_node(found) or not self.sees(caller, node):
                return found
            was.append(found)
            return replace(found, about=replace(found.about, label=name))

        await self.store.change_device(node, change)
        if not was:
            raise unknown_node()

    @staticmethod
    def sees(caller: Caller, node: str) -> bool:
        """Return whether a caller may manage a node: a device on its own token manages only itself, unless admin."""
        return caller.method != "device-token" or caller.may(Scope.ADMIN) or caller.device == node

    async def nodes(self) -> list[Device]:
        """Return all paired nodes."""
        return [device for device in await self.store.devices() if is_node(device)]

    def commands(self, device: Device) -> tuple[str, ...]:
        """Return what a node may be asked for now; sorted. Of one that is not connected: what was approved."""
        surface, live = device.node, self._live.get(device.id)
        if surface is None or not surface.approved_at:
            return ()
        found = set(self.rules().offered(device.about.platform, surface.commands))
        return tuple(sorted(found & set(live.caller.commands) if live is not None else found))

    def row(self, device: Device) -> dict[str, Any]:
        """Return a node as clients see it."""
        about, surface, live = device.about, device.node or NodeSurface(), self._live.get(device.id)
        row: dict[str, Any] = {"nodeId": device.id, **_about(device, surface)}
        row |= {"caps": list(surface.caps), "commands": list(self.commands(device))}
        row |= {"sessionHost": False, "nodePluginTools": []}
        row["approvalState"] = "approved" if surface.approved_at and surface.asked is None else "pending-approval"
        if surface.asked is not None:
            row |= {
                "pendingRequestId": surface.asked.id,
                "pendingDeclaredCaps": sorted(surface.asked.caps),
                "pendingDeclaredCommands": sorted(surface.asked.commands),
            }
        if live is not None:
            row["connectedAtMs"] = live.since
        if surface.connected_at:
            at = surface.connected_at // 1000
            row |= {"lastConnectedAtMs": at, "lastSeenAtMs": at, "lastSeenReason": "connect"}
        approved = surface.approved_at or device.approved_at
        row |= {"approvedAtMs": approved // 1000, "paired": True, "connected": live is not None}
        if about.label:
            row["displayName"] = about.label
        return row


def is_node(device: Device) -> bool:
    """Return whether a device may connect as a node."""
    token = device.token(_NODE)
    return _NODE in device.roles and token is not None and not token.revoked_at


def _about(device: Device, surface: NodeSurface) -> dict[str, Any]:
    about = device.about
    found = {
        "displayName": about.label or about.name,
        "platform": about.platform,
        "version": surface.version,
        "clientId": about.client_id,
        "clientMode": about.client_mode,
        "deviceFamily": about.family,
    }
    return {name: value for name, value in found.items() if value}


def request_row(device: Device, request: NodeRequest) -> dict[str, Any]:
    """Return what a node offers and waits for."""
    return {
        "requestId": request.id,
        "nodeId": device.id,
        **_about(device, device.node or NodeSurface()),
        "caps": list(request.caps),
        "commands": list(request.commands),
        "requiredApproveScopes": [scope.value for scope in scopes_to_approve(request.commands)],
        "ts": request.created_at // 1000,
    }


def paired_row(device: Device) -> dict[str, Any]:
    """Return what was approved of a node."""
    surface = device.node or NodeSurface()
    row = {"nodeId": device.id, **_about(device, surface)}
    row |= {"caps": list(surface.caps), "commands": list(surface.commands)}
    row |= {"createdAtMs": surface.created_at // 1000, "approvedAtMs": surface.approved_at // 1000}
    if surface.connected_at:
        row |= {"lastSeenAtMs": surface.connected_at // 1000, "lastSeenReason": "connect"}
    return row


def unknown_request() -> RpcError:
    """Return the answer about a request that is not there."""
    return RpcError(Code.INVALID_REQUEST, "unknown requestId")


def unknown_node() -> RpcError:
    """Return the answer about a node that is not there."""
    return RpcError(Code.INVALID_REQUEST, "unknown nodeId")
