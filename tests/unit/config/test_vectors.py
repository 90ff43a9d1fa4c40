"""The vectors about the configuration, row by row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance_kinds.config_kinds import answer_duration, answer_env_subst, answer_loader
from test_vectors import exceptions
from tidegate.config.load import load_config
from tidegate.config.problems import InvalidConfig

DATA = Path(__file__).parents[2] / "data"

OVERRULED = {
    "loader-0029": {"accepts": True, "agentIds": ["main", "b"], "ownership": "explicit"},
    "loader-0037": {"accepts": True, "agentIds": ["main"]},
    "loader-0045": {"accepts": True, "agentIds": ["a", "b"]},
    "loader-0050": {"accepts": False, "paths": ["agents.entries.A"]},
}
"""Rows where a decision differs from the vector; tests/vectors/EXCEPTIONS.md says why."""


def rows(name: str) -> list[dict[str, Any]]:
    lines = (DATA / "vectors" / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


@pytest.mark.parametrize("row", rows("loader.jsonl"), ids=lambda row: f"{row['id']}-{row['tag']}")
def test_the_loader_judges_as_the_vector_says(row: dict[str, Any]) -> None:
    expected = OVERRULED.get(row["id"], row["expect"])
    assert answer_loader({key: value for key, value in row.items() if key != "expect"}) == expected


@pytest.mark.parametrize("row", rows("duration.jsonl"), ids=lambda row: repr(row["input"]["raw"]))
def test_durations_are_read_as_the_vector_says(row: dict[str, Any]) -> None:
    answer = answer_duration({key: row[key] for key in ("fn", "input")})
    if "error" in row:
        assert isinstance(answer, dict)
        assert answer["error"]
    else:
        assert answer == row["output"]


@pytest.mark.parametrize("row", rows("env_subst.jsonl"), ids=lambda row: row["input"]["value"])
def test_variables_are_filled_in_as_the_vector_says(row: dict[str, Any]) -> None:
    assert answer_env_subst({key: row[key] for key in ("fn", "input")}) == row["output"]


@pytest.mark.parametrize(
    ("number", "row"), list(enumerate(rows("config_validate.jsonl"), 1)), ids=lambda value: str(value)[:120]
)
def test_whole_configurations_get_the_verdict_of_the_vector(number: int, row: dict[str, Any], tmp_path: Path) -> None:
    source = row["input"]
    if isinstance(source, dict):
        path = DATA / source["file"]
    else:
        path = tmp_path / "tidegate.json"
        path.write_text(source, encoding="utf-8")
    is_exception = f"config_validate.jsonl:{number}" in exceptions()
    assert (verdict_on(path, tmp_path) != row["output"]["valid"]) == is_exception


def verdict_on(path: Path, state_dir: Path) -> bool:
    try:
        load_config(path, environ={}, state_dir=state_dir)
    except InvalidConfig:
        return False
    return True
