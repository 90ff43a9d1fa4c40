"""Devices and request keys in memory; the twin of `sqlite/devices.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from tidegate.clock import Clock
from tidegate.sessions.devices import (
    KEEP_DECIDED,
    KEEP_KEYS,
    MAX_ATTEMPTS,
    MAX_PENDING,
    Attempts,
    ChangeDevice,
    Device,
    DeviceRequest,
    SetupCode,
)
from tidegate.sessions.memory.tables import Tables

Result = TypeVar("Result")


def change_device(tables: Tables, device: str, change: ChangeDevice) -> Device | None:
    """Change, add or remove a device."""
    after = change(tables.devices.get(device))
    if after is None:
        tables.devices.pop(device, None)
    else:
        tables.devices[device] = replace(after, tokens=tuple(sorted(after.tokens, key=lambda token: token.role)))
    return after


def pending_requests(tables: Tables, now: int) -> list[DeviceRequest]:
    """Return pending requests, oldest first."""
    found = [r for r in tables.device_requests.values() if not r.decision and r.expires_at > now]
    return sorted(found, key=lambda request: (request.created_at, request.id))


def ask_device(tables: Tables, request: DeviceRequest, now: int) -> tuple[DeviceRequest, Sequence[DeviceRequest]]:
    """Store a request."""
    for old in list(tables.device_requests.values()):
        if old.expires_at < now - KEEP_DECIDED:
            del tables.device_requests[old.id]
    pending = pending_requests(tables, now)
    own = [item for item in pending if item.device == request.device]
    for item in own:
        if (item.role, item.scopes, item.public_key) == (request.role, request.scopes, request.public_key):
            return item, []
    others = [item for item in pending if item.device != request.device]
    given_way = own + others[: max(0, len(others) - MAX_PENDING + 1)]
    for item in given_way:
        tables.device_requests[item.id] = replace(item, decision="rejected")
    tables.device_requests[request.id] = request
    return request, given_way


def settle_request(
    tables: Tables,
    request: str,
    decision: str,
    change: Callable[[DeviceRequest, Device | None], Device | None] | None,
    now: int,
) -> tuple[DeviceRequest, Device | None] | None:
    """Decide a pending request once."""
    found = tables.device_requests.get(request)
    if found is None or found.decision or found.expires_at <= now:
        return None
    found = replace(found, decision=decision)
    tables.device_requests[request] = found
    if change is None:
        return found, tables.devices.get(found.device)
    return found, change_device(tables, found.device, lambda device: change(found, device))


def take_setup_code(tables: Tables, digest: str, now: int) -> SetupCode | None:
    """Use a setup code up."""
    found = tables.setup_codes.pop(digest, None)
    return found if found is not None and found.expires_at > now else None


def claim_key(tables: Tables, where: tuple[str, str, str], response: str, now: int) -> str | None:
    """Store a response under a key once."""
    for key, (_, at) in list(tables.request_keys.items()):
        if at < now - KEEP_KEYS:
            del tables.request_keys[key]
    if where in tables.request_keys:
        return tables.request_keys[where][0]
    tables.request_keys[where] = (response, now)
    return None


def newest_attempts(tables: Tables) -> list[Attempts]:
    """Return wrong secrets, the newest first."""
    return sorted(tables.attempts.values(), key=lambda row: (-row.updated_at, row.address, row.kind))


def put_attempts(tables: Tables, attempts: Attempts, oldest: int) -> None:
    """Keep the wrong secrets of an address."""
    tables.attempts[attempts.address, attempts.kind] = attempts
    for row in newest_attempts(tables)[MAX_ATTEMPTS:]:
        del tables.attempts[row.address, row.kind]
    for key, row in list(tables.attempts.items()):
        if row.updated_at < oldest:
            del tables.attempts[key]


class MemoryDevices:
    """The part of the store that is about devices; see `DeviceStore`, `IdempotencyStore` and `AttemptStore`."""

    _clock: Clock

    def _read(self) -> Tables:
        raise NotImplementedError

    def _write(self, work: Callable[[Tables], Result]) -> Result:
        raise NotImplementedError

    async def devices(self) -> Sequence[Device]:
        """See `DeviceStore`."""
        return sorted(self._read().devices.values(), key=lambda device: (-device.created_at, device.id))

    async def device(self, device: str) -> Device | None:
        """See `DeviceStore`."""
        return self._read().devices.get(device)

    async def change_device(self, device: str, change: ChangeDevice) -> Device | None:
        """See `DeviceStore`."""
        return self._write(lambda t: change_device(t, device, change))

    async def device_requests(self) -> Sequence[DeviceRequest]:
        """See `DeviceStore`."""
        return pending_requests(self._read(), self._clock.now())

    async def device_request(self, request: str) -> DeviceRequest | None:
        """See `DeviceStore`."""
        return self._read().device_requests.get(request)

    async def ask_device(self, request: DeviceRequest) -> tuple[DeviceRequest, Sequence[DeviceRequest]]:
        """See `DeviceStore`."""
        return self._write(lambda t: ask_device(t, request, self._clock.now()))

    async def settle_device_request(
        self, request: str, decision: str, change: Callable[[DeviceRequest, Device | None], Device | None] | None
    ) -> tuple[DeviceRequest, Device | None] | None:
        """See `DeviceStore`."""
        return self._write(lambda t: settle_request(t, request, decision, change, self._clock.now()))

    async def add_setup_code(self, code: SetupCode) -> None:
        """See `DeviceStore`."""
        self._write(lambda t: t.setup_codes.update({code.digest: code}))

    async def take_setup_code(self, digest: str) -> SetupCode | None:
        """See `DeviceStore`."""
        return self._write(lambda t: take_setup_code(t, digest, self._clock.now()))

    async def claim_key(self, caller: str, method: str, key: str, response: str) -> str | None:
        """See `IdempotencyStore`."""
        return self._write(lambda t: claim_key(t, (caller, method, key), response, self._clock.now()))

    async def settle_key(self, caller: str, method: str, key: str, response: str) -> None:
        """See `IdempotencyStore`."""

        def work(tables: Tables) -> None:
            where = (caller, method, key)
            if where in tables.request_keys:
                tables.request_keys[where] = (response, tables.request_keys[where][1])

        self._write(work)

    async def recall_key(self, caller: str, method: str, key: str) -> str | None:
        """See `IdempotencyStore`."""
        found = self._read().request_keys.get((caller, method, key))
        return found[0] if found is not None else None

    async def attempts(self) -> Sequence[Attempts]:
        """See `AttemptStore`."""
        return newest_attempts(self._read())

    async def put_attempts(self, attempts: Attempts, oldest: int) -> None:
        """See `AttemptStore`."""
        self._write(lambda t: put_attempts(t, attempts, oldest))

    async def forget_attempts(self, address: str, kind: str) -> None:
        """See `AttemptStore`."""
        self._write(lambda t: t.attempts.pop((address, kind), None) and None)
