"""Paired devices: who may connect with which rights, and how they get them.

Rights are what a person approved, or what the operator's own secret shows on this machine; never what a device says. A
token is not stored anywhere: it is derived from a secret in the state directory and what the store knows about it, so
that each connect can repeat it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import structlog

from tidegate.clock import MINUTE, Clock
from tidegate.gateway.plane.auth import Doorkeeper, keep_secret, same, unauthorized
from tidegate.gateway.plane.contract import Caller, ClientInfo, Code, PlaneEvent, Role, RpcError, Scope, covers
from tidegate.gateway.plane.device_rows import request_row
from tidegate.gateway.plane.device_tokens import TokenMint, digest_of
from tidegate.gateway.plane.handshake import BROWSER_CLIENTS, Asker, Grant, Refused
from tidegate.gateway.plane.hub import Hub
from tidegate.gateway.plane.identity import USER_AT_HOST
from tidegate.gateway.plane.limits import SecretKind
from tidegate.gateway.plane.reach import Reach
from tidegate.ids import new_id
from tidegate.sessions.devices import MAX_PENDING, About, Device, DeviceRequest, DeviceStore, SetupCode

SECRET_FILE = "device.secret"
REQUEST_LIFE = 5 * MINUTE
SETUP_LIFE = 10 * MINUTE
MAX_LABEL = 120

NOT_PAIRED, ROLE_UPGRADE, SCOPE_UPGRADE, METADATA_UPGRADE = (
    "not-paired",
    "role-upgrade",
    "scope-upgrade",
    "metadata-upgrade",
)
_WHY = {
    NOT_PAIRED: "device is not approved yet",
    ROLE_UPGRADE: "device is asking for a higher role than currently approved",
    SCOPE_UPGRADE: "device is asking for more scopes than currently approved",
    METADATA_UPGRADE: "device identity changed and must be re-approved",
}
_HINTS = {
    NOT_PAIRED: "Approve this device from the pending pairing requests.",
    ROLE_UPGRADE: "Review the requested role, then approve the pending upgrade.",
    SCOPE_UPGRADE: "Review the requested scopes, then approve the pending upgrade.",
    METADATA_UPGRADE: "Review the changed device, then approve it again.",
}
SHARED_METHODS = frozenset({"token", "password"})

log = structlog.get_logger("plane.devices")


def within(asked: Iterable[str], held: Iterable[str]) -> bool:
    """Return whether all scopes asked for are held. A name nobody knows is held only literally."""
    granted = set(held)
    known = {scope.value for scope in Scope}
    return all(scope in granted or (scope in known and covers(granted, Scope(scope))) for scope in asked)


class DeviceBook:
    """Admits devices, and changes what they may do.

    Args:
        loopback_only: The gateway listens on this machine only, so a phone could not reach it.
        reach: Returns under which addresses a phone reaches it.
        has_page: Tells whether the web chat is on.
    """

    def __init__(
        self,
        store: DeviceStore,
        hub: Hub,
        doorkeeper: Doorkeeper,
        clock: Clock,
        state_dir: Path,
        *,
        loopback_only: bool = True,
        reach: Callable[[], list[Reach]] = list,
        has_page: Callable[[], bool] = lambda: True,
    ) -> None:
        self.store = store
        self.hub = hub
        self.loopback_only = loopback_only
        self.reach = reach
        self.has_page = has_page
        self._doorkeeper = doorkeeper
        self._clock = clock
        self._turned_down: dict[str, int] = {}
        self.mint = TokenMint(keep_secret(state_dir / SECRET_FILE).encode())

    @property
    def auth_mode(self) -> str:
        """Which secret the gateway asks for: token or password."""
        return _secret_mode(self._doorkeeper)

    async def admit(self, asker: Asker) -> Grant:
        """Return what a proven device may do; its token comes with every grant.

        Raises:
            Refused: It waits for a person's word.
            RpcError: It showed a wrong token, or a token that does not reach as far as it asks.
        """
        assert asker.device is not None
        device = await self.store.device(asker.device.id)
        if asker.method is None:
            if asker.offered.bootstrap_token:
                device = await self._use_setup_code(asker)
                return await self._grant(asker, device, "bootstrap-token")
            device = await self._check_token(asker, device)
            if (why := self._lacks(asker, device)) is not None:
                raise await self._ask(asker, device, why)
            return await self._grant(asker, device, "device-token")
        why = self._lacks(asker, device)
        if why is None:
            assert device is not None
            return await self._grant(asker, device, asker.method)
        if asker.offered.bootstrap_token:
            # Where no secret is asked for, a code is the person's word.
            return await self._grant(asker, await self._use_setup_code(asker), "bootstrap-token")
        if self._skips_pairing(asker):
            return Grant(frozenset(asker.scopes), asker.scopes, asker.method)
        if not self._is_silent(asker, device, why):
            raise await self._ask(asker, device, why)
        device = await self._approve_silently(asker)
        return await self._grant(asker, device, asker.method)

    @staticmethod
    def _lacks(asker: Asker, device: Device | None) -> str | None:
        """Return what a device still needs a person's word for, or None."""
        if device is None or asker.device is None or device.public_key != asker.device.public_key:
            return NOT_PAIRED
        token = device.token(asker.role.value)
        if asker.role.value not in device.roles or token is None or token.revoked_at:
            return ROLE_UPGRADE
        if asker.role is Role.OPERATOR and not within(asker.scopes, token.scopes):
            return SCOPE_UPGRADE
        about = device.about
        known = (about.platform.strip().lower(), about.family.strip().lower())
        if known != (asker.client.platform.strip().lower(), asker.client.device_family.strip().lower()):
            return METADATA_UPGRADE
        return None

    @staticmethod
    def _skips_pairing(asker: Asker) -> bool:
        """Return whether the operator's own helper process asks: on this machine, with the shared secret."""
        who = (asker.client.id, asker.client.mode)
        return (
            who == ("gateway-client", "backend")
            and asker.role is Role.OPERATOR
            and asker.peer.is_local
            and asker.peer.origin is None
            and asker.method in SHARED_METHODS
        )

    def _is_silent(self, asker: Asker, device: Device | None, why: str) -> bool:
        """Return whether a device on this machine is approved without asking.

        Never for admin, unless it showed the shared secret: other processes here could reach a gateway without one.
        """
        peer, shown = asker.peer, asker.method in SHARED_METHODS
        if not peer.is_local or not self._doorkeeper.settings.auto_approve_local:
            return False
        if peer.origin is not None and not (shown and asker.client.id in BROWSER_CLIENTS):
            # Whoever types the shared secret into our own page is the operator; a page alone is nobody.
            return False
        if not shown and within([Scope.ADMIN], asker.scopes):
            return False
        if why == NOT_PAIRED:
            return device is None and asker.method in (*SHARED_METHODS, "none")
        if why == ROLE_UPGRADE:
            # Revocation is final until a person decides anew.
            was_revoked = device is not None and device.token(asker.role.value) is not None
            return shown and asker.role is Role.OPERATOR and not was_revoked
        return why == SCOPE_UPGRADE and asker.method in (*SHARED_METHODS, "none")

    async def _check_token(self, asker: Asker, device: Device | None) -> Device:
        """Return the device whose token was shown. Raises RpcError."""
        offered, keeper, peer = asker.offered, self._doorkeeper, asker.peer
        shown = offered.device_token or offered.token
        if not shown:
            if offered.password:
                await keeper.limiter.failed(peer.neighbourhood, SecretKind.SHARED, is_local=peer.is_local)
                raise unauthorized(f"{_secret_mode(keeper)}_mismatch")
            raise unauthorized(f"{_secret_mode(keeper)}_missing")
        await keeper.check_not_locked(peer, SecretKind.DEVICE)
        token = device.token(asker.role.value) if device is not None else None
        is_right = (
            device is not None
            and asker.device is not None
            and device.public_key == asker.device.public_key
            and token is not None
            and not token.revoked_at
            and same(digest_of(shown), token.digest)
        )
        if not is_right:
            kind = SecretKind.DEVICE if offered.device_token else SecretKind.SHARED
            await keeper.limiter.failed(peer.neighbourhood, kind, is_local=peer.is_local)
            if offered.device_token:
                raise unauthorized("device_token_mismatch")
            # A client that also has a device token may try that one.
            raise unauthorized(f"{_secret_mode(keeper)}_mismatch", next_step="retry_with_device_token", can_retry=True)
        assert device is not None
        assert token is not None
        await keeper.limiter.succeeded(peer.neighbourhood, SecretKind.DEVICE)
        if not within(asker.scopes, token.scopes):
            raise unauthorized("scope_mismatch", next_step="review_auth_configuration")
        return device

    async def _grant(self, asker: Asker, device: Device, method: str) -> Grant:
        """Return the grant of an approved device, and note that it was here."""
        role, now = asker.role.value, self._clock.now()

        def touch(found: Device | None) -> Device | None:
            if found is None:
                return None
            tokens = tuple(
                replace(t, used_at=now) if t.role == role and method == "device-token" else t for t in found.tokens
            )
            client, about = asker.client, found.about
            told = replace(about, name=_name_of(client), client_id=client.id, client_mode=client.mode)
            return replace(found, about=told, seen_at=now, tokens=tokens)

        # Read again in the same transaction: it may have been removed or revoked while its proof was checked.
        now_device = await self.store.change_device(device.id, touch)
        token = now_device.token(role) if now_device is not None else None
        if token is None or token.revoked_at or not within(asker.scopes, token.scopes):
            raise unauthorized("device_token_mismatch")
        issued = (token.rotated_at or token.created_at) // 1000
        scopes = asker.scopes if asker.role is Role.OPERATOR else ()
        return Grant(frozenset(scopes), scopes, method, self.mint.text(device.id, token), issued)

    async def _approve_silently(self, asker: Asker) -> Device:
        request = self._request(asker, is_repair=False)
        now = self._clock.now()
        device = await self.store.change_device(
            request.device, lambda found: self.mint.granted(request, found, "silent", now)
        )
        assert device is not None
        log.info("device.paired", device=device.id[:12], via="silent", role=request.role)
        self.tell_changed(device.id)
        return device

    async def _ask(self, asker: Asker, device: Device | None, why: str) -> Refused:
        """Return the refusal of a device that waits for a person's word; approvers hear of it once."""
        assert asker.device is not None
        if self._turned_down.pop(asker.device.id, 0) > self._clock.now():
            details: dict[str, object] = {"code": "PAIRING_REJECTED", "reason": why, "deviceId": asker.device.id}
            return Refused(RpcError(Code.NOT_PAIRED, "pairing request was turned down", details))
        request = self._request(asker, is_repair=device is not None)
        pending = await self.announce(request)
        wire = RpcError(
            Code.NOT_PAIRED, f"pairing required: {_WHY[why]}", _pairing_details(asker, device, why, pending)
        )
        return Refused(wire, reason=f"{wire.message} (requestId: {pending.id})")

    async def announce(self, request: DeviceRequest) -> DeviceRequest:
        """Store a request, tell those who may decide, and return the one that is pending now."""
        pending, given_way = await self.store.ask_device(request)
        for old in given_way:
            self.tell_resolved(old, "rejected")
        if pending.id == request.id:
            self.hub.publish(PlaneEvent("device.pair.requested", request_row(pending)))
        return pending

    def turn_down(self, request: DeviceRequest) -> None:
        """Tell everybody that a request was turned down, its device too: when it asks again, once.

        Else a client that waits would only make the next request.
        """
        self._turned_down[request.device] = self._clock.now() + REQUEST_LIFE
        while len(self._turned_down) > MAX_PENDING:
            del self._turned_down[next(iter(self._turned_down))]
        self.tell_resolved(request, "rejected")

    def has_heard(self, device: str) -> None:
        """Note that a device knows by now that its request was turned down."""
        self._turned_down.pop(device, None)

    def tell_resolved(self, request: DeviceRequest, decision: str) -> None:
        """Tell those who may decide that a request is decided."""
        payload = {
            "requestId": request.id,
            "deviceId": request.device,
            "decision": decision,
            "ts": self._clock.now() // 1000,
        }
        self.hub.publish(PlaneEvent("device.pair.resolved", payload))

    def tell_changed(self, device: str, by: Caller | None = None) -> None:
        """Tell those who may decide that the list of devices changed; whoever changed it knows.

        What is approved or rejected is told as resolved instead.
        """
        others = frozenset(c.id for c in self.hub.connections if by is None or c.id != by.connection)
        payload = {"deviceId": device, "ts": self._clock.now() // 1000}
        self.hub.publish(PlaneEvent("device.pair.changed", payload, only=others))

    def _request(self, asker: Asker, *, is_repair: bool) -> DeviceRequest:
        assert asker.device is not None
        client, now = asker.client, self._clock.now()
        about = About(_name_of(client), client.platform, client.device_family, client.id, client.mode)
        scopes = asker.scopes if asker.role is Role.OPERATOR else ()
        remote = "" if asker.peer.is_local else asker.peer.ip
        return DeviceRequest(
            new_id(),
            asker.device.id,
            asker.device.public_key,
            about,
            asker.role.value,
            scopes,
            remote,
            is_repair,
            now,
            now + REQUEST_LIFE,
        )

    async def new_setup_code(self, role: str, scopes: tuple[str, ...]) -> tuple[str, int]:
        """Return a token that pairs one device, once, and when it expires (microseconds UTC)."""
        text, expires = secrets.token_urlsafe(24), self._clock.now() + SETUP_LIFE
        await self.store.add_setup_code(SetupCode(digest_of(text), role, scopes, expires))
        return text, expires

    async def _use_setup_code(self, asker: Asker) -> Device:
        peer, keeper = asker.peer, self._doorkeeper
        await keeper.check_not_locked(peer, SecretKind.BOOTSTRAP)
        code = await self.store.take_setup_code(digest_of(asker.offered.bootstrap_token))
        if code is None or code.role != asker.role.value or not within(asker.scopes, code.scopes):
            await keeper.limiter.failed(peer.neighbourhood, SecretKind.BOOTSTRAP, is_local=peer.is_local)
            raise unauthorized("bootstrap_token_invalid")
        request, now = replace(self._request(asker, is_repair=False), scopes=code.scopes), self._clock.now()
        device = await self.store.change_device(
            request.device, lambda found: self.mint.granted(request, found, "bootstrap", now)
        )
        assert device is not None
        log.info("device.paired", device=device.id[:12], via="bootstrap", role=request.role)
        self.tell_changed(device.id)
        return device

    def may_give(self, caller: Caller, role: str, scopes: Iterable[str]) -> bool:
        """Return whether a caller holds all that it would give: an operator's scopes, or admin for other roles."""
        if caller.may(Scope.ADMIN):
            return True
        return role == Role.OPERATOR and within(scopes, caller.scopes)


def _name_of(client: ClientInfo) -> str:
    """Return the name of a device in lists: what it calls itself, else the `user@host` of a command line."""
    return client.display_name or (client.instance_id if USER_AT_HOST.fullmatch(client.instance_id) else "")


def _secret_mode(keeper: Doorkeeper) -> str:
    return "password" if keeper.settings.mode == "password" else "token"


def _pairing_details(asker: Asker, device: Device | None, why: str, pending: DeviceRequest) -> dict[str, object]:
    details: dict[str, object] = {
        "code": "PAIRING_REQUIRED",
        "reason": why,
        "requestId": pending.id,
        "remediationHint": _HINTS[why],
        # Ours: in a clone the command has a path.
    }
    if asker.client.mode in ("ui", "webchat"):
        # Without these the client stops; with them it tries again until somebody has decided.
        details |= {"recommendedNextStep": "wait_then_retry", "retryable": True, "pauseReconnect": False}
    details |= {"deviceId": pending.device, "requestedRole": pending.role}
    if pending.scopes:
        details["requestedScopes"] = list(pending.scopes)
    if device is not None:
        details |= {"approvedRoles": list(device.roles), "approvedScopes": list(device.scopes)}
    return details
