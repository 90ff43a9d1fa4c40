"""Runs the numbered migrations: each in one transaction, after a backup of what was there."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from importlib import resources
from pathlib import Path

from tidegate.errors import StoreCorrupt, StoreUnavailable

OLDEST_READABLE = 1
"""The oldest schema version that this program can still migrate from."""


def migrations() -> list[tuple[int, str]]:
    """Return (version, SQL) of every migration, in order."""
    found = []
    for entry in resources.files("tidegate.sessions.schema").iterdir():
        if entry.name.endswith(".sql"):
            found.append((int(entry.name[:4]), entry.read_text()))
    return sorted(found)


def migrate(connection: sqlite3.Connection, path: Path | None) -> None:
    """Bring the schema of an open database up to date.

    Args:
        path: The database file, backed up as `<name>.v<version>.bak` before its schema changes.

    Raises:
        StoreUnavailable: The file was written by a newer or a far older program.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    steps = migrations()
    newest = steps[-1][0]
    if version > newest:
        raise StoreUnavailable(
            f"{path}: schema {version} is newer than this program knows ({newest}); use the newer program"
        )
    if 0 < version < OLDEST_READABLE:
        raise StoreUnavailable(f"{path}: schema {version} is older than {OLDEST_READABLE}; upgrade in steps")
    if version == newest:
        return
    if version and path is not None:
        _back_up(connection, path.with_name(f"{path.name}.v{version}.bak"))
    for number, script in steps:
        if number > version:
            connection.executescript(f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {number};\nCOMMIT;")


def _back_up(connection: sqlite3.Connection, path: Path) -> None:
    """Copy an open database; the copy is as private as the original and stands under its name only when whole."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with contextlib.closing(sqlite3.connect(part)) as backup:
        connection.backup(backup)
    part.replace(path)


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether SQLite says that the file is damaged or no database at all, rather than busy or full."""
    code = getattr(error, "sqlite_errorcode", None)
    # Extended codes carry the plain one in their low byte.
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def damage_text(path: Path | None, verdict: str) -> str:
    """Return what the operator is told about a damaged database."""
    name = path.name if path else "the database"
    return (
        f"{path} is damaged ({verdict}). Nothing was changed. Move it away and start with the newest backup "
        f"beside it (`{name}.v*.bak`), or recover it with `sqlite3 {path} .recover`."
    )


def check_integrity(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse to work on a damaged database.

    Raises:
        StoreCorrupt: SQLite found damage; the message says how to go on.
    """
    try:
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        verdict = str(error)
    if verdict != "ok":
        raise StoreCorrupt(damage_text(path, verdict))
