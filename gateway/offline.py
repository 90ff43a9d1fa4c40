"""Control over a bare store, for the command line while no gateway runs."""

from __future__ import annotations

import asyncio
import importlib
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tidegate.adapters.registry import AdapterServices, configured_accounts
from tidegate.clock import SystemClock
from tidegate.config.load import Loaded
from tidegate.config.store import load_or_last_good
from tidegate.errors import StoreUnavailable
from tidegate.faults import Faults
from tidegate.gateway.client.errors import Unreachable
from tidegate.gateway.connections import Connections
from tidegate.gateway.control import Control
from tidegate.gateway.lock import StateLock
from tidegate.gateway.people import People
from tidegate.gateway.plane.contract import MethodTable
from tidegate.gateway.plane.methods.own import control_methods
from tidegate.gateway.plane.owner import call_as_owner
from tidegate.gateway.program import hint
from tidegate.gateway.rendering import Renderers
from tidegate.gateway.site import Site
from tidegate.sessions.sqlite import people
from tidegate.sessions.sqlite.store import SqliteStore
from tidegate.sessions.wakeups import DeafWakeups

SENDS = frozenset({"tidegate.send", "tidegate.pairing.approve"})
"""Methods that write messages, for which the channels' renderers have to be loaded."""
EMPTY: Mapping[str, Any] = {
    "tidegate.sessions.list": [],
    "tidegate.pairing.list": [],
    "tidegate.deliveries.list": [],
    "device.pair.list": {"pending": [], "paired": []},
    "tidegate.status": {
        "connections": [],
        "sessions": {"total": 0, "running": 0, "waiting": 0},
        "events": {},
        "deliveries": {},
        "troubled": [],
        "recent_trouble": [],
        "store": {},
    },
}
"""What there is to see before a gateway ran for the first time; looking creates nothing."""


def ask_store(site: Site, environ: Mapping[str, str], method: str, arguments: Mapping[str, Any]) -> Any:
    """Call one method on the store as its owner, under the state lock.

    Raises:
        AlreadyRunning: A gateway holds the state directory.
        StoreError: The store cannot be opened.
        ConfigError: The method needs the configuration and it cannot be used.
        RpcError: The arguments do not fit.
        Unreachable: The method needs a running gateway.
    """
    if method in EMPTY and not site.database.exists():
        answer = EMPTY[method]
        return {"running": False, "config": str(site.config_path), **answer} if method == "tidegate.status" else answer
    return asyncio.run(_ask(site, environ, method, arguments))


async def _ask(site: Site, environ: Mapping[str, str], method: str, arguments: Mapping[str, Any]) -> Any:
    with StateLock(site.state_dir):
        async with open_methods(site, environ, method) as methods:
            if methods.get(method) is None:
                raise Unreachable(f"no gateway runs here; start one with {hint('up')} or {hint('gateway run')}")
            return await call_as_owner(methods, method, dict(arguments))


@asynccontextmanager
async def open_methods(site: Site, environ: Mapping[str, str], method: str) -> AsyncIterator[MethodTable]:
    """Open the store and yield a method that needs no running gateway, and its like; the caller holds the lock."""
    async with open_control(site, environ, sends=method in SENDS) as (control, store):
        if method.startswith("device."):
            # Loaded for these alone: the rest of the control plane costs a start more than it is worth otherwise.
            devices = importlib.import_module("tidegate.gateway.plane.bare_devices")
            yield MethodTable(devices.bare_device_methods(store, site.state_dir, SystemClock()))
        else:
            yield MethodTable(control_methods(control))


@asynccontextmanager
async def open_control(
    site: Site, environ: Mapping[str, str], *, sends: bool
) -> AsyncIterator[tuple[Control, SqliteStore]]:
    """Open the store and yield a control over it; the caller holds the state lock.

    Args:
        sends: Messages will be written, so the configured accounts must be known.
    """
    loaded = load_or_last_good(site.config_path, environ=environ, state_dir=site.state_dir).loaded if sends else None
    clock = SystemClock()
    store = SqliteStore(site.database, clock, Faults())
    await store.open()
    try:
        known = People(store)
        await known.load()
        renderers = Renderers()
        if loaded is not None:
            await _add_accounts(renderers, loaded, site, clock)
        control = Control(
            store,
            clock,
            DeafWakeups(),
            known,
            Connections(),
            renderers,
            facts=lambda: {"running": False, "config": str(site.config_path), "notes": []},
            may_own=lambda: loaded is not None and not loaded.config.commands.owner_allow_from,
        )
        yield control, store
    finally:
        await store.close()


async def _add_accounts(renderers: Renderers, loaded: Loaded, site: Site, clock: SystemClock) -> None:
    """Learn how each account writes; nothing is connected."""
    async with aiohttp.ClientSession() as http:
        renderers.use(configured_accounts(loaded, AdapterServices(http, clock, site.state_dir)))


@dataclass(frozen=True, slots=True)
class StoredPeople:
    """Who was let in by pairing, as a look at the store's file shows it."""

    owners: frozenset[str] = frozenset()
    allowed: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)


def look_at_people(site: Site) -> StoredPeople:
    """Read who is known, without the lock and without changing anything; nobody where there is no store."""
    if not site.database.exists():
        return StoredPeople()
    try:
        with closing(look_into(site)) as connection:
            return StoredPeople(people.owners(connection), people.allowed_senders(connection))
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{site.database}: {error}") from error


def look_into(site: Site) -> sqlite3.Connection:
    """Open the database for reading, so that not even a helper file of SQLite is left beside it.

    Raises:
        sqlite3.Error: It cannot be opened.
    """
    # After an orderly end there is no write-ahead log, and the file alone is the whole truth.
    alone = "" if site.database.with_name(f"{site.database.name}-wal").exists() else "&immutable=1"
    return sqlite3.connect(f"{site.database.absolute().as_uri()}?mode=ro{alone}", uri=True)
