"""One thread that owns the writing connection and runs whole transactions, many to a commit.

Callers hand over a function of the connection. Everything that waits when the thread is free runs inside one
transaction, each function behind a savepoint of its own, and one `fsync` makes all of it durable. So a
promise costs one hop between threads and a share of a commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tidegate.errors import StoreCorrupt, StoreUnavailable, TidegateError
from tidegate.faults import CrashPoint, Faults
from tidegate.sessions.schema.migrate import check_integrity, damage_text, is_damage, migrate

Result = TypeVar("Result")

MAX_GROUP = 128
"""Most transactions that share one commit."""
MAX_PENDING = 10_000
"""Most transactions that may wait; more are refused with StoreUnavailable."""
CHECKPOINT_PAGES = 256
"""Pages of write-ahead log after which SQLite folds it into the database: keeps the file pair small."""
CHECK_AT_START_BYTES = 64 * 1024 * 1024
"""Databases up to this size are checked at every start; larger ones by `tidegate doctor`."""


@dataclass(slots=True)
class _Job:
    work: Callable[[sqlite3.Connection], Any]
    points: tuple[CrashPoint, ...]
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None


class Writer:
    """The only writer of the database.

    Args:
        path: The database file; its directory must exist. None keeps everything in memory.
        faults: Told about each commit point that was passed.
    """

    def __init__(self, path: Path | None, faults: Faults) -> None:
        self._path = path
        self._faults = faults
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = True

    async def open(self) -> None:
        """Open the file, check it, bring its schema up to date and start the thread.

        Raises:
            StoreCorrupt: The file is damaged.
            StoreUnavailable: It cannot be opened, or a newer program wrote it.
        """
        self._loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._main, args=(ready,), name="store-writer", daemon=True)
        self._thread.start()
        await ready
        self._closed = False

    async def close(self) -> None:
        """Finish what was handed over, fold the log into the database and stop the thread."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        assert self._thread is not None
        await asyncio.to_thread(self._thread.join)

    async def run(self, work: Callable[[sqlite3.Connection], Result], *points: CrashPoint) -> Result:
        """Run `work` in a transaction and return its result once that is durable.

        Cancelling the caller does not undo the work: it may still become durable.

        Raises:
            StoreUnavailable: The store is closed, overloaded, or the commit failed (disk full).
            Whatever `work` raises; then nothing of it was stored.
        """
        if self._closed or self._loop is None:
            raise StoreUnavailable("the store is closed")
        if self._jobs.qsize() >= MAX_PENDING:
            raise StoreUnavailable(f"{MAX_PENDING} transactions wait for the disk")
        future: asyncio.Future[Result] = self._loop.create_future()
        self._jobs.put(_Job(work, points, future))
        return await future

    def _main(self, ready: asyncio.Future[None]) -> None:
        assert self._loop is not None
        try:
            connection = self._connect()
        except (sqlite3.Error, OSError, TidegateError) as error:
            self._loop.call_soon_threadsafe(ready.set_exception, self._failure(error))
            return
        self._loop.call_soon_threadsafe(ready.set_result, None)
        try:
            while (job := self._jobs.get()) is not None:
                group, ended = self._take_group(job)
                self._commit(connection, group)
                self._loop.call_soon_threadsafe(_resolve, group)
                if ended:
                    break
        finally:
            with contextlib.suppress(sqlite3.Error):
                # Only statistics for the query planner; a full disk must not keep us from closing.
                connection.execute("PRAGMA optimize")
            connection.close()

    def _failure(self, error: Exception) -> Exception:
        """Return what the caller is told: an error of SQLite never leaves the store as it is."""
        if isinstance(error, sqlite3.Error) and is_damage(error):
            return StoreCorrupt(damage_text(self._path, str(error)))
        if isinstance(error, sqlite3.Error | OSError):
            return StoreUnavailable(f"{self._path or 'memory'}: {error}")
        return error

    def _connect(self) -> sqlite3.Connection:
        if self._path is not None:
            # SQLite gives its log and index the rights of the database file, so those must be right from the start.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._path.chmod(0o600)
        connection = sqlite3.connect(self._path or ":memory:", isolation_level=None, cached_statements=256)
        try:
            if self._path is not None and self._path.stat().st_size <= CHECK_AT_START_BYTES:
                check_integrity(connection, self._path)
            connection.execute("PRAGMA journal_mode = WAL")
            # A promise must outlive a power cut, not only a crash of the process.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            connection.execute("PRAGMA cache_size = -4096")
            connection.execute("PRAGMA temp_store = MEMORY")
            migrate(connection, self._path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _take_group(self, first: _Job) -> tuple[list[_Job], bool]:
        group = [first]
        while len(group) < MAX_GROUP:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return group, False
            if job is None:
                return group, True
            group.append(job)
        return group, False

    def _commit(self, connection: sqlite3.Connection, group: list[_Job]) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job in group:
                self._run_one(connection, job, alone=len(group) == 1)
            if connection.in_transaction:
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                # When even this fails, the next group's BEGIN fails and tries again: the thread must live on.
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            failure = self._failure(error)
            for job in group:
                job.error = job.error or failure
            return
        for job in group:
            if job.error is None:
                for point in job.points:
                    self._faults.reached(point)

    def _run_one(self, connection: sqlite3.Connection, job: _Job, *, alone: bool) -> None:
        """Run one job so that its failure undoes its own writes and nothing else."""
        if not alone:
            connection.execute("SAVEPOINT job")
        try:
            job.result = job.work(connection)
        except Exception as error:
            # Handed to the caller, whose work it is.
            job.error = self._failure(error)
            if not connection.in_transaction:
                # SQLite gave up the whole transaction (disk full), so nobody's writes of this group remain.
                raise sqlite3.OperationalError(f"the transaction was undone: {error}") from error
            connection.execute("ROLLBACK" if alone else "ROLLBACK TO job")
        if not alone:
            connection.execute("RELEASE job")


def _resolve(group: list[_Job]) -> None:
    for job in group:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
