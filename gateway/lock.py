"""One gateway a state directory: the lock that makes the boot id the owner of every turn."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tidegate.errors import TidegateError
from tidegate.gateway.program import hint

ATTEMPTS = 5
ATTEMPT_SECONDS = 0.1


class AlreadyRunning(TidegateError):
    """Another process holds the state directory.

    Attributes:
        pid: Its process id, 0 when unknown.
    """

    def __init__(self, path: Path, pid: int) -> None:
        super().__init__(
            f"another gateway (pid {pid or 'unknown'}) uses {path.parent}. "
            f"Talk to it with {hint('chat')}, stop it, or give this one its own --state-dir."
        )
        self.pid = pid


class StateLock:
    """An exclusive lock on the state directory, held until the process ends, however it ends."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "gateway.lock"
        self._file: int | None = None

    def __enter__(self) -> Self:
        """Take the lock. Raises AlreadyRunning."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(descriptor)
        except OSError as error:
            pid = _read_pid(descriptor)
            os.close(descriptor)
            raise AlreadyRunning(self._path, pid) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid()}).encode(), 0)
        self._file = descriptor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the lock back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _lock(descriptor: int) -> None:
    """Lock the file, waiting a moment for a command that holds it only while it looks into the store."""
    for _ in range(ATTEMPTS - 1):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(ATTEMPT_SECONDS)
        else:
            return
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _read_pid(descriptor: int) -> int:
    try:
        return int(json.loads(os.pread(descriptor, 200, 0) or b"{}").get("pid", 0))
    except (ValueError, AttributeError):
        return 0
