"""Group commit: jobs share a commit and nothing else."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.errors import LeaseLost, StoreCorrupt, StoreUnavailable
from tidegate.faults import CrashPoint, Faults
from tidegate.sessions.sqlite import writer as writer_module
from tidegate.sessions.sqlite.writer import Writer

Test = Callable[[Writer], Awaitable[None]]


class Points(Faults):
    """Remembers which commit points were passed."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[CrashPoint] = []

    def reached(self, point: CrashPoint) -> None:
        """Remember a point."""
        self.passed.append(point)


def with_writer(test: Test, path: Path | None = None, faults: Faults | None = None) -> None:
    """Run a test with an open writer that has one table."""

    async def run() -> None:
        writer = Writer(path, faults or Faults())
        await writer.open()
        try:
            await writer.run(lambda c: c.execute("CREATE TABLE IF NOT EXISTS t(n INTEGER UNIQUE, big BLOB)"))
            await test(writer)
        finally:
            await writer.close()

    asyncio.run(run())


def insert(number: int) -> Callable[[sqlite3.Connection], int]:
    """Return a job that stores a number."""

    def work(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO t(n) VALUES (?)", (number,))
        return number

    return work


def stored(connection: sqlite3.Connection) -> set[int]:
    """Return the numbers that are stored."""
    return {row[0] for row in connection.execute("SELECT n FROM t")}


class Held:
    """Keeps the writer's thread busy, so that what follows becomes one group."""

    def __init__(self) -> None:
        self._gate = threading.Event()

    def __call__(self, _connection: sqlite3.Connection) -> None:
        self._gate.wait(10)

    def let_go(self) -> None:
        """Go on."""
        self._gate.set()


async def together(writer: Writer, *jobs: Callable[[sqlite3.Connection], Any]) -> list[Any]:
    """Run jobs in one group; returns results and errors in their order."""
    held = Held()

    async def one(job: Callable[[sqlite3.Connection], Any]) -> Any:
        try:
            return await writer.run(job)
        except Exception as error:
            return error

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(job)) for job in (held, *jobs)]
        await asyncio.sleep(0)
        held.let_go()
    return [task.result() for task in tasks[1:]]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["ok", "raise", "sql", "partial"]), min_size=1, max_size=12))
def test_a_job_that_fails_harms_no_other(kinds: list[str]) -> None:
    def job(index: int, kind: str) -> Callable[[sqlite3.Connection], int]:
        def work(connection: sqlite3.Connection) -> int:
            if kind != "raise":
                connection.execute("INSERT INTO t(n) VALUES (?)", (index,))
            if kind == "sql":
                connection.execute("INSERT INTO t(n) VALUES (?)", (index,))
            if kind != "ok":
                raise LeaseLost(kind)
            return index

        return work

    async def test(writer: Writer) -> None:
        answers = await together(writer, *(job(index, kind) for index, kind in enumerate(kinds)))
        for index, kind in enumerate(kinds):
            expected = {"ok": int, "sql": StoreUnavailable}.get(kind, LeaseLost)
            assert type(answers[index]) is expected
        good = {index for index, kind in enumerate(kinds) if kind == "ok"}
        assert await writer.run(stored) == good

    with_writer(test)


def test_an_error_of_sqlite_reaches_the_caller_as_store_unavailable() -> None:
    async def test(writer: Writer) -> None:
        with pytest.raises(StoreUnavailable, match="no such table"):
            await writer.run(lambda c: c.execute("SELECT * FROM nowhere"))
        await writer.run(insert(1))
        with pytest.raises(StoreUnavailable, match="UNIQUE"):
            await writer.run(insert(1))

    with_writer(test)


def test_a_commit_that_fails_fails_every_job_of_its_group_and_no_later_one() -> None:
    points = Points()

    async def test(writer: Writer) -> None:
        def breaks_the_commit(connection: sqlite3.Connection) -> None:
            connection.execute("PRAGMA defer_foreign_keys = ON")
            connection.execute("INSERT INTO child VALUES (1)")

        await writer.run(_parent_and_child)
        answers = await together(writer, insert(1), breaks_the_commit, insert(2))
        assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
        assert await writer.run(stored) == set()
        assert await writer.run(insert(3), CrashPoint.EVENT_STORED) == 3

    with_writer(test, faults=points)
    assert points.passed == [CrashPoint.EVENT_STORED]


