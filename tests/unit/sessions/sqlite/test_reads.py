"""The reading connection: opened once, whatever the file is called, and never after the end."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from contract.store.world import KEY, World
from tidegate.errors import StoreUnavailable
from tidegate.sessions.sqlite.reads import Reader


@pytest.mark.parametrize("name", ["state.db", "what? a #1 100%25 name&mode=rwc.db"])
def test_any_file_name_is_read(tmp_path: Path, name: str) -> None:
    async def run() -> None:
        world = World("sqlite", tmp_path)
        world.path = tmp_path / name
        world.store = world._build()
        async with world:
            await world.say()
            assert await world.store.waiting_sessions() == [KEY]

    asyncio.run(run())
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_reads_at_the_same_time_share_one_connection(tmp_path: Path) -> None:
    async def run() -> None:
        async with World("sqlite", tmp_path) as world:
            before = threading.active_count()
            async with asyncio.TaskGroup() as group:
                for _ in range(10):
                    group.create_task(world.store.totals())
            assert threading.active_count() == before + 1
        names = {thread.name for thread in threading.enumerate()}
        assert "store-writer" not in names

    asyncio.run(run())


def test_a_file_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    async def run() -> None:
        reader = Reader(tmp_path / "state.db")
        with pytest.raises(StoreUnavailable):
            await reader.rows("SELECT 1")
        await reader.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            await reader.rows("SELECT 1")

    asyncio.run(run())
    assert list(tmp_path.iterdir()) == []
