"""Who this machine is to gateways elsewhere: an Ed25519 key, and the token that each gateway gave it.

Both are files of mode 0600 in `<state>/client/`. A key that others could read is not used: it must be taken as known.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate.gateway.client.errors import ClientError
from tidegate.gateway.plane.identity import KEY_BYTES, Statement, device_id, encode_key
from tidegate.ids import new_id

FOLDER, KEY_FILE, TOKEN_FILE = "client", "device.json", "tokens.json"
MAX_FILE = 1 << 20
MAX_GATEWAYS = 200


class BadIdentity(ClientError):
    """The stored identity cannot be used."""


class DeviceKey:
    """The key pair of this device.

    Attributes:
        id: SHA-256 of the public key.
        public: The public key, in base64url.
    """

    def __init__(self, seed: bytes) -> None:
        # Loaded when a connection is made: the library costs a start more than it is worth before that.
        from Crypto.Signature import eddsa  # noqa: PLC0415

        self._key = eddsa.import_private_key(seed)
        raw = bytes(self._key.public_key().export_key(format="raw"))
        self.id = device_id(raw)
        self.public = encode_key(raw)

    def sign(self, statement: Statement) -> str:
        """Return the signature of a statement, in version 3."""
        from Crypto.Signature import eddsa  # noqa: PLC0415

        return encode_key(eddsa.new(self._key, "rfc8032").sign(statement.text("v3").encode()))


@dataclass(frozen=True, slots=True)
class StoredToken:
    """What a gateway gave this device.

    Attributes:
        scopes: What the token was last known to reach.
    """

    token: str = field(repr=False)
    scopes: tuple[str, ...] = ()


class Identity:
    """The stored identity of this machine's user.

    Args:
        state_dir: Where Tidegate keeps its things; nothing is made before it is needed.
    """

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / FOLDER

    def key(self) -> DeviceKey:
        """Return the device's key; it is made at the first use.

        Raises:
            BadIdentity: The file is damaged, or others can read it.
        """
        path = self._folder / KEY_FILE
        data = _read(path)
        if data is None:
            data = self._make_key(path)
        try:
            seed = base64.b64decode(str(data["seed"]), validate=True)
            if data.get("version") != 1 or len(seed) != KEY_BYTES:
                raise ValueError
        except (KeyError, ValueError):
            raise BadIdentity(f"{path} is damaged: delete it, and pair this device anew") from None
        return DeviceKey(seed)

    def _make_key(self, path: Path) -> dict[str, Any]:
        made = {"version": 1, "seed": base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}
        with self._written(path, made) as draft:
            try:
                # A link fails when somebody else was quicker: then theirs counts.
                os.link(draft, path)
            except FileExistsError:
                return _read(path) or made
        return made

    def token(self, url: str) -> StoredToken | None:
        """Return what a gateway gave us. Raises BadIdentity."""
        row = self._tokens().get(url)
        if not isinstance(row, Mapping) or not isinstance(row.get("token"), str):
            return None
        scopes = row.get("scopes")
        return StoredToken(row["token"], tuple(map(str, scopes)) if isinstance(scopes, list) else ())

    def _tokens(self) -> dict[str, Any]:
        path = self._folder / TOKEN_FILE
        data = _read(path)
        if data is None:
            return {}
        if data.get("version") != 1 or not isinstance(data.get("gateways"), dict):
            raise BadIdentity(
                f"{path} is damaged: delete it; gateways give their tokens anew to who shows their secret"
            )
        return dict(data["gateways"])

    def keep(self, url: str, token: StoredToken) -> None:
        """Remember what a gateway gave us. Raises BadIdentity."""
        self._change(url, {"token": token.token, "scopes": list(token.scopes)})

    def forget(self, url: str) -> None:
        """Forget what a gateway gave us. Raises BadIdentity."""
        self._change(url, None)

    def _change(self, url: str, row: dict[str, Any] | None) -> None:
        path = self._folder / TOKEN_FILE
        _make_folder(self._folder)
        lock = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            gateways = self._tokens()
            if gateways.get(url) == row:
                return
            gateways.pop(url, None)
            if row is not None:
                gateways[url] = row
            while len(gateways) > MAX_GATEWAYS:
                del gateways[next(iter(gateways))]
            with self._written(path, {"version": 1, "gateways": gateways}) as draft:
                os.replace(draft, path)
        finally:
            os.close(lock)

    @contextmanager
    def _written(self, path: Path, data: Mapping[str, Any]) -> Iterator[Path]:
        """Write a draft beside a file that only this user can read; what is left of it at the end goes away."""
        _make_folder(self._folder)
        draft = path.with_name(f".{path.name}.{new_id()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(dict(data), file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            yield draft
        finally:
            draft.unlink(missing_ok=True)


def _make_folder(folder: Path) -> None:
    # The mode counts for the last folder only, so the state directory comes first.
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)


def _read(path: Path) -> dict[str, Any] | None:
    """Return what a file holds, or None when there is none.

    Raises:
        BadIdentity: Others can read it, or it holds something else.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & 0o077:
                raise BadIdentity(
                    f"{path} can be read by others (mode {mode & 0o777:o}): if nobody has, `chmod 600` it; "
                    "else delete it, and have the device removed from its gateways"
                )
            raw = file.read(MAX_FILE)
    except FileNotFoundError:
        return None
    try:
        data = json.loads(raw)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise BadIdentity(f"{path} is damaged: delete it, and pair this device anew")
    return data
