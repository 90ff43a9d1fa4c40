"""Device identities: Ed25519 keys (RFC 8032) and the text that a device signs when it connects."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

KEY_BYTES = 32
USER_AT_HOST = re.compile(r"[\w.-]{1,64}@[\w.-]{1,64}")
"""What our command line calls the machine that it runs on, in `client.instanceId`."""


class BadKey(ValueError):
    """A public key that is none."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What a device signs.

    Attributes:
        scopes: In the order in which they were sent.
        signed_at: Milliseconds since 1970.
        token: The secret that is sent along, or empty.
    """

    device: str
    client_id: str
    client_mode: str
    role: str
    scopes: Sequence[str]
    signed_at: int
    token: str
    nonce: str
    platform: str = ""
    device_family: str = ""

    def text(self, version: str) -> str:
        """Return the signed text, version `v2` or `v3`."""
        fields = [
            version,
            self.device,
            self.client_id,
            self.client_mode,
            self.role,
            ",".join(self.scopes),
            str(self.signed_at),
            self.token,
            self.nonce,
        ]
        if version == "v3":
            fields += [_plain(self.platform), _plain(self.device_family)]
        return "|".join(fields)


def _plain(text: str) -> str:
    """Trim, and lower A-Z only: other letters are lowered differently from language to language."""
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text.strip())


def read_public_key(text: str) -> bytes:
    """Return the 32 bytes of a key in base64url, base64 or PEM. Raises BadKey."""
    if "BEGIN PUBLIC KEY" in text:
        body = "".join(line for line in text.splitlines() if "-----" not in line)
        raw = _decode(body)
        # SubjectPublicKeyInfo of Ed25519 (RFC 8410): a fixed head of 12 bytes and the key.
        if len(raw) != 12 + KEY_BYTES or raw[:12] != bytes.fromhex("302a300506032b6570032100"):
            raise BadKey("not an Ed25519 key")
        return raw[12:]
    raw = _decode(text)
    if len(raw) != KEY_BYTES:
        raise BadKey("not 32 bytes")
    return raw


def _decode(text: str) -> bytes:
    plain = text.strip().rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadKey("not base64") from error


def encode_key(raw: bytes) -> str:
    """Return bytes in base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def device_id(public_key: bytes) -> str:
    """Return the id of the device that has a key."""
    return hashlib.sha256(public_key).hexdigest()


def is_signed(statement: Statement, signature: str, public_key: bytes) -> bool:
    """Return whether the holder of a key signed a statement, in version 3 or 2."""
    # Loaded when the first device connects: the library costs a start more than it is worth before that.
    from Crypto.Signature import eddsa  # noqa: PLC0415

    try:
        raw = _decode(signature)
        verifier = eddsa.new(eddsa.import_public_key(public_key), "rfc8032")
    except ValueError:
        return False
    for version in ("v3", "v2"):
        try:
            verifier.verify(statement.text(version).encode("utf-8", "surrogatepass"), raw)
        except ValueError:
            continue
        return True
    return False
