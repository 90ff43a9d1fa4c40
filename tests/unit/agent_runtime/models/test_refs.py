"""Model references."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.agent_runtime.models.refs import normalize_provider, parse_model_ref

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[3] / "data/agent_runtime/model_refs.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("row", [row for row in ROWS if row["fn"] == "parseModelRef"])
def test_references_are_split_as_known(row: dict[str, dict[str, str]]) -> None:
    ref = parse_model_ref(row["input"]["ref"], row["input"]["defaultProvider"])
    assert (None if ref is None else {"provider": ref.provider, "model": ref.model}) == row["output"]


@pytest.mark.parametrize("row", [row for row in ROWS if row["fn"] == "normalizeProviderId"])
def test_provider_names_are_compared_as_known(row: dict[str, dict[str, str]]) -> None:
    assert normalize_provider(row["input"]["id"]) == row["output"]


@given(st.text())
def test_a_reference_reads_as_it_was_written(text: str) -> None:
    ref = parse_model_ref(text, "p")
    assert ref is None or parse_model_ref(str(ref), "other") == ref
