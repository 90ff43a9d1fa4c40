"""Keeping the configuration safe: the last good copy, and changes that cannot break the file."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate.config.document import EditError, is_bare, render, set_value, unset_value
from tidegate.config.json5 import Json5Error, to_plain
from tidegate.config.load import Loaded, load_config
from tidegate.config.paths import KeyPath, format_path, parse_path
from tidegate.config.problems import InvalidConfig, Problem, WriteRefused
from tidegate.config.secrets import SecretResolver
from tidegate.config.sources import INCLUDE, child, read_text, read_tree

LAST_GOOD = Path("config") / "last-good.json5"
MAX_BACKUPS = 5
MIN_KEPT_SHARE = 0.5
_SMALL_FILE_CHARS = 200
REMOVED = object()
"""In `ConfigWriter.change`: the key goes."""


@dataclass(frozen=True, slots=True)
class LoadedOrLastGood:
    """A usable configuration, and what is wrong with the file if the last good copy had to be taken."""

    loaded: Loaded
    problems: tuple[Problem, ...] = ()

    @property
    def is_last_good(self) -> bool:
        """Whether the file was refused and its last good copy is in use."""
        return bool(self.problems)


def save_last_good(config_file: Path, state_dir: Path, digest: str | None = None) -> Path:
    """Keep a copy of a configuration that worked: all its files joined into one, readable by the owner only.

    `${NAME}` stays as written, so the copy holds no more secrets than the file did.

    Args:
        digest: What was loaded (`Loaded.digest`). Files that were changed since are not known to work: the
            copy from before stays then.

    Raises:
        OSError: The copy cannot be written.
    """
    target = state_dir / LAST_GOOD
    tree = read_tree(config_file)
    if digest is not None and tree.digest != digest:
        return target
    text = render(to_plain(tree.root)) if tree.root is not None else "{}"
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(target, text + "\n")
    return target


def load_or_last_good(path: Path, *, environ: Mapping[str, str], state_dir: Path) -> LoadedOrLastGood:
    """Load the file; if it is refused, load the last good copy and say what is wrong with the file.

    Raises:
        InvalidConfig: The file is refused and there is no good copy of it.
    """
    try:
        return LoadedOrLastGood(load_config(path, environ=environ, state_dir=state_dir))
    except InvalidConfig as error:
        copy = state_dir / LAST_GOOD
        if not copy.exists():
            raise
        try:
            loaded = load_config(copy, environ=environ, state_dir=state_dir)
        except InvalidConfig:
            raise error from None
        # Relative paths of secrets mean the folder of the file itself, and that file is the one to watch.
        secrets = SecretResolver(loaded.config.secrets, loaded.environment, path.parent)
        return LoadedOrLastGood(replace(loaded, secrets=secrets, files=error.files), error.problems)


class ConfigWriter:
    """Changes single keys of the main file; comments, order and layout stay as they are.

    A change is checked as a whole before anything is written, and refused when the file is not the one it
    was made for. The file it replaces is kept as `<name>.bak`, older ones as `.bak.1` to `.bak.4`.
    """

    def __init__(self, path: Path, *, environ: Mapping[str, str], state_dir: Path) -> None:
        self._path = path
        self._environ = environ
        self._state_dir = state_dir

    def base_hash(self) -> str:
        """The hash that a change must be made for: SHA-256 of the main file and all it includes."""
        return read_tree(self._path).digest

    def set(self, path: str | KeyPath, value: object, base_hash: str | None = None) -> Loaded:
        """Put a value at a path and return the configuration that results.

        Raises:
            InvalidConfig: The result would be refused at the next start; nothing was written.
            WriteRefused: The file changed meanwhile, the key lies in an included file, or the path does not fit.
        """
        keys = _keys(path)
        with self._lock():
            text = self._read(base_hash)
            self._refuse_included(keys)
            try:
                return self._write(text, set_value(text, keys, value, self._path))
            except (EditError, Json5Error) as error:
                raise WriteRefused(str(error)) from error

    def unset(self, path: str | KeyPath, base_hash: str | None = None) -> Loaded:
        """Take a key away and return the configuration that results.

        Sections that it leaves empty go as well, where that changes nothing of what is in force.

        Raises:
            InvalidConfig: The result would be refused at the next start; nothing was written.
            WriteRefused: As for `set`, or there is no such key.
        """
        keys = _keys(path)
        with self._lock():
            text = self._read(base_hash)
            self._refuse_included(keys)
            try:
                after = unset_value(text, keys, self._path)
                return self._write(text, self._without_bare_sections(after, keys[:-1]))
            except KeyError as error:
                raise WriteRefused(f"{format_path(keys)} is not set in {self._path}") from error
            except (EditError, Json5Error) as error:
                raise WriteRefused(str(error)) from error

    def change(self, changes: Sequence[tuple[KeyPath, object]], base_hash: str | None = None) -> Loaded:
        """Put values at paths, all or none, and return the configuration that results; `REMOVED` takes a key away.

        A key that is to go and is not there is left alone.

        Raises:
            InvalidConfig: The result would be refused at the next start; nothing was written.
            WriteRefused: As for `set`.
        """
        with self._lock():
            before = text = self._read(base_hash)
            for keys, value in changes:
                _keys(keys)
                self._refuse_included(keys)
                try:
                    if value is REMOVED:
                        with contextlib.suppress(KeyError):
                            text = unset_value(text, keys, self._path)
                    else:
                        text = set_value(text, keys, value, self._path)
                except (EditError, Json5Error) as error:
                    raise WriteRefused(str(error)) from error
            return self._write(before, text)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Keep other writers of this machine out; held for milliseconds, so waiting is short."""
        folder = self._state_dir / LAST_GOOD.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / "write.lock").open("w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _read(self, base_hash: str | None) -> str:
        if base_hash is not None and base_hash != self.base_hash():
            raise WriteRefused(f"{self._path} was changed by somebody else; read it again and repeat the change")
        try:
            return read_text(self._path)
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as error:
            raise WriteRefused(f"{self._path} cannot be read: {error}") from error

    def _refuse_included(self, keys: KeyPath) -> None:
        """A key that an included file sets cannot be changed here: the result would shadow it silently."""
        node = read_tree(self._path).root
        main = self._path.resolve()
        for depth, part in enumerate(keys):
            slot = child(node, part) if node is not None else None
            if slot is None:
                return
            node = slot.node
            if node.source.file.resolve() != main:
                where = format_path(keys[: depth + 1])
                raise WriteRefused(f"{where} comes from the included file {node.source.file}; change it there")

    def _without_bare_sections(self, text: str, keys: KeyPath) -> str:
        """An empty section can mean something, as an agent or a channel does; then it stays."""
        in_force = self._try(text).config.effective()
        while keys and is_bare(text, keys):
            candidate = unset_value(text, keys, self._path)
            if self._try(candidate).config.effective() != in_force:
                break
            text, keys = candidate, keys[:-1]
        return text

    def _write(self, before: str, after: str) -> Loaded:
        if len(before) > _SMALL_FILE_CHARS and len(after) < len(before) * MIN_KEPT_SHARE:
            rejected = self._path.with_name(f"{self._path.name}.rejected")
            write_atomically(rejected, after)
            raise WriteRefused(f"the change would remove more than half of {self._path}; it is kept as {rejected}")
        loaded = self._try(after)
        if self._path.exists():
            self._keep_backup()
        if _hash(before) != _hash(self._read(None)):
            raise WriteRefused(f"{self._path} was changed by somebody else; read it again and repeat the change")
        write_atomically(self._path.resolve() if self._path.is_symlink() else self._path, after)
        return loaded

    def _try(self, text: str) -> Loaded:
        """Load the candidate from the folder it will live in, so that its includes are found."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".candidate-", suffix=".json5", dir=self._path.parent)
        candidate = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            loaded = load_config(candidate, environ=self._environ, state_dir=self._state_dir)
        except InvalidConfig as error:
            raise InvalidConfig(
                (self._renamed(problem, candidate) for problem in error.problems),
                (self._renamed(problem, candidate) for problem in error.warnings),
                error.files,
            ) from None
        finally:
            candidate.unlink(missing_ok=True)
        return Loaded(
            config=loaded.config,
            warnings=tuple(self._renamed(problem, candidate) for problem in loaded.warnings),
            digest=loaded.digest,
            files=tuple(self._path if file == candidate else file for file in loaded.files),
            environment=loaded.environment,
            secrets=loaded.secrets,
        )

    def _renamed(self, problem: Problem, candidate: Path) -> Problem:
        if problem.file != candidate:
            return problem
        return Problem(
            self._path, problem.line, problem.column, problem.path, problem.message, problem.hint, problem.kind
        )

    def _keep_backup(self) -> None:
        names = [self._path.with_name(f"{self._path.name}.bak")]
        names += [names[0].with_name(f"{names[0].name}.{number}") for number in range(1, MAX_BACKUPS)]
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            if newer.exists():
                os.replace(newer, older)
        shutil.copyfile(self._path, names[0])
        names[0].chmod(0o600)


def write_atomically(path: Path, text: str) -> None:
    """Replace a file by a new one, mode 0600: after a power cut it is either the old or the new.

    Raises:
        OSError: It cannot be written; the old file is as it was.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _keys(path: str | KeyPath) -> KeyPath:
    try:
        keys = parse_path(path) if isinstance(path, str) else path
    except ValueError as error:
        raise WriteRefused(str(error)) from error
    if not keys or INCLUDE in keys:
        raise WriteRefused("a whole file and $include are changed by hand")
    return keys


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
