"""Bug reports about products of this kind, as tests: configuration while the gateway runs and when it starts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tidegate.gateway.app import Site
from tidegate.gateway.lifecycle import Life

GOOD = '{\n  // my settings\n  messages: { responsePrefix: "one" },\n}\n'


@asynccontextmanager
async def alive(folder: Path) -> AsyncIterator[Life]:
    """Run a gateway that has only the terminal, watching its configuration file."""
    life = Life(Site(folder, folder / "tidegate.json", port=0), {"HOME": str(folder)})
    async with asyncio.TaskGroup() as group:
        group.create_task(life.run(handle_signals=False))
        await life.ready.wait()
        async with asyncio.timeout(10):
            while not (folder / "config" / "last-good.json5").exists():
                await asyncio.sleep(0.01)
        try:
            yield life
        finally:
            life.stop()


async def ask(life: Life, text: str) -> str:
    """Say something at the terminal and return the answer."""
    gateway = life.gateway
    assert gateway is not None
    shown: asyncio.Queue[str] = asyncio.Queue()
    detach = gateway.hub.attach(lambda part: shown.put_nowait(part.text.body if part.text else ""))
    try:
        await gateway.hub.submit(f"id-{text}", text, "me", 0)
        async with asyncio.timeout(10):
            return await shown.get()
    finally:
        detach()


async def until_prefix(life: Life, prefix: str) -> None:
    """Wait until a reload has put another prefix into force."""
    gateway = life.gateway
    assert gateway is not None
    async with asyncio.timeout(10):
        while gateway.loaded.config.messages.response_prefix != prefix:
            await asyncio.sleep(0.02)


def test_R098_a_half_written_file_is_never_applied(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "tidegate.json"
        path.write_text(GOOD)
        async with alive(tmp_path) as life:
            assert (await ask(life, "first")).startswith("one ")
            changed = GOOD.replace("one", "two")
            with path.open("w") as file:
                file.write(changed[:20])
                file.flush()
                await asyncio.sleep(0.2)
                file.write(changed[20:])
            await until_prefix(life, "two")
            assert (await ask(life, "second")).startswith("two ")
        async with alive(tmp_path) as life:
            assert (await ask(life, "third")).startswith("two ")

    asyncio.run(run())


def test_R099_a_restart_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "tidegate.json"
        path.write_text(GOOD)
        for _ in range(2):
            async with alive(tmp_path) as life:
                await life.reload()
        assert path.read_text() == GOOD

    asyncio.run(run())


def test_R101_a_file_broken_while_running_changes_nothing_and_the_next_start_says_so(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "tidegate.json"
        path.write_text(GOOD)
        async with alive(tmp_path) as life:
            broken = GOOD.replace("responsePrefix", "responsePrefx")
            path.write_text(broken)
            result = await life.reload()
            assert result["reloaded"] is False
            problem = str(result["problems"])
            assert "tidegate.json:3:" in problem
            assert "responsePrefix" in problem
            assert (await ask(life, "still there?")).startswith("one ")
        async with alive(tmp_path) as life:
            gateway = life.gateway
            assert gateway is not None
            assert (await ask(life, "and now?")).startswith("one ")
            status = await gateway.control.status()
            assert any("last good" in note for note in status["notes"]), status["notes"]
        assert path.read_text() == broken

    asyncio.run(run())


def test_a_file_with_which_the_gateway_would_stand_open_is_broken_and_the_next_start_uses_the_last_good_one(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        path = tmp_path / "tidegate.json"
        path.write_text(GOOD)
        async with alive(tmp_path) as life:
            path.write_text(GOOD.replace("messages:", 'gateway: { bind: "lan" },\n  messages:').replace("one", "two"))
            result = await life.reload()
            assert "in the clear" in str(result["problems"])
            assert life.gateway is not None
            assert any("in the clear" in note for note in life.gateway.notes)
        async with alive(tmp_path) as life:
            assert (await ask(life, "and now?")).startswith("one ")

    asyncio.run(run())


def test_with_reloading_off_a_changed_file_waits_for_the_next_start_and_that_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "tidegate.json"
        off = GOOD.replace("messages:", 'gateway: { reload: { mode: "off" } },\n  messages:')
        path.write_text(off)
        async with alive(tmp_path) as life:
            gateway = life.gateway
            assert gateway is not None
            path.write_text(off.replace("one", "two"))
            async with asyncio.timeout(10):
                while not gateway.notes:
                    await asyncio.sleep(0.02)
            assert "next start" in gateway.notes[0]
            assert (await ask(life, "still?")).startswith("one ")
        async with alive(tmp_path) as life:
            assert (await ask(life, "and now?")).startswith("two ")

    asyncio.run(run())
