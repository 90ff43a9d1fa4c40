"""The agent's own folder: the only files that its tools can reach.

Every path is resolved inside the root and then opened component by component relative to directory handles,
refusing symbolic links on the way (openat with O_NOFOLLOW), so that a link swapped in between check and use
leads nowhere.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import TypeVar

from tidegate.errors import ToolFailure, ToolTimeout
from tidegate.ids import new_id

MAX_READ_BYTES = 2 * 1024 * 1024
MAX_WRITE_BYTES = 2 * 1024 * 1024
MAX_ENTRIES = 10_000
"""Most directory entries that one listing or search looks at."""
IO_SECONDS = 20.0
"""Seconds that one file operation may take."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a folder; `size` in bytes, 0 for a folder."""

    name: str
    is_dir: bool
    size: int


class WorkspaceFiles:
    """File access for tools, confined to one folder. Methods run in a thread and have a deadline.

    Args:
        root: The folder; made, with those above it, when something is first written.
    """

    def __init__(self, root: Path) -> None:
        self._root = Path(os.path.realpath(root))

    @property
    def root(self) -> Path:
        """The folder, without symbolic links."""
        return self._root

    async def read(self, path: str, max_bytes: int = MAX_READ_BYTES) -> bytes:
        """Return a file's content.

        Raises:
            ToolFailure: It is missing, not a plain file, too large, or outside the workspace.
        """
        return await self._in_thread(lambda: self._read(path, max_bytes))

    async def write(self, path: str, data: bytes, max_bytes: int = MAX_WRITE_BYTES) -> bool:
        """Replace or make a file, in one step, with the folders above it. Return whether it is new.

        Raises:
            ToolFailure: The content is too large, or the path is outside the workspace or a folder.
        """
        return await self._in_thread(lambda: self._write(path, data, max_bytes))

    async def entries(self, path: str) -> list[Entry]:
        """Return what is in a folder, by name.

        Raises:
            ToolFailure: It is not a folder of the workspace.
        """
        return await self._in_thread(lambda: self._list(path))

    async def find(self, pattern: str, path: str, limit: int) -> list[str]:
        """Return files below `path` whose name or relative path matches `pattern`, at most `limit`."""
        return await self._in_thread(lambda: self._find(pattern, path, limit))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(IO_SECONDS):
                return await asyncio.to_thread(work)
        except TimeoutError as error:
            raise ToolTimeout(f"the file system did not answer within {IO_SECONDS:.0f} s") from error

    def _parts(self, path: str) -> tuple[str, ...]:
        """Return the components of `path` below the root, links resolved.

        Raises:
            ToolFailure: It leads out of the workspace.
        """
        if "\0" in path:
            raise ToolFailure("the path holds a NUL character")
        if ".." in PurePosixPath(path.replace("\\", "/")).parts:
            raise ToolFailure("the path must not contain '..'")
        try:
            real = Path(os.path.realpath(self._root / path))
            return real.relative_to(self._root).parts
        except ValueError as error:
            raise ToolFailure(f"{_shown(path)} is outside the workspace") from error
        except OSError as error:
            raise _failure(path, error) from error

    @contextmanager
    def _folder(self, parts: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
        """Open the folder `parts` below the root, following no link."""
        if make:
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._root, _DIRECTORY)
        try:
            for part in parts:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=handle)
                below = os.open(part, _DIRECTORY, dir_fd=handle)
                os.close(handle)
                handle = below
            yield handle
        finally:
            os.close(handle)

    def _read(self, path: str, max_bytes: int) -> bytes:
        parts = self._parts(path)
        if not parts:
            raise ToolFailure(f"{_shown(path)} is a folder")
        try:
            with self._folder(parts[:-1]) as folder:
                handle = os.open(parts[-1], _FILE, dir_fd=folder)
                with os.fdopen(handle, "rb") as file:
                    facts = os.fstat(handle)
                    if stat.S_ISDIR(facts.st_mode):
                        raise ToolFailure(f"{_shown(path)} is a folder")
                    if not stat.S_ISREG(facts.st_mode):
                        raise ToolFailure(f"{_shown(path)} is not a plain file")
                    data = file.read(max_bytes + 1)
        except OSError as error:
            raise _failure(path, error) from error
        if len(data) > max_bytes:
            raise ToolFailure(f"{_shown(path)} is larger than {max_bytes} bytes")
        return data

    def _write(self, path: str, data: bytes, max_bytes: int) -> bool:
        if len(data) > max_bytes:
            raise ToolFailure(f"the content is larger than {max_bytes} bytes")
        parts = self._parts(path)
        if not parts:
            raise ToolFailure(f"{_shown(path)} is a folder")
        try:
            with self._folder(parts[:-1], make=True) as folder:
                return _replace_file(folder, parts[-1], data)
        except OSError as error:
            raise _failure(path, error) from error

    def _list(self, path: str) -> list[Entry]:
        try:
            with self._folder(self._parts(path)) as folder:
                return sorted(_entries(folder), key=lambda entry: entry.name)
        except OSError as error:
            raise _failure(path, error) from error

    def _find(self, pattern: str, path: str, limit: int) -> list[str]:
        top = self._parts(path)
        found: list[str] = []
        waiting = [top]
        looked_at = 0
        by_path = "/" in pattern
        while waiting and len(found) < limit and looked_at < MAX_ENTRIES:
            parts = waiting.pop()
            try:
                with self._folder(parts) as folder:
                    entries = sorted(_entries(folder), key=lambda entry: entry.name)
            except OSError as error:
                if parts == top:
                    raise _failure(path, error) from error
                continue
            looked_at += len(entries)
            for entry in entries:
                name = "/".join((*parts, entry.name))
                if entry.is_dir:
                    waiting.append((*parts, entry.name))
                elif fnmatchcase(name if by_path else entry.name, pattern):
                    found.append(name)
        return sorted(found)[:limit]


