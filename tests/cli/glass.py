"""A terminal whose screen can be read: a command in a pseudo-terminal, drawn by an emulator."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pyte

from cli.driver import PYTHON, clean_environment

DEADLINE = 15.0


class Glass:
    """The screen.

    Attributes:
        raw: Everything that the command wrote.
    """

    def __init__(self, master: int, process: subprocess.Popen[bytes], columns: int, rows: int) -> None:
        self.process = process
        self.raw = b""
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._master = master
        self._news = asyncio.Event()

    @property
    def lines(self) -> list[str]:
        """The rows as they stand."""
        return [row.rstrip() for row in self.screen.display]

    @property
    def text(self) -> str:
        """The whole screen."""
        return "\n".join(self.lines)

    def read(self) -> None:
        """Take what the command wrote."""
        try:
            data = os.read(self._master, 65_536)
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._master)
        self.raw += data
        self._stream.feed(data)
        self._news.set()

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Change the size, as a window does."""
        self.screen.resize(rows, columns)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def until(self, wanted: str | Callable[[], bool]) -> None:
        """Wait until something is on the screen, or holds. Raises AssertionError with the screen."""
        try:
            async with asyncio.timeout(DEADLINE):
                while not (wanted() if callable(wanted) else wanted in self.text):
                    self._news.clear()
                    try:
                        async with asyncio.timeout(0.1):
                            await self._news.wait()
                    except TimeoutError:
                        pass
        except TimeoutError:
            raise AssertionError(f"{wanted!r} did not come; the screen shows:\n{self.text}") from None

    async def gone(self, unwanted: str) -> None:
        """Wait until something is not on the screen any more."""
        await self.until(lambda: unwanted not in self.text)

    async def until_end(self) -> int:
        """Wait until the command has ended; returns its exit code."""
        await self.until(lambda: self.process.poll() is not None)
        return self.process.wait()


@asynccontextmanager
async def glass(
    *words: str, state: Path, columns: int = 80, rows: int = 24, env: dict[str, str] | None = None
) -> AsyncIterator[Glass]:
    """Run a command behind glass for the length of the block."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(  # noqa: ASYNC220 - one quick call
        [*PYTHON, *words, "--state-dir", str(state)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env=clean_environment(HOME=str(state), **{"TERM": "xterm-256color", **(env or {})}),
    )
    os.close(slave)
    found = Glass(master, process, columns, rows)
    loop = asyncio.get_running_loop()
    loop.add_reader(master, found.read)
    try:
        yield found
    finally:
        loop.remove_reader(master)
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)
