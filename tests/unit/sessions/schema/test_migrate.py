"""Migrations: a backup first, one transaction each, and never backwards."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tidegate.errors import StoreUnavailable
from tidegate.sessions.schema import migrate as module
from tidegate.sessions.schema.migrate import migrate, migrations


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def connect(path: Path) -> closing[sqlite3.Connection]:
    """Open a database as the writer does."""
    return closing(sqlite3.connect(path, isolation_level=None))


def version(connection: sqlite3.Connection) -> int:
    """Return the schema version."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def add_step(monkeypatch: pytest.MonkeyPatch, sql: str) -> int:
    """Let the program know one more migration; returns its number."""
    steps = migrations()
    number = steps[-1][0] + 1
    monkeypatch.setattr(module, "migrations", lambda: [*steps, (number, sql)])
    return number


def test_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _ in migrations()] == list(range(1, len(migrations()) + 1))


def test_a_new_file_gets_the_newest_schema_and_no_backup(path: Path) -> None:
    with connect(path) as connection:
        migrate(connection, path)
        assert version(connection) == migrations()[-1][0]
        migrate(connection, path)
    assert [file.name for file in path.parent.iterdir()] == ["state.db"]


def test_an_older_file_is_backed_up_before_it_changes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(path) as connection:
        migrate(connection, path)
        before = version(connection)
        connection.execute("INSERT INTO cursors VALUES ('telegram', 'default', '17')")
        number = add_step(monkeypatch, "CREATE TABLE newer(id INTEGER);")
        migrate(connection, path)
        assert version(connection) == number
        assert connection.execute("SELECT value FROM cursors").fetchone() == ("17",)
    backup = path.with_name(f"state.db.v{before}.bak")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    with connect(backup) as connection:
        assert version(connection) == before
        assert connection.execute("SELECT value FROM cursors").fetchone() == ("17",)
    assert not list(path.parent.glob("*.part"))


def test_a_migration_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(path) as connection:
        migrate(connection, path)
        before = version(connection)
    add_step(monkeypatch, "CREATE TABLE newer(id INTEGER); SELECT * FROM nowhere;")
    with connect(path) as connection, pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrate(connection, path)
    with connect(path) as connection:
        assert version(connection) == before
        assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'newer'").fetchone()


def test_a_file_of_a_newer_program_is_refused(path: Path) -> None:
    with connect(path) as connection:
        connection.execute("PRAGMA user_version = 999")
        with pytest.raises(StoreUnavailable, match="999 is newer than this program knows"):
            migrate(connection, path)
        assert version(connection) == 999


def test_a_file_that_is_too_old_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OLDEST_READABLE", 5)
    with connect(path) as connection:
        connection.execute("PRAGMA user_version = 1")
        with pytest.raises(StoreUnavailable, match="upgrade in steps"):
            migrate(connection, path)
