"""How hints spell the command."""

from __future__ import annotations

from pathlib import Path

from tidegate.gateway.program import spelled


def test_a_program_that_a_shell_finds_is_called_by_its_name(tmp_path: Path):
    own = tmp_path / "tidegate"
    own.touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tidegate").symlink_to(own)
    assert spelled(str(own), str(tmp_path / "bin" / "tidegate")) == "tidegate"


def test_one_that_a_shell_does_not_find_is_called_as_it_was_started(tmp_path: Path):
    own, other = tmp_path / "my env" / "tidegate", tmp_path / "tidegate"
    own.parent.mkdir()
    own.touch()
    other.touch()
    assert spelled(".venv/bin/tidegate", None) == ".venv/bin/tidegate"
    assert spelled(str(own), str(other)) == f"'{own}'"


def test_a_module_run_by_python_is_called_by_its_name():
    assert spelled("/somewhere/tidegate/__main__.py", None) == "tidegate"
