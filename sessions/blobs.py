"""Files that came with messages or go out with them, stored once by the hash of their content."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

from tidegate.errors import StoreUnavailable
from tidegate.ids import new_id

PREFIX = "sha256:"


class BlobStore:
    """Content-addressed files under one directory: `<root>/ab/cdef…`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def put(self, content: bytes) -> str:
        """Store content durably and return its address. Storing it again changes nothing.

        Raises:
            StoreUnavailable: The disk did not take it.
        """
        try:
            return await asyncio.to_thread(self._write, content)
        except OSError as error:
            raise StoreUnavailable(f"{self._root}: {error}") from error

    async def load(self, blob: str) -> bytes:
        """Return the content. Raises StoreUnavailable when it is not there."""
        try:
            return await asyncio.to_thread(self.path(blob).read_bytes)
        except OSError as error:
            raise StoreUnavailable(f"{blob}: {error}") from error

    def path(self, blob: str) -> Path:
        """Return where the content of `blob` lies. Raises ValueError for something that is no address."""
        digest = blob.removeprefix(PREFIX)
        if not blob.startswith(PREFIX) or len(digest) != 64 or not all(c in "0123456789abcdef" for c in digest):
            raise ValueError(f"not a blob address: {blob!r}")
        return self._root / digest[:2] / digest[2:]

    def _write(self, content: bytes) -> str:
        blob = PREFIX + hashlib.sha256(content).hexdigest()
        path = self.path(blob)
        if path.exists():
            return blob
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = path.with_name(f".{new_id()}")
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        _sync_directory(path.parent)
        return blob


def _sync_directory(path: Path) -> None:
    """Make the names in a directory durable: without it a power cut may take a file whose content is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
