"""The configuration's files: reading them and joining `$include`s into one tree that knows its places."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.config.json5 import MAX_FILE_BYTES, Document, Json5Error, Node, Slot, Source, parse
from tidegate.config.paths import format_path
from tidegate.config.problems import Problem, ProblemKind

INCLUDE = "$include"
MAX_INCLUDE_DEPTH = 10
MAX_INCLUDED_FILES = 200


@dataclass(slots=True)
class Tree:
    """All source files joined.

    `root` is None when the main file does not exist or cannot be parsed; `problems` says which.
    """

    root: Node | None = None
    files: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    digest: str = ""


def read_tree(path: Path) -> Tree:
    """Read the main file and everything it includes; a missing main file is an empty tree."""
    return _Joiner(path).join()


def read_text(path: Path) -> str:
    """One source file's text.

    Raises:
        OSError: It cannot be read.
        ValueError: It is larger than 2 MB or not UTF-8.
    """
    # Opening a pipe would wait for somebody to write into it.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("it is not a plain file")
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"the file is larger than {MAX_FILE_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"the file is not UTF-8 (byte {error.start})") from error


def locate_node(root: Node | None, path: tuple[str | int, ...]) -> tuple[Source, int] | None:
    """Where a path's value stands; for a path that does not exist, where its deepest existing parent does."""
    if root is None:
        return None
    source, offset, node = root.source, root.start, root
    for part in path:
        slot = child(node, part)
        if slot is None:
            break
        source, node = slot.node.source, slot.node
        offset = node.start
    return source, offset


def locate_key(root: Node | None, path: tuple[str | int, ...]) -> tuple[Source, int] | None:
    """Where a path's key stands; for a path that does not exist, where its deepest existing parent does."""
    parent = locate_node(root, path[:-1])
    node = descend(root, path[:-1])
    slot = child(node, path[-1]) if node is not None and path else None
    return (slot.node.source, slot.start) if slot is not None else parent


def descend(root: Node | None, path: tuple[str | int, ...]) -> Node | None:
    """The node at a path, or None."""
    node = root
    for part in path:
        slot = child(node, part) if node is not None else None
        node = slot.node if slot is not None else None
    return node


def child(node: Node, part: str | int) -> Slot | None:
    """A member or item of a node, or None."""
    if isinstance(node.value, dict):
        return node.value.get(str(part))
    if isinstance(node.value, list) and isinstance(part, int) and 0 <= part < len(node.value):
        return node.value[part]
    return None


def walk(node: Node, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Node]]:
    """Every node below and including this one, with its path."""
    yield path, node
    if isinstance(node.value, dict):
        for key, slot in node.value.items():
            yield from walk(slot.node, (*path, key))
    elif isinstance(node.value, list):
        for index, slot in enumerate(node.value):
            yield from walk(slot.node, (*path, index))


