"""Methods about devices.

Who approves can give only what it holds; what changes a right ends the sockets that used it.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import structlog
from pydantic import Field

from tidegate.gateway.plane.contract import Call, Caller, Code, Method, NoParams, Params, Role, RpcError, Scope
from tidegate.gateway.plane.device_rows import device_row, request_row
from tidegate.gateway.plane.devices import MAX_LABEL, REQUEST_LIFE, DeviceBook, within
from tidegate.gateway.plane.frames import NonEmpty, encode
from tidegate.gateway.plane.qr import as_image
from tidegate.gateway.plane.reach import LOOPBACK_ONLY, NO_ADDRESS, Reach, may_be_stated, page_link
from tidegate.ids import new_id
from tidegate.sessions.devices import Device, DeviceRequest

POLL_SECONDS = 0.25
log = structlog.get_logger("plane.devices")


class RequestParams(Params):
    """A request by its id."""

    requestId: NonEmpty


class DeviceParams(Params):
    """A device by its id."""

    deviceId: NonEmpty


class RenameParams(DeviceParams):
    """`device.pair.rename`."""

    label: Annotated[str, Field(min_length=1, max_length=MAX_LABEL)]


class TokenParams(DeviceParams):
    """The token of a device in a role."""

    role: NonEmpty


class RotateParams(TokenParams):
    """`device.token.rotate`."""

    scopes: Annotated[list[str], Field(max_length=64)] = Field(default_factory=list)


class UpgradeParams(Params):
    """`device.scopes.requestUpgrade`."""

    scopes: Annotated[list[NonEmpty], Field(min_length=1, max_length=64)]


class SetupParams(Params):
    """`device.pair.setupCode`."""

    publicUrl: str = ""
    preferRemoteUrl: bool = False
    includeQr: bool = False
    bootstrapProfile: Literal["limited", "node"] = "limited"
    joinUrl: bool = False


def device_methods(book: DeviceBook) -> list[Method]:
    """Return the methods."""
    them = _Devices(book)
    return [
        Method("device.pair.list", NoParams, them.list, Scope.PAIRING),
        Method("device.pair.approve", RequestParams, them.approve, Scope.PAIRING),
        Method("device.pair.reject", RequestParams, them.reject, Scope.PAIRING),
        Method("device.pair.remove", DeviceParams, them.remove, Scope.PAIRING),
        Method("device.pair.rename", RenameParams, them.rename, Scope.PAIRING),
        Method("device.pair.setupCode", SetupParams, them.setup_code, Scope.ADMIN, hidden=True),
        Method("device.token.rotate", RotateParams, them.rotate, Scope.PAIRING),
        Method("device.token.revoke", TokenParams, them.revoke, Scope.PAIRING),
        Method("device.scopes.requestUpgrade", UpgradeParams, them.request_upgrade, Scope.READ, lasting=True),
        Method("device.scopes.waitUpgrade", RequestParams, them.wait_upgrade, Scope.READ),
    ]


class _Devices:
    """The handlers."""

    def __init__(self, book: DeviceBook) -> None:
        self._book = book
        self._store = book.store
        self._hub = book.hub

    @staticmethod
    def _own_only(caller: Caller) -> str:
        """Return the only device that a caller may see and manage, or empty for all."""
        return caller.device if caller.method == "device-token" and not caller.may(Scope.ADMIN) else ""

    def _may_touch(self, caller: Caller, device: str) -> None:
        own = self._own_only(caller)
        if own and own != device:
            raise RpcError(Code.INVALID_REQUEST, "unknown deviceId")

    async def list(self, call: Call) -> Any:
        own = self._own_only(call.caller)
        paired = [d for d in await self._store.devices() if not own or d.id == own]
        pending = [
            request
            for request in await self._store.device_requests()
            if (not own or request.device == own) and not any(_has_all(device, request) for device in paired)
        ]
        answer: dict[str, Any] = {
            "pending": [request_row(request) for request in pending],
            "paired": [device_row(device, connected=bool(self._hub.of_device(device.id))) for device in paired],
        }
        # Ours: an empty list must not read as if nobody waited.
        return answer | ({"ownOnly": True} if own else {})

    async def _pending(self, call: Call) -> DeviceRequest:
        found = next((r for r in await self._store.device_requests() if r.id == call.params.requestId), None)
        own = self._own_only(call.caller)
        if found is None or (own and own != found.device):
            raise RpcError(Code.INVALID_REQUEST, "unknown requestId")
        return found

    async def approve(self, call: Call) -> Any:
        book, request = self._book, await self._pending(call)
        if not book.may_give(call.caller, request.role, request.scopes):
            raise self._lacks(call.caller, request)
        now = self._hub.clock.now()
        settled = await self._store.settle_device_request(
            request.id, "approved", lambda asked, found: book.mint.granted(asked, found, "owner", now)
        )
        if settled is None or settled[1] is None:
            raise RpcError(Code.INVALID_REQUEST, "unknown requestId")
        log.info("device.paired", device=request.device[:12], via="owner", role=request.role)
        book.tell_resolved(request, "approved")
        return {"requestId": request.id, "device": device_row(settled[1])}

    @staticmethod
    def _lacks(caller: Caller, request: DeviceRequest) -> RpcError:
        if request.role != Role.OPERATOR:
            missing = [Scope.ADMIN.value]
        else:
            known = {scope.value for scope in Scope}
            missing = [s for s in request.scopes if s not in known or not caller.may(Scope(s))]
        details = {"code": "MISSING_SCOPE", "missingScope": missing[0], "requiredScopes": missing}
        return RpcError(Code.FORBIDDEN, f"missing scope: {missing[0]}", details)

    async def reject(self, call: Call) -> Any:
        request = await self._pending(call)
        if await self._store.settle_device_request(request.id, "rejected", None) is None:
            raise RpcError(Code.INVALID_REQUEST, "unknown requestId")
        self._book.turn_down(request)
        return {"requestId": request.id, "deviceId": request.device}

    async def remove(self, call: Call) -> Any:
        device = call.params.deviceId
        self._may_touch(call.caller, device)
        await self._change(call.caller, device, lambda _: None)
        self._hub.close_device(device)
        self._book.tell_changed(device, call.caller)
        return {"deviceId": device}

    async def rename(self, call: Call) -> Any:
        device, label = call.params.deviceId, call.params.label.strip()
        self._may_touch(call.caller, device)
        await self._change(call.caller, device, lambda d: replace(d, about=replace(d.about, label=label)))
        self._book.tell_changed(device, call.caller)
        return {"deviceId": device, "label": label}

    async def _change(self, caller: Caller, device: str, change: Callable[[Device], Device | None]) -> None:
        """Change a device that is there, and that reaches no further than the caller. Raises RpcError otherwise."""
        found: list[Device] = []

        def work(device: Device | None) -> Device | None:
            if device is None:
                return None
            found.append(device)
            if not all(self._book.may_give(caller, token.role, token.scopes) for token in device.tokens):
                return device
            return change(device)

        await self._store.change_device(device, work)
        if not found:
            raise RpcError(Code.INVALID_REQUEST, "unknown deviceId")
        for token in found[0].tokens:
            if not self._book.may_give(caller, token.role, token.scopes):
                details = {
                    "code": "MISSING_SCOPE",
                    "missingScope": "operator.admin",
                    "requiredScopes": ["operator.admin"],
                }
                raise RpcError(Code.FORBIDDEN, "missing scope: operator.admin", details)

    async def _change_token(self, call: Call, change: Callable[[Device], Device]) -> None:
        self._may_touch(call.caller, call.params.deviceId)
        role = call.params.role

        def work(device: Device) -> Device:
            if device.token(role) is None:
                raise RpcError(Code.INVALID_REQUEST, "unknown deviceId/role")
            return change(device)

        await self._change(call.caller, call.params.deviceId, work)

    async def rotate(self, call: Call) -> Any:
        params, caller, book = call.params, call.caller, self._book
        now = self._hub.clock.now()

        def renew(device: Device) -> Device:
            old = device.token(params.role)
            assert old is not None
            if old.revoked_at:
                # Revocation is final: only a new approval gives rights again.
                raise RpcError(Code.INVALID_REQUEST, "unknown deviceId/role")
            if params.scopes and set(params.scopes) != set(old.scopes):
                raise RpcError(Code.INVALID_REQUEST, "rotation keeps the scopes of a token; ask for an upgrade instead")
            return replace(device, tokens=_with(device, book.mint.renewed(device.id, old, now)))

        await self._change_token(call, renew)
        device = await self._store.device(params.deviceId)
        token = device.token(params.role) if device is not None else None
        if token is None:
            raise RpcError(Code.INVALID_REQUEST, "unknown deviceId/role")
        answer: dict[str, Any] = {
            "deviceId": params.deviceId,
            "role": params.role,
            "scopes": list(token.scopes),
            "rotatedAtMs": token.rotated_at // 1000,
        }
        if caller.device == params.deviceId and caller.method == "device-token" and caller.role.value == params.role:
            answer |= {"tokenDelivery": "in-band", "token": book.mint.text(params.deviceId, token)}
            self._close_others(caller)
            self._book.tell_changed(params.deviceId, caller)
            return answer
        self._hub.close_device(params.deviceId)
        self._book.tell_changed(params.deviceId, caller)
        return answer | {"tokenDelivery": "withheld-cross-device"}

    def _close_others(self, caller: Caller) -> None:
        """End the device's other sockets: its own one has to carry the new token first."""
        for connection in self._hub.of_device(caller.device):
            if connection.id != caller.connection:
                connection.close(4001, "device removed")

    async def revoke(self, call: Call) -> Any:
        now, role = self._hub.clock.now(), call.params.role

        def revoke(device: Device) -> Device:
            old = device.token(role)
            assert old is not None
            return replace(device, tokens=_with(device, replace(old, revoked_at=now)))

        await self._change_token(call, revoke)
        self._hub.close_device(call.params.deviceId)
        self._book.tell_changed(call.params.deviceId, call.caller)
        return {"deviceId": call.params.deviceId, "role": role, "revokedAtMs": now // 1000}

    async def request_upgrade(self, call: Call) -> Any:
        caller = call.caller
        device = await self._store.device(caller.device) if caller.device else None
        if device is None:
            raise RpcError(Code.INVALID_REQUEST, "only a paired device can ask for more scopes")
        now = self._hub.clock.now()
        request = DeviceRequest(
            new_id(),
            device.id,
            device.public_key,
            device.about,
            caller.role.value,
            tuple(call.params.scopes),
            "",
            True,
            now,
            now + REQUEST_LIFE,
        )
        pending = await self._book.announce(request)
        return {
            "requestId": pending.id,
            "expiresAtMs": pending.expires_at // 1000,
        }

    async def wait_upgrade(self, call: Call) -> Any:
        """Wait for a person's word; the store is asked again and again, so that any process may decide."""
        while True:
            request = await self._store.device_request(call.params.requestId)
            if request is None or request.device != call.caller.device:
                raise RpcError(Code.INVALID_REQUEST, "unknown requestId")
            if request.decision == "approved":
                device = await self._store.device(request.device)
                token = device.token(request.role) if device is not None else None
                if device is None or token is None or token.revoked_at:
                    return {"status": "rejected"}
                text = self._book.mint.text(device.id, token)
                return {"status": "approved", "deviceToken": text, "scopes": list(token.scopes)}
            if request.decision:
                self._book.has_heard(request.device)
                return {"status": "rejected"}
            if request.expires_at <= self._hub.clock.now():
                return {"status": "expired"}
            await asyncio.sleep(POLL_SECONDS)

    async def setup_code(self, call: Call) -> Any:
        """Make a code that holds an address and a token, which pairs one device, once."""
        params: SetupParams = call.params
        places = self._places(params.publicUrl)
        is_node = params.bootstrapProfile == "node"
        role, scopes = (Role.NODE, ()) if is_node else (Role.OPERATOR, (Scope.READ.value, Scope.WRITE.value))
        token, expires = await self._book.new_setup_code(role.value, scopes)
        said = encode({"url": places[0].url, "bootstrapToken": token})
        code = base64.urlsafe_b64encode(said.encode()).rstrip(b"=").decode()
        answer: dict[str, Any] = {
            "setupId": new_id(),
            "setupCode": code,
            "gatewayUrl": places[0].url,
            "gatewayUrls": [place.url for place in places],
            "auth": self._book.auth_mode,
            "urlSource": places[0].source,
            "access": "node" if is_node else "limited",
            "expiresAtMs": expires // 1000,
        }
        if params.joinUrl and not is_node and self._book.has_page() and (link := page_link(places, token)):
            answer["joinUrl"] = link
        if params.includeQr:
            answer["qrDataUrl"] = await asyncio.to_thread(as_image, code)
        return answer

    def _places(self, stated: str) -> Sequence[Reach]:
        """Return where the gateway is reached: as the caller says, or as is known. Raises RpcError."""
        if not stated:
            found = self._book.reach()
            if not found:
                raise RpcError(Code.INVALID_REQUEST, LOOPBACK_ONLY if self._book.loopback_only else NO_ADDRESS)
            return found
        if not may_be_stated(stated):
            raise RpcError(Code.INVALID_REQUEST, "publicUrl must begin with wss:// or https://")
        return [Reach(stated, "publicUrl")]


def _has_all(device: Device, request: DeviceRequest) -> bool:
    """Return whether a device got in another way what a request of its own still asks for."""
    token = device.token(request.role)
    is_same = (device.id, device.public_key) == (request.device, request.public_key)
    if not is_same or token is None or token.revoked_at or request.role not in device.roles:
        return False
    known, told = device.about, request.about
    return (known.platform, known.family) == (told.platform, told.family) and within(request.scopes, token.scopes)


def _with(device: Device, token: Any) -> tuple[Any, ...]:
    return tuple(token if old.role == token.role else old for old in device.tokens)
