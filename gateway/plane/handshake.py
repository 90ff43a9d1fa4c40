"""The first request of a connection: who is it, and what may it do. Nothing a client declares widens its rights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from tidegate.clock import Clock
from tidegate.gateway.plane.auth import Doorkeeper, Offered, unauthorized
from tidegate.gateway.plane.contract import ClientInfo, Code, Role, RpcError, Scope
from tidegate.gateway.plane.frames import CLOSE_POLICY, CLOSE_PROTOCOL, PROTOCOL, NonEmpty, RequestFrame, validate
from tidegate.gateway.plane.identity import BadKey, Statement, device_id, encode_key, is_signed, read_public_key
from tidegate.gateway.plane.limits import SecretKind
from tidegate.gateway.plane.owner import METHOD as OWNER
from tidegate.gateway.plane.peers import Peer

LOWEST_PROBE_PROTOCOL = 3
MAX_SKEW_MS = 120_000
"""How far the clock of a device may be from ours."""
SCHEMA = ConfigDict(extra="forbid", frozen=True, strict=True)
ClientId = Literal[
    "webchat-ui",
    "openclaw-control-ui",
    "openclaw-browser-copilot",
    "openclaw-tui",
    "webchat",
    "cli",
    "gateway-client",
    "openclaw-macos",
    "openclaw-linux",
    "openclaw-ios",
    "openclaw-watchos",
    "openclaw-android",
    "node-host",
    "openclaw-worker",
    "test",
    "fingerprint",
    "openclaw-probe",
]
ClientMode = Literal["webchat", "cli", "ui", "backend", "node", "worker", "probe", "test"]
BROWSER_CLIENTS = frozenset({"openclaw-control-ui", "webchat", "webchat-ui"})


class Client(BaseModel):
    """`client` of the connect parameters."""

    model_config = SCHEMA
    id: ClientId
    version: NonEmpty
    platform: NonEmpty
    mode: ClientMode
    displayName: NonEmpty = "-"
    deviceFamily: NonEmpty = "-"
    modelIdentifier: NonEmpty = "-"
    instanceId: NonEmpty = "-"
    buildId: Annotated[str, Field(max_length=96)] = ""
    timeZone: Annotated[str, Field(max_length=64)] = ""

    def told(self, name: str) -> str:
        """Return an optional field, or an empty text when it was not sent."""
        return getattr(self, name) if name in self.model_fields_set else ""


class Auth(BaseModel):
    """`auth` of the connect parameters."""

    model_config = SCHEMA
    token: str = Field(default="", repr=False)
    deviceToken: str = Field(default="", repr=False)
    bootstrapToken: str = Field(default="", repr=False)
    password: str = Field(default="", repr=False)
    approvalRuntimeToken: str = Field(default="", repr=False)
    agentRuntimeIdentityToken: str = Field(default="", repr=False)


class Device(BaseModel):
    """`device` of the connect parameters."""

    model_config = SCHEMA
    id: NonEmpty
    publicKey: NonEmpty
    signature: NonEmpty
    signedAt: Annotated[int, Field(ge=0)]
    nonce: NonEmpty


class ConnectParams(BaseModel):
    """Parameters of `connect`. Closed on every level."""

    model_config = SCHEMA
    minProtocol: Annotated[int, Field(ge=1)]
    maxProtocol: Annotated[int, Field(ge=1)]
    client: Client
    role: str = Role.OPERATOR.value
    scopes: Annotated[list[Annotated[str, Field(max_length=128)]], Field(max_length=64)] = []
    caps: Annotated[list[Annotated[str, Field(max_length=128)]], Field(max_length=256)] = []
    commands: Annotated[list[Annotated[str, Field(max_length=256)]], Field(max_length=1024)] = []
    permissions: dict[str, bool] = {}
    pathEnv: str = ""
    computerUse: Any = None
    workerRuns: Any = None
    modelCatalog: Any = None
    auth: Auth = Auth()
    device: Device | None = None
    locale: str = ""
    userAgent: str = ""


class Refused(Exception):
    """A connection is refused: with an error response if there is one, and this close code and reason."""

    def __init__(self, error: RpcError | None, code: int = CLOSE_POLICY, reason: str | None = None) -> None:
        super().__init__(reason or str(error or ""))
        self.error = error
        self.code = code
        self.reason = reason if reason is not None else (error.message if error else "")


@dataclass(frozen=True, slots=True)
class ProvenDevice:
    """A device that showed that it holds the key of its id."""

    id: str
    public_key: str


@dataclass(frozen=True, slots=True)
class Asker:
    """A client whose proof is checked, on its way to a grant.

    Attributes:
        method: How it proved itself, or None if the secret it showed is not the shared one.
        scopes: What it asks for.
    """

    peer: Peer
    role: Role
    scopes: tuple[str, ...]
    client: ClientInfo
    offered: Offered
    method: str | None = None
    device: ProvenDevice | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """What a connection may do, decided here.

    Attributes:
        device_token: Told to the device on every connect; empty without a device.
        issued_at_ms: When that token was made.
    """

    scopes: frozenset[str]
    ordered: tuple[str, ...]
    method: str
    device_token: str = field(default="", repr=False)
    issued_at_ms: int = 0


class Devices(Protocol):
    """What the handshake asks the device book."""

    async def admit(self, asker: Asker) -> Grant:
        """Return what a proven device may do. Raises Refused, or RpcError for a wrong device token."""
        ...


@dataclass(frozen=True, slots=True)
class Admitted:
    """The outcome of a successful handshake."""

    params: ConnectParams
    client: ClientInfo
    role: Role
    grant: Grant
    device: str = ""


class Handshake:
    """Decides about `connect` requests."""

    def __init__(self, doorkeeper: Doorkeeper, devices: Devices, clock: Clock) -> None:
        self._doorkeeper = doorkeeper
        self._devices = devices
        self._clock = clock

    async def admit(self, frame: RequestFrame, peer: Peer, headers: Mapping[str, str], nonce: str) -> Admitted:
        """Return what the client may do.

        The checks have the order of the protocol: shape, version, role, origin, proof of the device, secret, grant.
        A wrong signature therefore hides whether the secret was right.

        Raises:
            Refused: The connection ends.
        """
        try:
            params: ConnectParams = validate(ConnectParams, frame.params, "connect")
            _check_version(params)
            role = _role(params)
            _check_origin(params, peer)
            device = self._proven(params, role, nonce) if params.device is not None else None
            grant = await self._grant(params, role, peer, headers, device)
        except RpcError as error:
            raise Refused(error) from error
        return Admitted(params, client_info(params), role, grant, device.id if device else "")

    def admit_owner(self, frame: RequestFrame) -> Admitted:
        """Return what the owner of the state directory may do: what it asks for, everything if it asks for nothing.

        Raises:
            Refused: The request does not fit.
        """
        try:
            params: ConnectParams = validate(ConnectParams, frame.params, "connect")
            _check_version(params)
            if _role(params) is not Role.OPERATOR:
                raise RpcError(Code.INVALID_REQUEST, "invalid role")
        except RpcError as error:
            raise Refused(error) from error
        scopes = tuple(params.scopes) or (Scope.ADMIN.value,)
        return Admitted(params, client_info(params), Role.OPERATOR, Grant(frozenset(scopes), scopes, OWNER))

    def _proven(self, params: ConnectParams, role: Role, nonce: str) -> ProvenDevice:
        claimed, auth, client = params.device, params.auth, params.client
        assert claimed is not None
        try:
            key = read_public_key(claimed.publicKey)
        except BadKey:
            raise _device_error("device identity mismatch", "DEVICE_ID_MISMATCH", "device-id-mismatch") from None
        if device_id(key) != claimed.id:
            raise _device_error("device identity mismatch", "DEVICE_ID_MISMATCH", "device-id-mismatch")
        if abs(self._clock.now() // 1000 - claimed.signedAt) > MAX_SKEW_MS:
            raise _device_error("device signature expired", "SIGNATURE_EXPIRED", "device-signature-stale")
        if not claimed.nonce.strip():
            raise _device_error("device nonce required", "NONCE_REQUIRED", "device-nonce-missing")
        if claimed.nonce != nonce:
            raise _device_error("device nonce mismatch", "NONCE_MISMATCH", "device-nonce-mismatch")
        statement = Statement(
            claimed.id,
            client.id,
            client.mode,
            role.value,
            params.scopes,
            claimed.signedAt,
            auth.token or auth.deviceToken or auth.bootstrapToken,
            nonce,
            client.platform,
            client.told("deviceFamily"),
        )
        if not is_signed(statement, claimed.signature, key):
            raise _device_error("device signature invalid", "SIGNATURE_INVALID", "device-signature")
        return ProvenDevice(claimed.id, encode_key(key))

    async def _grant(
        self,
        params: ConnectParams,
        role: Role,
        peer: Peer,
        headers: Mapping[str, str],
        device: ProvenDevice | None,
    ) -> Grant:
        auth = params.auth
        offered = Offered(auth.token, auth.password, auth.deviceToken, auth.bootstrapToken)
        keeper = self._doorkeeper
        if offered.token or offered.password:
            await keeper.check_not_locked(peer, SecretKind.SHARED)
        method = keeper.method_of(peer, offered, headers)
        if method is not None:
            await keeper.limiter.succeeded(peer.neighbourhood, SecretKind.SHARED)
        if device is not None:
            asker = Asker(peer, role, tuple(params.scopes), client_info(params), offered, method, device)
            return await self._devices.admit(asker)
        if method is None:
            if not offered.any:
                raise _device_required()
            await keeper.limiter.failed(peer.neighbourhood, SecretKind.SHARED, is_local=peer.is_local)
            raise unauthorized(f"{keeper.settings.mode}_mismatch")
        if role is not Role.OPERATOR:
            raise _device_required()
        scopes = tuple(params.scopes) if _is_operator_itself(params, peer, method) else ()
        return Grant(frozenset(scopes), scopes, method)


def _is_operator_itself(params: ConnectParams, peer: Peer, method: str) -> bool:
    """Return whether a client without a device is the operator: a command on this machine with the shared secret.

    What it asks for then only narrows what it holds.
    """
    who = (params.client.id, params.client.mode)
    is_command = who in (("cli", "cli"), ("gateway-client", "backend"))
    return is_command and peer.is_local and peer.origin is None and method in ("token", "password", "none")


def client_info(params: ConnectParams) -> ClientInfo:
    """Return what a client says about itself."""
    client = params.client
    return ClientInfo(
        client.id,
        client.mode,
        client.version,
        client.platform,
        client.told("displayName"),
        client.told("deviceFamily"),
        client.told("instanceId"),
    )


def _check_version(params: ConnectParams) -> None:
    lowest, highest = params.minProtocol, params.maxProtocol
    if lowest <= PROTOCOL <= highest:
        return
    if params.client.mode == "probe" and lowest <= PROTOCOL and highest >= LOWEST_PROBE_PROTOCOL:
        return
    is_old_node = params.role == Role.NODE.value and params.client.mode == "node"
    if is_old_node and lowest <= LOWEST_PROBE_PROTOCOL <= highest:
        return
    details = {
        "code": "PROTOCOL_MISMATCH",
        "clientMinProtocol": lowest,
        "clientMaxProtocol": highest,
        "expectedProtocol": PROTOCOL,
        "minimumProbeProtocol": LOWEST_PROBE_PROTOCOL,
    }
    raise Refused(RpcError(Code.INVALID_REQUEST, "protocol mismatch", details), CLOSE_PROTOCOL)


def _role(params: ConnectParams) -> Role:
    try:
        return Role(params.role)
    except ValueError:
        raise RpcError(Code.INVALID_REQUEST, "invalid role") from None


def _check_origin(params: ConnectParams, peer: Peer) -> None:
    """A page without an origin is no page; foreign origins were refused before the socket opened."""
    if params.client.id == "openclaw-control-ui" and peer.origin is None:
        raise RpcError(
            Code.INVALID_REQUEST,
            "origin not allowed (open the Control UI from the gateway host or allow it in "
            "gateway.controlUi.allowedOrigins)",
            {"code": "CONTROL_UI_ORIGIN_NOT_ALLOWED", "reason": "origin missing or invalid"},
        )


def _device_error(message: str, code: str, reason: str) -> RpcError:
    return RpcError(Code.INVALID_REQUEST, message, {"code": f"DEVICE_AUTH_{code}", "reason": reason})


def _device_required() -> RpcError:
    return RpcError(Code.NOT_PAIRED, "device identity required", {"code": "DEVICE_IDENTITY_REQUIRED"})
