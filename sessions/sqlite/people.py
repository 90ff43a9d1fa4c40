"""Transactions about people and model keys: pairing, owners, contacts, cool-downs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from sqlite3 import Connection

from tidegate.events import Address
from tidegate.sessions.codec import dump_json
from tidegate.sessions.model import PairingRequest

_REQUEST = "channel, account, sender, name, code, created_at, expires_at"


def request_pairing(
    connection: Connection, request: PairingRequest, address: Address, limit: int, now: int
) -> PairingRequest | None:
    """Store a pairing request and return it; None when one is pending already or `limit` are pending."""
    connection.execute("DELETE FROM pairing_requests WHERE expires_at <= ?", (now,))
    where = (request.channel, request.account)
    pending = connection.execute(
        "SELECT sender FROM pairing_requests WHERE channel = ? AND account = ?", where
    ).fetchall()
    if len(pending) >= limit or (request.sender,) in pending:
        return None
    taken = connection.execute("SELECT 1 FROM pairing_requests WHERE code = ?", (request.code,)).fetchone()
    if taken:
        return None
    connection.execute(
        f"INSERT INTO pairing_requests({_REQUEST}, address) VALUES (?,?,?,?,?,?,?,?)",
        (
            request.channel,
            request.account,
            request.sender,
            request.name,
            request.code,
            request.created_at,
            request.expires_at,
            dump_json([address.channel, address.account, address.chat, address.thread]),
        ),
    )
    return request


def pairing_requests(connection: Connection, now: int) -> list[PairingRequest]:
    """Return the requests that have not expired, oldest first."""
    rows = connection.execute(
        f"SELECT {_REQUEST} FROM pairing_requests WHERE expires_at > ? ORDER BY created_at", (now,)
    ).fetchall()
    return [PairingRequest(*row) for row in rows]


def approve_pairing(
    connection: Connection, channel: str, code: str, may_own: bool, now: int
) -> tuple[PairingRequest, Address, bool] | None:
    """Admit the sender of a request; see `PeopleStore.approve_pairing`."""
    row = _take_request(connection, channel, code, now)
    if row is None:
        return None
    request, address = row
    connection.execute(
        "INSERT OR REPLACE INTO allowed_senders(channel, account, sender, name, added_at) VALUES (?,?,?,?,?)",
        (request.channel, request.account, request.sender, request.name, now),
    )
    becomes_owner = may_own and connection.execute("SELECT 1 FROM owners LIMIT 1").fetchone() is None
    if becomes_owner:
        identity = f"{request.channel}:{request.sender}"
        connection.execute(
            "INSERT INTO owners(identity, added_at, reason) VALUES (?,?,'first pairing')", (identity, now)
        )
        note_contact(connection, identity, address, now)
    return request, address, becomes_owner


def reject_pairing(connection: Connection, channel: str, code: str, now: int) -> PairingRequest | None:
    """Forget a request and return it."""
    row = _take_request(connection, channel, code, now)
    return row[0] if row else None


def _take_request(connection: Connection, channel: str, code: str, now: int) -> tuple[PairingRequest, Address] | None:
    row = connection.execute(
        f"DELETE FROM pairing_requests WHERE channel = ? AND code = ? AND expires_at > ? RETURNING {_REQUEST}, address",
        (channel, code.strip().upper(), now),
    ).fetchone()
    if row is None:
        return None
    return PairingRequest(*row[:7]), Address(*json.loads(row[7]))


def allowed_senders(connection: Connection) -> Mapping[tuple[str, str], frozenset[str]]:
    """Return the admitted sender ids per (channel, account)."""
    found: dict[tuple[str, str], set[str]] = {}
    for channel, account, sender in connection.execute("SELECT channel, account, sender FROM allowed_senders"):
        found.setdefault((channel, account), set()).add(sender)
    return {where: frozenset(senders) for where, senders in found.items()}


def owners(connection: Connection) -> frozenset[str]:
    """Return the owner identities that pairing bootstrapped."""
    return frozenset(row[0] for row in connection.execute("SELECT identity FROM owners"))


def note_contact(connection: Connection, identity: str, address: Address, now: int) -> None:
    """Remember the direct chat of an owner."""
    connection.execute(
        "INSERT INTO contacts(identity, address, seen_at) VALUES (?,?,?)"
        " ON CONFLICT(identity) DO UPDATE SET address = excluded.address, seen_at = excluded.seen_at",
        (identity, dump_json([address.channel, address.account, address.chat, address.thread]), now),
    )


def contacts(connection: Connection) -> Mapping[str, Address]:
    """Return the remembered direct chats per identity, the most recent first."""
    rows = connection.execute("SELECT identity, address FROM contacts ORDER BY seen_at DESC").fetchall()
    return {identity: Address(*json.loads(address)) for identity, address in rows}


def put_cooldown(
    connection: Connection, provider: str, model: str, credential: str, until: int, failures: int, reason: str
) -> None:
    """Store when a model key may be used again; 0 forgets it."""
    where = (provider, model, credential)
    if not until:
        connection.execute("DELETE FROM cooldowns WHERE provider = ? AND model = ? AND credential = ?", where)
        return
    connection.execute(
        "INSERT OR REPLACE INTO cooldowns(provider, model, credential, until_at, failures, reason)"
        " VALUES (?,?,?,?,?,?)",
        (*where, until, failures, reason),
    )
