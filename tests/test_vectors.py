"""Every conformance vector is answered as recorded, or listed as an exception with the decision behind it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance_kinds import KINDS, answerer

TESTS = Path(__file__).resolve().parent
VECTORS = TESTS / "data" / "vectors"
EXPECTED_PARTS = ("expect", "output", "error", "expectWithoutLoader", "loaderError")
EXCEPTION = re.compile(r"^\| (?P<row>[\w.-]+:\d+|[\w-]+-\d+) \| (?P<decision>\d+) \|", re.MULTILINE)


def exceptions() -> dict[str, str]:
    """Return the listed rows with their decisions."""
    text = (TESTS / "vectors" / "EXCEPTIONS.md").read_text(encoding="utf-8")
    return {found["row"]: found["decision"] for found in EXCEPTION.finditer(text)}


def rows(kind: str) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return name, question and expected part of each row of a kind."""
    found = []
    lines = (VECTORS / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        row = json.loads(line)
        expected = {part: row.pop(part) for part in EXPECTED_PARTS if part in row}
        found.append((row.get("id") or f"{kind}.jsonl:{number}", row, expected))
    return found


def agrees(answer: Any, expected: dict[str, Any]) -> bool:
    """Return whether an answer is the recorded one; the words of an error are not compared, only that it is one."""
    if "error" in expected:
        return isinstance(answer, dict) and "error" in answer
    return bool(answer == expected.get("expect", expected.get("output")))


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_answered_as_recorded_or_listed_as_an_exception(kind: str) -> None:
    answer, listed = answerer(kind), exceptions()
    differing = {name for name, row, expected in rows(kind) if not agrees(answer(row), expected)}
    allowed = {name for name, _, _ in rows(kind) if name in listed}
    assert differing - allowed == set(), "rows that differ and are not listed"
    assert allowed - differing == set(), "rows that are listed and agree"


def test_every_listed_exception_is_a_row() -> None:
    # Whole configurations are judged in unit/config, where their files are.
    known = {name for kind in (*KINDS, "config_validate") for name, _, _ in rows(kind)}
    assert exceptions().keys() <= known


def test_the_command_answers_rows_from_any_directory(tmp_path: Path) -> None:
    asked = rows("normalize")[:3]
    done = subprocess.run(
        [sys.executable, str(TESTS / "conformance.py"), "normalize"],
        input="\n".join(json.dumps(row) for _, row, _ in asked),
        capture_output=True,
        cwd=tmp_path,
        text=True,
        timeout=60,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers == [expected["expect"] for _, _, expected in asked]


def test_a_row_that_cannot_be_read_keeps_its_line() -> None:
    done = subprocess.run(
        [sys.executable, str(TESTS / "conformance.py"), "normalize"],
        input='{"fn": "nonsense", "input": {}}\n{"fn": "normalizeAgentId", "input": {"value": "Ops"}}\n',
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    first, second = map(json.loads, done.stdout.splitlines())
    assert "error" in first
    assert second == "ops"


def test_an_unknown_kind_is_refused_with_the_list_of_kinds() -> None:
    done = subprocess.run(
        [sys.executable, str(TESTS / "conformance.py"), "nonsense"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "session_key" in done.stderr
