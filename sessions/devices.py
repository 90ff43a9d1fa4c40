"""Devices of the control plane as the store knows them. Times are microseconds UTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.clock import DAY, HOUR

KEEP_DECIDED = HOUR
"""How long a decided or expired request is kept for those who wait for it."""
KEEP_KEYS = 7 * DAY
"""How long a repeated request is recognised."""
MAX_ATTEMPTS = 10_000
"""Addresses whose wrong secrets are kept; the ones unused for longest are forgotten first."""
MAX_PENDING = 64
"""Requests that may be pending; the oldest gives way."""


@dataclass(frozen=True, slots=True)
class About:
    """What a device says about itself, and the name that a person gave it."""

    name: str = ""
    platform: str = ""
    family: str = ""
    client_id: str = ""
    client_mode: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class DeviceToken:
    """The token of a device in one role; the token itself is not here."""

    role: str
    scopes: tuple[str, ...]
    generation: str
    digest: str
    created_at: int
    rotated_at: int = 0
    revoked_at: int = 0
    used_at: int = 0


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """What a node offers and nobody has approved yet."""

    id: str
    caps: tuple[str, ...]
    commands: tuple[str, ...]
    created_at: int


@dataclass(frozen=True, slots=True)
class NodeSurface:
    """What a device offers as a node, and how much of it was approved.

    Attributes:
        caps: Approved kinds of abilities.
        commands: Approved commands.
        approved_at: 0 while nothing was approved.
        asked: What waits for a person's word.
    """

    caps: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    version: str = ""
    created_at: int = 0
    approved_at: int = 0
    connected_at: int = 0
    asked: NodeRequest | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """A paired device. `scopes` are what was approved for it as an operator."""

    id: str
    public_key: str
    about: About
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    approved_via: str
    created_at: int
    approved_at: int
    seen_at: int = 0
    tokens: tuple[DeviceToken, ...] = ()
    node: NodeSurface | None = None

    def token(self, role: str) -> DeviceToken | None:
        """Return the token of a role."""
        return next((token for token in self.tokens if token.role == role), None)


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A device that waits for a person's word."""

    id: str
    device: str
    public_key: str
    about: About
    role: str
    scopes: tuple[str, ...]
    remote_ip: str
    is_repair: bool
    created_at: int
    expires_at: int
    decision: str = ""


@dataclass(frozen=True, slots=True)
class SetupCode:
    """What a setup code grants to the one device that uses it."""

    digest: str
    role: str
    scopes: tuple[str, ...]
    expires_at: int


@dataclass(frozen=True, slots=True)
class Attempts:
    """Wrong secrets of one kind from one address: when the latest came, and until when it is locked out (0: not)."""

    address: str
    kind: str
    failures: tuple[int, ...]
    locked_until: int
    updated_at: int


ChangeDevice = Callable[[Device | None], Device | None]
"""From a device as it stands to how it is to be; None removes it. Called inside the transaction; must be pure."""


class DeviceStore(Protocol):
    """Paired devices and those that ask."""

    async def devices(self) -> Sequence[Device]:
        """Return all paired devices, the newest first."""
        ...

    async def device(self, device: str) -> Device | None:
        """Return a device."""
        ...

    async def change_device(self, device: str, change: ChangeDevice) -> Device | None:
        """Change, add or remove a device, together with its tokens; returns how it is now."""
        ...

    async def device_requests(self) -> Sequence[DeviceRequest]:
        """Return pending requests that have not expired, oldest first."""
        ...

    async def device_request(self, request: str) -> DeviceRequest | None:
        """Return a request, also a decided or expired one, as long as it is kept."""
        ...

    async def ask_device(self, request: DeviceRequest) -> tuple[DeviceRequest, Sequence[DeviceRequest]]:
        """Store a request; returns the one that is pending now, and those that it took the place of.

        A pending request of the same device for the same role and scopes stays as it is and is returned. Another
        one of the same device gives way and counts as rejected.
        """
        ...

    async def settle_device_request(
        self, request: str, decision: str, change: Callable[[DeviceRequest, Device | None], Device | None] | None
    ) -> tuple[DeviceRequest, Device | None] | None:
        """Decide a pending request, once, and change its device with it; None when there is no such request."""
        ...

    async def add_setup_code(self, code: SetupCode) -> None:
        """Store a setup code."""
        ...

    async def take_setup_code(self, digest: str) -> SetupCode | None:
        """Use a setup code up; None when it is unknown, used or expired."""
        ...


class AttemptStore(Protocol):
    """Wrong secrets, so that a restart forgives nobody."""

    async def attempts(self) -> Sequence[Attempts]:
        """Return what is kept, the newest first; at most `MAX_ATTEMPTS`."""
        ...

    async def put_attempts(self, attempts: Attempts, oldest: int) -> None:
        """Keep the wrong secrets of an address, and forget what was last changed before `oldest`."""
        ...

    async def forget_attempts(self, address: str, kind: str) -> None:
        """Forget the wrong secrets of an address."""
        ...


@dataclass(frozen=True, slots=True)
class RequestKey:
    """What a repeated request is recognised by."""

    caller: str
    method: str
    key: str


class IdempotencyStore(Protocol):
    """Keys of requests that must not be carried out twice; they outlive a restart."""

    async def claim_key(self, caller: str, method: str, key: str, response: str) -> str | None:
        """Store the response of a request under its key; None when it is new, else what was stored before."""
        ...

    async def settle_key(self, caller: str, method: str, key: str, response: str) -> None:
        """Replace the stored response of a key, for example by the final one."""
        ...

    async def recall_key(self, caller: str, method: str, key: str) -> str | None:
        """Return the stored response of a key."""
        ...
