"""An agent cannot be given a folder from which it could change the gateway itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.config.load import load_config
from tidegate.config.problems import InvalidConfig


@pytest.mark.parametrize("workspace", ["{state}", "{state}/..", "/", "~"])
def test_a_workspace_over_the_state_is_refused_at_its_place(workspace: str, tmp_path: Path) -> None:
    state = tmp_path / "home" / ".tidegate"
    state.mkdir(parents=True)
    file = state / "tidegate.json"
    chosen = workspace.format(state=state)
    file.write_text(f'{{\n  agents: {{ defaults: {{ workspace: "{chosen}" }} }},\n}}')
    with pytest.raises(InvalidConfig) as refused:
        load_config(file, environ={"HOME": str(tmp_path / "home")}, state_dir=state)
    (problem,) = refused.value.problems
    assert (problem.line, problem.path) == (2, "agents.defaults.workspace")


def test_a_folder_below_the_state_is_fine(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.json"
    file.write_text('{ agents: { defaults: { workspace: "files" } } }')
    loaded = load_config(file, environ={"HOME": "/nonexistent"}, state_dir=tmp_path)
    assert loaded.config.agents.roster()[0].workspace == tmp_path / "files"