class _Joiner:
    def __init__(self, path: Path) -> None:
        self._main = path
        self._base = path.parent.resolve()
        self._tree = Tree()
        self._hash = hashlib.sha256()

    def join(self) -> Tree:
        tree = self._tree
        tree.files.append(self._main)
        try:
            document = self._load(self._main)
        except FileNotFoundError:
            document = None
        except (OSError, ValueError) as error:
            self._refuse_file(self._main, error)
            document = None
        if document is not None:
            tree.root = self._resolve(document.root, (self._main.resolve(),), ())
            if not isinstance(tree.root.value, dict):
                line, column = tree.root.source.position(tree.root.start)
                message = "the configuration must be an object: { … }"
                tree.problems.append(Problem(self._main, line, column, "", message, kind=ProblemKind.SYNTAX))
                tree.root = None
        tree.digest = self._hash.hexdigest()
        return tree

    def _load(self, path: Path) -> Document:
        text = read_text(path)
        data = text.encode("utf-8", "surrogatepass")
        self._hash.update(len(data).to_bytes(8, "big") + data)
        document = parse(text, path)
        for key, offset in document.repeated:
            line, column = document.source.position(offset)
            message = f"the key {key!r} is given twice in one object; the last one counts"
            self._tree.warnings.append(Problem(path, line, column, "", message, "remove one of them"))
        return document

    def _refuse_file(self, path: Path, error: Exception) -> None:
        if isinstance(error, Json5Error):
            problem = Problem(path, error.line, error.column, "", error.message, kind=ProblemKind.SYNTAX)
        else:
            reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            problem = Problem(path, 1, 1, "", f"cannot be read: {reason}", kind=ProblemKind.SYNTAX)
        self._tree.problems.append(problem)

    def _resolve(self, node: Node, chain: tuple[Path, ...], path: tuple[str | int, ...]) -> Node:
        if isinstance(node.value, list):
            items = [
                Slot(self._resolve(slot.node, chain, (*path, index)), slot.start, slot.key_end, slot.comma)
                for index, slot in enumerate(node.value)
            ]
            return Node(items, node.source, node.start, node.end)
        if not isinstance(node.value, dict):
            return node
        own = {
            key: Slot(self._resolve(slot.node, chain, (*path, key)), slot.start, slot.key_end, slot.comma)
            for key, slot in node.value.items()
            if key != INCLUDE
        }
        resolved = Node(own, node.source, node.start, node.end)
        if INCLUDE not in node.value:
            return resolved
        joined: Node | None = None
        for name in self._names(node.value[INCLUDE].node, path):
            included = self._included(name, chain, path)
            if included is not None:
                joined = included if joined is None else _merge(joined, included)
        if joined is None:
            return resolved
        if own and not isinstance(joined.value, dict):
            self._complain(node, path, "keys next to $include need an included object, not a list or a value")
            return resolved
        return _merge(joined, resolved) if own else joined

    def _names(self, node: Node, path: tuple[str | int, ...]) -> list[Node]:
        entries = [slot.node for slot in node.value] if isinstance(node.value, list) else [node]
        if not entries or not all(isinstance(entry.value, str) and entry.value for entry in entries):
            self._complain(node, path, "$include takes a file name or a list of file names")
            return []
        return entries

    def _included(self, name: Node, chain: tuple[Path, ...], path: tuple[str | int, ...]) -> Node | None:
        spelled = str(name.value)
        if "\0" in spelled:
            self._complain(name, path, "a file name cannot contain a NUL character")
            return None
        target = name.source.file.parent / spelled
        real = target.resolve()
        if not real.is_relative_to(self._base):
            message = f"{spelled!r} lies outside the configuration folder {self._base}"
            self._complain(name, path, message, "move the file below the configuration folder")
            return None
        if real in chain:
            names = " → ".join(entry.name for entry in (*chain, real))
            self._complain(name, path, f"these files include each other: {names}")
            return None
        if len(chain) > MAX_INCLUDE_DEPTH:
            self._complain(name, path, f"more than {MAX_INCLUDE_DEPTH} levels of $include")
            return None
        if len(self._tree.files) > MAX_INCLUDED_FILES:
            self._complain(name, path, f"more than {MAX_INCLUDED_FILES} included files")
            return None
        self._tree.files.append(target)
        try:
            document = self._load(target)
        except Json5Error as error:
            self._refuse_file(target, error)
            return None
        except (OSError, ValueError) as error:
            reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            self._complain(name, path, f"cannot read the included file {spelled!r}: {reason}")
            return None
        return self._resolve(document.root, (*chain, real), path)

    def _complain(self, node: Node, path: tuple[str | int, ...], message: str, hint: str = "") -> None:
        line, column = node.source.position(node.start)
        where = format_path(path)
        problem = Problem(node.source.file, line, column, where, message, hint, ProblemKind.INCLUDE)
        self._tree.problems.append(problem)


def _merge(base: Node, over: Node) -> Node:
    """Objects merge, everything else is replaced; `over` wins and lends its place."""
    if not (isinstance(base.value, dict) and isinstance(over.value, dict)):
        return over
    merged = dict(base.value)
    for key, slot in over.value.items():
        under = merged.get(key)
        node = slot.node if under is None else _merge(under.node, slot.node)
        merged[key] = Slot(node, slot.start, slot.key_end, slot.comma)
    return Node(merged, over.source, over.start, over.end)
