"""Runs the real command line: as a plain process, as a gateway in the background, and in a pseudo-terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path

PYTHON = [sys.executable, "-m", "tidegate"]
DEADLINE = 30.0
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b(?:\[[0-9;?]*[ -/]*)?$")


def clean_environment(**more: str) -> dict[str, str]:
    """The environment without anything that would change what Tidegate does."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "VIRTUAL_ENV") if name in os.environ}
    return {**kept, "TERM": "xterm", "TZ": "UTC", **more}


@contextlib.contextmanager
def short_state_dir() -> Iterator[Path]:
    """A state directory whose path is short enough for a Unix socket."""
    with tempfile.TemporaryDirectory(prefix="tg", dir="/tmp") as folder:
        yield Path(folder)


def tidegate(
    *words: str, state: Path, stdin: str = "", timeout: float = DEADLINE, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [*PYTHON, *words, "--state-dir", str(state)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=clean_environment(HOME=str(state), **(env or {})),
    )


@contextlib.contextmanager
def running_gateway(state: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A gateway in the background, ready when entered, ended in order when left."""
    process = subprocess.Popen(
        [*PYTHON, "gateway", "run", "--state-dir", str(state), "--port", "0", *words],
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(HOME=str(state)),
    )
    try:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "gateway.ready" in line:
                break
        else:
            raise AssertionError("the gateway did not start:\n" + "".join(lines))
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise


class Terminal:
    """A command in a pseudo-terminal of 80 by 24."""

    def __init__(self, *words: str, state: Path, env: dict[str, str] | None = None, columns: int = 80) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(
            [*PYTHON, *words, "--state-dir", str(state)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            # Ctrl-C reaches a process only through its controlling terminal.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env=clean_environment(HOME=str(state), **(env or {})),
        )
        os.close(slave)
        self.output = ""
        self._read_to = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        """Everything printed so far, without colours and cursor moves."""
        return _ANSI.sub("", self.output).replace("\r", "")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, wanted: str, timeout: float = DEADLINE) -> None:
        """Wait until `wanted` is printed after what was waited for before, wherever its lines are broken."""
        until, wanted = time.monotonic() + timeout, _joined(wanted)
        while (at := _joined(self.text).find(wanted, self._read_to)) < 0:
            if not self._more(until):
                raise AssertionError(f"{wanted!r} did not come; the terminal shows:\n{self.text[-3000:]}")
        self._read_to = at + len(wanted)

    def read_for(self, seconds: float) -> None:
        """Go on reading, as a real terminal does."""
        until = time.monotonic() + seconds
        while self._more(until):
            pass

    def wait_for_end(self, timeout: float = DEADLINE) -> int:
        """Read until the command ends; returns its exit code."""
        until = time.monotonic() + timeout
        while self._more(until):
            pass
        return self.process.wait(max(0.1, until - time.monotonic()))

    def _more(self, until: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:
            # Linux says EIO once nobody holds the other side.
            return False
        self.output += data.decode("utf-8", "replace")
        return bool(data)


def _joined(text: str) -> str:
    return re.sub(r"\s+", " ", text)