def _entries(folder: int) -> list[Entry]:
    entries = []
    with os.scandir(folder) as scan:
        for number, item in enumerate(scan):
            if number >= MAX_ENTRIES:
                break
            try:
                facts = item.stat(follow_symlinks=False)
            except OSError:
                continue
            is_dir = stat.S_ISDIR(facts.st_mode)
            entries.append(Entry(item.name, is_dir, 0 if is_dir else facts.st_size))
    return entries


def _replace_file(folder: int, name: str, data: bytes) -> bool:
    """Write beside the target and rename over it, so that a reader sees the old file or the new one."""
    try:
        old = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(old.st_mode):
            raise OSError(errno.EISDIR if stat.S_ISDIR(old.st_mode) else errno.ELOOP, "not a plain file")
        mode, is_new = stat.S_IMODE(old.st_mode), False
    except FileNotFoundError:
        mode, is_new = 0o644, True
    draft = f".{new_id()}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(draft, flags, mode, dir_fd=folder), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)
        raise
    return is_new


def _failure(path: str, error: OSError) -> ToolFailure:
    reasons = {
        errno.ENOENT: "does not exist",
        errno.ENOTDIR: "is not a folder",
        errno.EISDIR: "is a folder",
        errno.ELOOP: "is a link that cannot be followed",
        errno.EACCES: "cannot be accessed",
        errno.ENOSPC: "cannot be written: the disk is full",
        errno.ENAMETOOLONG: "has too long a name",
    }
    reason = reasons.get(error.errno or 0, os.strerror(error.errno) if error.errno else "failed")
    return ToolFailure(f"{_shown(path)} {reason}")


def _shown(path: str) -> str:
    return repr(path[:200])


STARTER_FILES: dict[str, str] = {
    "SOUL.md": (
        "# Who I am\n\nI am a personal agent. I am friendly, direct and brief. I say when I am not sure, and I do\n"
        "not pretend to have done something that I have not done.\n"
    ),
    "AGENTS.md": (
        "# How I work here\n\n- Answer in the language of the person who writes.\n"
        "- Look before you act: read a file before you change it.\n"
        "- Ask before doing anything that cannot be undone.\n"
        "- In groups, never share what was said in private.\n"
    ),
    "IDENTITY.md": "# Identity\n\nName: Tide\nKind: a helper in your chats\n",
    "TOOLS.md": "# Notes about tools\n\nWrite down here what is worth knowing about this place and its tools.\n",
    "USER.md": "# The person I work for\n\nName:\nPreferred language:\nWorth knowing:\n",
}


def bootstrap_workspace(root: Path) -> tuple[str, ...]:
    """Make a workspace usable and return the names of the files that were written. Overwrites nothing.

    Raises:
        OSError: The folder cannot be made or written.
    """
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    written = []
    for name, text in STARTER_FILES.items():
        try:
            with open(root / name, "x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            continue
        written.append(name)
    return tuple(written)
