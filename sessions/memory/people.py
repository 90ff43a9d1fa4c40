"""Transactions about people in memory; the twin of `sqlite/people.py`."""

from __future__ import annotations

from tidegate.events import Address
from tidegate.sessions.memory.tables import Tables
from tidegate.sessions.model import PairingRequest


def request_pairing(tables: Tables, request: PairingRequest, address: Address, limit: int, now: int) -> bool:
    """Store a pairing request; False when one is pending already or `limit` are pending."""
    for key, (pending, _) in list(tables.requests.items()):
        if pending.expires_at <= now:
            del tables.requests[key]
    where = (request.channel, request.account)
    of_account = [key for key in tables.requests if key[:2] == where]
    taken = any(pending.code == request.code for pending, _ in tables.requests.values())
    if len(of_account) >= limit or (*where, request.sender) in tables.requests or taken:
        return False
    tables.requests[*where, request.sender] = (request, address)
    return True


def pairing_requests(tables: Tables, now: int) -> list[PairingRequest]:
    """Return the requests that have not expired, oldest first."""
    pending = [request for request, _ in tables.requests.values() if request.expires_at > now]
    return sorted(pending, key=lambda request: request.created_at)


def take_request(tables: Tables, channel: str, code: str, now: int) -> tuple[PairingRequest, Address] | None:
    """Remove a pending request and return it with its chat."""
    for key, (request, address) in list(tables.requests.items()):
        if request.channel == channel and request.code == code.strip().upper() and request.expires_at > now:
            del tables.requests[key]
            return request, address
    return None


def approve_pairing(
    tables: Tables, channel: str, code: str, may_own: bool, now: int
) -> tuple[PairingRequest, Address, bool] | None:
    """Admit the sender of a request."""
    found = take_request(tables, channel, code, now)
    if found is None:
        return None
    request, address = found
    tables.allowed[request.channel, request.account, request.sender] = request.name
    becomes_owner = may_own and not tables.owners
    if becomes_owner:
        identity = f"{request.channel}:{request.sender}"
        tables.owners[identity] = now
        tables.contacts[identity] = (address, now)
    return request, address, becomes_owner