def _parent_and_child(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE parent(id INTEGER PRIMARY KEY)")
    connection.execute("CREATE TABLE child(p INTEGER REFERENCES parent(id) DEFERRABLE INITIALLY DEFERRED)")
    # Allowed only outside a transaction.
    connection.execute("COMMIT")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("BEGIN")


def test_commit_points_are_told_only_for_what_is_durable() -> None:
    points = Points()

    async def test(writer: Writer) -> None:
        await writer.run(insert(1), CrashPoint.EVENT_STORED)
        with pytest.raises(StoreUnavailable):
            await writer.run(insert(1), CrashPoint.TURN_CLAIMED)
        await writer.run(insert(2), CrashPoint.TOOL_STARTED, CrashPoint.TOOL_ENDED)

    with_writer(test, faults=points)
    assert points.passed == [CrashPoint.EVENT_STORED, CrashPoint.TOOL_STARTED, CrashPoint.TOOL_ENDED]


def test_a_full_disk_is_told_and_overcome(tmp_path: Path) -> None:
    async def test(writer: Writer) -> None:
        await writer.run(insert(0))
        pages = await writer.run(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
        await writer.run(lambda c: c.execute(f"PRAGMA max_page_count = {pages + 4}").fetchone())

        def too_much(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO t(n, big) VALUES (99, zeroblob(400000))")

        with pytest.raises(StoreUnavailable, match="full"):
            await writer.run(too_much)
        answers = await together(writer, insert(1), too_much, insert(2))
        assert type(answers[1]) is StoreUnavailable
        # The others are stored or told that they are not; never one while the other was said.
        kept = await writer.run(stored)
        for answer, number in ((answers[0], 1), (answers[2], 2)):
            assert (number in kept) == (answer == number)
        assert 99 not in kept
        await writer.run(lambda c: c.execute("PRAGMA max_page_count = 100000").fetchone())
        await writer.run(too_much)
        assert 99 in await writer.run(stored)

    with_writer(test, tmp_path / "state.db")


def test_closing_finishes_what_was_handed_over(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def run() -> None:
        writer = Writer(path, Faults())
        await writer.open()
        await writer.run(lambda c: c.execute("CREATE TABLE t(n INTEGER)"))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(writer.run(insert(number))) for number in range(300)]
            await asyncio.sleep(0)
            await writer.close()
        assert [task.result() for task in tasks] == list(range(300))
        await writer.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            await writer.run(insert(1))

    asyncio.run(run())
    assert not path.with_name("state.db-wal").exists()
    with closing(sqlite3.connect(path)) as connection:
        assert stored(connection) == set(range(300))


def test_cancelling_the_caller_does_not_undo_the_write() -> None:
    async def test(writer: Writer) -> None:
        held = Held()
        async with asyncio.TaskGroup() as group:
            group.create_task(writer.run(held))
            await asyncio.sleep(0)
            cancelled = group.create_task(writer.run(insert(1)))
            other = group.create_task(writer.run(insert(2)))
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.sleep(0)
            held.let_go()
        assert cancelled.cancelled()
        assert other.result() == 2
        assert await writer.run(stored) == {1, 2}

    with_writer(test)


def test_too_many_waiting_jobs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "MAX_PENDING", 2)

    async def test(writer: Writer) -> None:
        held = Held()
        async with asyncio.TaskGroup() as group:
            group.create_task(writer.run(held))
            while writer._jobs.qsize():
                await asyncio.sleep(0)
            # One job is being run, two may wait.
            await asyncio.sleep(0.01)
            waiting = [group.create_task(writer.run(insert(number))) for number in (1, 2)]
            await asyncio.sleep(0)
            with pytest.raises(StoreUnavailable, match="wait for the disk"):
                await writer.run(insert(3))
            held.let_go()
        assert [task.result() for task in waiting] == [1, 2]

    with_writer(test)


def test_files_are_for_their_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:

        async def test(writer: Writer) -> None:
            await writer.run(insert(1))
            assert rights(tmp_path) == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}

        with_writer(test, tmp_path / "state.db")
    finally:
        os.umask(before)


def test_a_file_whose_rights_are_too_wide_is_narrowed(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.touch(0o644)

    async def test(_writer: Writer) -> None:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    with_writer(test, path)


@pytest.mark.parametrize("checked", [True, False], ids=["checked at start", "too large to check"])
def test_something_that_is_no_database_is_refused_unchanged(
    tmp_path: Path, checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "CHECK_AT_START_BYTES", 1 << 20 if checked else 0)
    path = tmp_path / "state.db"
    content = b"this is no database " * 500
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt, match=r"damaged.*\.recover"):
        with_writer(_nothing, path)
    assert path.read_bytes() == content


def test_a_damaged_database_is_refused_with_a_way_on(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def fill(writer: Writer) -> None:
        for number in range(200):
            await writer.run(insert(number))
        await writer.run(lambda c: c.execute("UPDATE t SET big = zeroblob(3000)"))

    with_writer(fill, path)
    content = bytearray(path.read_bytes())
    for at in range(4096 * 20, len(content) - 4096, 4096):
        content[at : at + 200] = b"\xff" * 200
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt, match=r"state\.db is damaged .*Move it away"):
        with_writer(_nothing, path)


def test_a_database_that_somebody_else_holds_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    with_writer(_nothing, path)
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: real(*a, **{**k, "timeout": 0.01}))
    other = real(path)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(StoreUnavailable, match="locked"):
            with_writer(_nothing, path)
    finally:
        other.close()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="missing"):
        with_writer(_nothing, tmp_path / "missing" / "state.db")


def rights(directory: Path) -> dict[str, int]:
    """Return the rights of the files in a directory."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}


async def _nothing(_writer: Writer) -> None:
    return
