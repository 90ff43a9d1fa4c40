"""Tokens of devices: made from a secret of this gateway, never stored.

What the store knows of a token is its digest, and a random generation from which, with the secret, its text follows.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import replace

from tidegate.gateway.plane.contract import Role
from tidegate.sessions.devices import Device, DeviceRequest, DeviceToken


def digest_of(token: str) -> str:
    """Return what is stored of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class TokenMint:
    """Makes tokens, and devices with what they were given.

    Args:
        key: The secret of this gateway.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def granted(self, request: DeviceRequest, found: Device | None, via: str, now: int) -> Device:
        """Return a device with what a request asked for; its token for that role becomes another one."""
        if found is not None and found.public_key != request.public_key:
            found = None
        old = found.token(request.role) if found is not None else None
        scopes = _joined(old.scopes if old is not None and not old.revoked_at else (), request.scopes)
        created = old.created_at if old is not None else now
        token = self._new_token(request.device, request.role, scopes, created)
        if old is not None:
            token = replace(token, rotated_at=now, used_at=old.used_at)
        if found is None:
            operator = scopes if request.role == Role.OPERATOR else ()
            return Device(
                request.device,
                request.public_key,
                request.about,
                (request.role,),
                operator,
                via,
                now,
                now,
                tokens=(token,),
            )
        operator = scopes if request.role == Role.OPERATOR else found.scopes
        about = replace(request.about, name=request.about.name, label=found.about.label)
        # A node that lost its rights once has to be approved anew in all it offers.
        fresh = request.role == Role.NODE and (old is None or old.revoked_at)
        return replace(
            found,
            node=None if fresh else found.node,
            about=about,
            roles=_joined(found.roles, (request.role,)),
            scopes=operator,
            approved_via=via,
            approved_at=now,
            tokens=(*(t for t in found.tokens if t.role != request.role), token),
        )

    def renewed(self, device: str, old: DeviceToken, now: int) -> DeviceToken:
        """Return a token with the same rights and another text."""
        return replace(
            self._new_token(device, old.role, old.scopes, old.created_at), rotated_at=now, used_at=old.used_at
        )

    def _new_token(self, device: str, role: str, scopes: tuple[str, ...], created: int) -> DeviceToken:
        # The generation is random, not counted: a device that is removed and paired again gets no old token back.
        token = DeviceToken(role, scopes, secrets.token_urlsafe(16), "", created)
        return replace(token, digest=digest_of(self.text(device, token)))

    def text(self, device: str, token: DeviceToken) -> str:
        """Return the token itself, for its own device only."""
        message = f"{device}|{token.role}|{token.generation}".encode()
        return base64.urlsafe_b64encode(hmac.digest(self._key, message, "sha256")).rstrip(b"=").decode()


def _joined(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *new)))
