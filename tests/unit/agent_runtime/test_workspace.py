"""File access of tools stays inside the workspace."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.agent_runtime.workspace import (
    MAX_WRITE_BYTES,
    STARTER_FILES,
    WorkspaceFiles,
    bootstrap_workspace,
)
from tidegate.errors import ToolFailure

T = TypeVar("T")


def do(work: Awaitable[T]) -> T:
    async def run() -> T:
        return await work

    return asyncio.run(run())


@pytest.fixture
def files(tmp_path: Path) -> WorkspaceFiles:
    (tmp_path / "secret.txt").write_text("outside")
    (tmp_path / "home").mkdir()
    return WorkspaceFiles(tmp_path / "home")


def test_what_was_written_can_be_read(files: WorkspaceFiles) -> None:
    assert do(files.write("notes/a.md", b"one")) is True
    assert do(files.write("notes/a.md", b"two")) is False
    assert do(files.read("notes/a.md")) == b"two"
    assert do(files.read(str(files.root / "notes/a.md"))) == b"two"
    assert [entry.name for entry in do(files.entries("notes"))] == ["a.md"]


@pytest.mark.parametrize(
    "path", ["../secret.txt", "a/../../secret.txt", "/etc/passwd", "link", "dir/secret.txt", "a\0b", "..", ""]
)
def test_nothing_outside_can_be_read_or_written(files: WorkspaceFiles, path: str) -> None:
    (files.root / "link").symlink_to(files.root.parent / "secret.txt")
    (files.root / "dir").symlink_to(files.root.parent)
    with pytest.raises(ToolFailure):
        do(files.read(path))
    with pytest.raises(ToolFailure):
        do(files.write(path, b"x"))
    assert (files.root.parent / "secret.txt").read_text() == "outside"


def test_a_dangling_link_to_the_outside_cannot_be_written_through(files: WorkspaceFiles) -> None:
    (files.root / "new").symlink_to(files.root.parent / "made.txt")
    with pytest.raises(ToolFailure):
        do(files.write("new", b"x"))
    assert not (files.root.parent / "made.txt").exists()


def test_a_link_inside_the_workspace_is_followed(files: WorkspaceFiles) -> None:
    do(files.write("real/a.md", b"text"))
    (files.root / "alias").symlink_to(files.root / "real")
    assert do(files.read("alias/a.md")) == b"text"


def test_special_files_are_not_opened(files: WorkspaceFiles) -> None:
    os.mkfifo(files.root / "pipe")
    with pytest.raises(ToolFailure, match="plain file"):
        do(files.read("pipe"))
    with pytest.raises(ToolFailure):
        do(files.write("pipe", b"x"))


@pytest.mark.parametrize(("path", "words"), [("none", "does not exist"), (".", "folder"), ("a.md/b", "not a folder")])
def test_failures_are_told_in_words(files: WorkspaceFiles, path: str, words: str) -> None:
    do(files.write("a.md", b"x"))
    with pytest.raises(ToolFailure, match=words):
        do(files.read(path))


def test_sizes_are_bounded(files: WorkspaceFiles) -> None:
    do(files.write("big", b"x" * 1000))
    with pytest.raises(ToolFailure, match="larger"):
        do(files.read("big", max_bytes=999))
    with pytest.raises(ToolFailure, match="larger"):
        do(files.write("big", b"x" * (MAX_WRITE_BYTES + 1)))


def test_a_write_leaves_no_draft_behind_and_keeps_the_mode(files: WorkspaceFiles) -> None:
    do(files.write("run.sh", b"one"))
    (files.root / "run.sh").chmod(0o750)
    do(files.write("run.sh", b"two"))
    assert [path.name for path in files.root.iterdir()] == ["run.sh"]
    assert (files.root / "run.sh").stat().st_mode & 0o777 == 0o750


def test_files_are_found_by_name_or_by_path(files: WorkspaceFiles) -> None:
    for path in ("a.md", "x/b.md", "x/y/c.md", "x/d.txt"):
        do(files.write(path, b""))
    (files.root / "out").symlink_to(files.root.parent)
    assert do(files.find("*.md", ".", 10)) == ["a.md", "x/b.md", "x/y/c.md"]
    assert do(files.find("x/*.md", "x", 10)) == ["x/b.md", "x/y/c.md"]
    assert do(files.find("secret*", ".", 10)) == []
    assert len(do(files.find("*", ".", 2))) == 2


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from(["..", ".", "a", "up", "in", "/", "~", "secret.txt", ""]), max_size=6).map("/".join))
def test_no_path_leads_to_the_outside(files: WorkspaceFiles, path: str) -> None:
    for name, target in (("up", files.root.parent), ("in", files.root)):
        if not (files.root / name).is_symlink():
            (files.root / name).symlink_to(target)
    with suppress(ToolFailure):
        assert do(files.read(path)) != b"outside"


def test_a_new_workspace_gets_its_files_and_nothing_is_overwritten(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "SOUL.md").write_text("mine")
    assert set(bootstrap_workspace(root)) == set(STARTER_FILES) - {"SOUL.md"}
    assert (root / "SOUL.md").read_text() == "mine"
    assert bootstrap_workspace(root) == ()
