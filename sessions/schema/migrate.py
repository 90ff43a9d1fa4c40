"""Runs the numbered migrations: each in one transaction, after a backup of what was there."""

from __future__ import annotations

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
        with sqlite3.connect(path.with_name(f"{path.name}.v{version}.bak")) as backup:
            connection.backup(backup)
        backup.close()
    for number, script in steps:
        if number > version:
            connection.executescript(f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {number};\nCOMMIT;")


def check_integrity(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse to work on a damaged database.

    Raises:
        StoreCorrupt: SQLite found damage; the message says how to go on.
    """
    try:
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        verdict = str(error)
    if verdict != "ok":
        raise StoreCorrupt(
            f"{path} is damaged ({verdict}). Nothing was changed. Move it away and start with the newest backup "
            f"beside it (`{path.name}.v*.bak`), or recover it with `sqlite3 {path} .recover`."
        )
