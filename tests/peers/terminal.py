"""A program in a terminal of its own, and the screen that it draws."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pyte

COLUMNS, LINES = 120, 40
END_SECONDS = 10.0


class Terminal:
    """What the program shows, and the keys that it gets."""

    def __init__(self, master: int) -> None:
        self._master = master
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)
        self._changed = asyncio.Event()
        self._ended = False

    @property
    def text(self) -> str:
        """The screen, line by line."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self._master, keys.encode())

    async def until(self, condition: Callable[[str], bool], seconds: float = 40.0) -> bool:
        """Wait until the screen is as it should be; False when it never is."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not condition(self.text) and not self._ended:
                    self._changed.clear()
                    await self._changed.wait()
        return condition(self.text)

    def read(self) -> None:
        """Take what the program wrote."""
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:
            data = b""
        if data:
            self._stream.feed(data)
        else:
            self._ended = True
            asyncio.get_running_loop().remove_reader(self._master)
        self._changed.set()


@asynccontextmanager
async def in_terminal(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> AsyncIterator[Terminal]:
    """Run a program in a terminal; it is ended with the block."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**environment, "TERM": "xterm-256color"},
        cwd=folder,
        start_new_session=True,
    )
    os.close(slave)
    terminal = Terminal(master)
    loop = asyncio.get_running_loop()
    loop.add_reader(master, terminal.read)
    try:
        yield terminal
    finally:
        loop.remove_reader(master)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        os.close(master)
