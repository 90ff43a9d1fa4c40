"""Transactions about devices and request keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import astuple
from sqlite3 import Connection
from typing import Any

from tidegate.clock import Clock
from tidegate.sessions.codec import dump_json
from tidegate.sessions.devices import (
    KEEP_DECIDED,
    KEEP_KEYS,
    MAX_ATTEMPTS,
    MAX_PENDING,
    About,
    Attempts,
    ChangeDevice,
    Device,
    DeviceRequest,
    DeviceToken,
    NodeRequest,
    NodeSurface,
    SetupCode,
)
from tidegate.sessions.sqlite.writer import Writer

_DEVICE = "id, public_key, about, roles, scopes, approved_via, created_at, approved_at, seen_at, node"
_TOKEN = "role, scopes, generation, digest, created_at, rotated_at, revoked_at, used_at"
_REQUEST = "id, device, public_key, about, role, scopes, remote_ip, is_repair, created_at, expires_at, decision"


def _about(text: str) -> About:
    return About(*json.loads(text))


def _names(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _surface(text: str) -> NodeSurface | None:
    if not text:
        return None
    caps, commands, version, created, approved, connected, asked = json.loads(text)
    request = NodeRequest(asked[0], tuple(asked[1]), tuple(asked[2]), asked[3]) if asked else None
    return NodeSurface(tuple(caps), tuple(commands), version, created, approved, connected, request)


def _device(row: Sequence[Any], tokens: tuple[DeviceToken, ...]) -> Device:
    about, roles, scopes = _about(row[2]), _names(row[3]), _names(row[4])
    return Device(row[0], row[1], about, roles, scopes, row[5], row[6], row[7], row[8], tokens, _surface(row[9]))


def _tokens(connection: Connection, device: str) -> tuple[DeviceToken, ...]:
    rows = connection.execute(f"SELECT {_TOKEN} FROM device_tokens WHERE device = ? ORDER BY role", (device,))
    return tuple(DeviceToken(row[0], _names(row[1]), *row[2:]) for row in rows)


def _request(row: Sequence[Any]) -> DeviceRequest:
    return DeviceRequest(row[0], row[1], row[2], _about(row[3]), row[4], _names(row[5]), row[6], bool(row[7]), *row[8:])


def load_device(connection: Connection, device: str) -> Device | None:
    """Return a device with its tokens."""
    row = connection.execute(f"SELECT {_DEVICE} FROM devices WHERE id = ?", (device,)).fetchone()
    return _device(row, _tokens(connection, device)) if row else None


def load_devices(connection: Connection) -> list[Device]:
    """Return all devices, the newest first."""
    rows = connection.execute(f"SELECT {_DEVICE} FROM devices ORDER BY created_at DESC, id").fetchall()
    return [_device(row, _tokens(connection, row[0])) for row in rows]


def change_device(connection: Connection, device: str, change: ChangeDevice) -> Device | None:
    """Change, add or remove a device; see `DeviceStore.change_device`."""
    before = load_device(connection, device)
    after = change(before)
    if after == before:
        return after
    connection.execute("DELETE FROM devices WHERE id = ?", (device,))
    connection.execute("DELETE FROM device_tokens WHERE device = ?", (device,))
    if after is None:
        return None
    about, roles, scopes = dump_json(astuple(after.about)), dump_json(after.roles), dump_json(after.scopes)
    times = (after.created_at, after.approved_at, after.seen_at)
    node = dump_json(astuple(after.node)) if after.node is not None else ""
    connection.execute(
        f"INSERT INTO devices({_DEVICE}) VALUES (?,?,?,?,?,?,?,?,?,?)",
        (after.id, after.public_key, about, roles, scopes, after.approved_via, *times, node),
    )
    connection.executemany(
        f"INSERT INTO device_tokens(device, {_TOKEN}) VALUES (?,?,?,?,?,?,?,?,?)",
        [(device, token.role, dump_json(token.scopes), *astuple(token)[2:]) for token in after.tokens],
    )
    return after


def pending_requests(connection: Connection, now: int) -> list[DeviceRequest]:
    """Return pending requests, oldest first."""
    rows = connection.execute(
        f"SELECT {_REQUEST} FROM device_requests WHERE decision = '' AND expires_at > ? ORDER BY created_at, id", (now,)
    )
    return [_request(row) for row in rows]


def load_request(connection: Connection, request: str) -> DeviceRequest | None:
    """Return a request in any state."""
    row = connection.execute(f"SELECT {_REQUEST} FROM device_requests WHERE id = ?", (request,)).fetchone()
    return _request(row) if row else None


def ask_device(
    connection: Connection, request: DeviceRequest, now: int
) -> tuple[DeviceRequest, Sequence[DeviceRequest]]:
    """Store a request; see `DeviceStore.ask_device`."""
    connection.execute("DELETE FROM device_requests WHERE expires_at < ?", (now - KEEP_DECIDED,))
    pending = pending_requests(connection, now)
    own = [item for item in pending if item.device == request.device]
    for item in own:
        if (item.role, item.scopes, item.public_key) == (request.role, request.scopes, request.public_key):
            return item, []
    others = [item for item in pending if item.device != request.device]
    given_way = own + others[: max(0, len(others) - MAX_PENDING + 1)]
    connection.executemany(
        "UPDATE device_requests SET decision = 'rejected' WHERE id = ?", [(item.id,) for item in given_way]
    )
    connection.execute(
        f"INSERT INTO device_requests({_REQUEST}) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
        (
            request.id,
            request.device,
            request.public_key,
            dump_json(astuple(request.about)),
            request.role,
            dump_json(request.scopes),
            request.remote_ip,
            request.is_repair,
            request.created_at,
            request.expires_at,
            request.decision,
        ),
    )
    return request, given_way


def settle_request(
    connection: Connection,
    request: str,
    decision: str,
    change: Callable[[DeviceRequest, Device | None], Device | None] | None,
    now: int,
) -> tuple[DeviceRequest, Device | None] | None:
    """Decide a pending request once; see `DeviceStore.settle_device_request`."""
    row = connection.execute(
        "UPDATE device_requests SET decision = ? WHERE id = ? AND decision = '' AND expires_at > ?"
        f" RETURNING {_REQUEST}",
        (decision, request, now),
    ).fetchone()
    if row is None:
        return None
    found = _request(row)
    if change is None:
        return found, load_device(connection, found.device)
    return found, change_device(connection, found.device, lambda device: change(found, device))


def take_setup_code(connection: Connection, digest: str, now: int) -> SetupCode | None:
    """Use a setup code up."""
    connection.execute("DELETE FROM setup_codes WHERE expires_at <= ?", (now,))
    row = connection.execute(
        "DELETE FROM setup_codes WHERE digest = ? RETURNING digest, role, scopes, expires_at", (digest,)
    ).fetchone()
    return SetupCode(row[0], row[1], _names(row[2]), row[3]) if row else None


def claim_key(connection: Connection, where: tuple[str, str, str], response: str, now: int) -> str | None:
    """Store a response under a key once; see `IdempotencyStore.claim_key`."""
    connection.execute("DELETE FROM request_keys WHERE created_at < ?", (now - KEEP_KEYS,))
    done = connection.execute("INSERT OR IGNORE INTO request_keys VALUES (?,?,?,?,?)", (*where, response, now))
    return None if done.rowcount else recall_key(connection, where)


def settle_key(connection: Connection, where: tuple[str, str, str], response: str) -> None:
    """Replace the stored response of a key."""
    sql = "UPDATE request_keys SET response = ? WHERE caller = ? AND method = ? AND key = ?"
    connection.execute(sql, (response, *where))


def recall_key(connection: Connection, where: tuple[str, str, str]) -> str | None:
    """Return the response of a key."""
    row = connection.execute(
        "SELECT response FROM request_keys WHERE caller = ? AND method = ? AND key = ?", where
    ).fetchone()
    return row[0] if row else None


def load_attempts(connection: Connection) -> list[Attempts]:
    """Return wrong secrets, the newest first."""
    rows = connection.execute(
        "SELECT address, kind, failures, locked_until, updated_at FROM auth_attempts"
        " ORDER BY updated_at DESC, address, kind LIMIT ?",
        (MAX_ATTEMPTS,),
    )
    return [Attempts(row[0], row[1], tuple(json.loads(row[2])), row[3], row[4]) for row in rows]


def put_attempts(connection: Connection, attempts: Attempts, oldest: int) -> None:
    """Keep the wrong secrets of an address; see `AttemptStore.put_attempts`."""
    row = (attempts.address, attempts.kind, dump_json(attempts.failures), attempts.locked_until, attempts.updated_at)
    connection.execute("INSERT OR REPLACE INTO auth_attempts VALUES (?,?,?,?,?)", row)
    connection.execute("DELETE FROM auth_attempts WHERE updated_at < ?", (oldest,))
    # Counting is cheap here: the table is small, and wrong secrets are rare or slowed down.
    (count,) = connection.execute("SELECT count(*) FROM auth_attempts").fetchone()
    if count > MAX_ATTEMPTS:
        connection.execute(
            "DELETE FROM auth_attempts WHERE (address, kind) IN"
            " (SELECT address, kind FROM auth_attempts ORDER BY updated_at, address DESC, kind DESC LIMIT ?)",
            (count - MAX_ATTEMPTS,),
        )


class SqliteDevices:
    """The part of the store that is about devices; see `DeviceStore`, `IdempotencyStore` and `AttemptStore`."""

    _writer: Writer
    _clock: Clock

    async def devices(self) -> Sequence[Device]:
        """See `DeviceStore`."""
        return await self._writer.run(load_devices)

    async def device(self, device: str) -> Device | None:
        """See `DeviceStore`."""
        return await self._writer.run(lambda c: load_device(c, device))

    async def change_device(self, device: str, change: ChangeDevice) -> Device | None:
        """See `DeviceStore`."""
        return await self._writer.run(lambda c: change_device(c, device, change))

    async def device_requests(self) -> Sequence[DeviceRequest]:
        """See `DeviceStore`."""
        now = self._clock.now()
        return await self._writer.run(lambda c: pending_requests(c, now))

    async def device_request(self, request: str) -> DeviceRequest | None:
        """See `DeviceStore`."""
        return await self._writer.run(lambda c: load_request(c, request))

    async def ask_device(self, request: DeviceRequest) -> tuple[DeviceRequest, Sequence[DeviceRequest]]:
        """See `DeviceStore`."""
        now = self._clock.now()
        return await self._writer.run(lambda c: ask_device(c, request, now))

    async def settle_device_request(
        self, request: str, decision: str, change: Callable[[DeviceRequest, Device | None], Device | None] | None
    ) -> tuple[DeviceRequest, Device | None] | None:
        """See `DeviceStore`."""
        now = self._clock.now()
        return await self._writer.run(lambda c: settle_request(c, request, decision, change, now))

    async def add_setup_code(self, code: SetupCode) -> None:
        """See `DeviceStore`."""
        row = (code.digest, code.role, dump_json(code.scopes), code.expires_at)
        await self._writer.run(lambda c: c.execute("INSERT INTO setup_codes VALUES (?,?,?,?)", row) and None)

    async def take_setup_code(self, digest: str) -> SetupCode | None:
        """See `DeviceStore`."""
        now = self._clock.now()
        return await self._writer.run(lambda c: take_setup_code(c, digest, now))

    async def claim_key(self, caller: str, method: str, key: str, response: str) -> str | None:
        """See `IdempotencyStore`."""
        now = self._clock.now()
        return await self._writer.run(lambda c: claim_key(c, (caller, method, key), response, now))

    async def settle_key(self, caller: str, method: str, key: str, response: str) -> None:
        """See `IdempotencyStore`."""
        await self._writer.run(lambda c: settle_key(c, (caller, method, key), response))

    async def recall_key(self, caller: str, method: str, key: str) -> str | None:
        """See `IdempotencyStore`."""
        return await self._writer.run(lambda c: recall_key(c, (caller, method, key)))

    async def attempts(self) -> Sequence[Attempts]:
        """See `AttemptStore`."""
        return await self._writer.run(load_attempts)

    async def put_attempts(self, attempts: Attempts, oldest: int) -> None:
        """See `AttemptStore`."""
        await self._writer.run(lambda c: put_attempts(c, attempts, oldest))

    async def forget_attempts(self, address: str, kind: str) -> None:
        """See `AttemptStore`."""
        sql = "DELETE FROM auth_attempts WHERE address = ? AND kind = ?"
        await self._writer.run(lambda c: c.execute(sql, (address, kind)) and None)
