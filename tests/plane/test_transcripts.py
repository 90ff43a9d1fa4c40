"""Recordings of the reference gateway, replayed: our side equals the recorded one, or is listed with a reason."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance_kinds.protocol_kinds import replay, server_side, timers

TESTS = Path(__file__).resolve().parents[1]
RECORDINGS = TESTS / "data" / "vectors" / "protocol"
NAMES = sorted(path.stem for path in RECORDINGS.glob("*.jsonl"))
LISTED = re.compile(r"^\| protocol/(?P<name>[\w-]+):(?P<row>[\w.<>-]+) \|", re.MULTILINE)


def load(name: str) -> list[dict[str, Any]]:
    """Return the lines of a recording."""
    return [json.loads(line) for line in (RECORDINGS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def exceptions(name: str) -> set[str]:
    """Return the ids of requests, and names of events, of a recording that are listed as ours."""
    text = (TESTS / "vectors" / "EXCEPTIONS.md").read_text(encoding="utf-8")
    return {found["row"] for found in LISTED.finditer(text) if found["name"] == name}


def request_of(row: dict[str, Any]) -> str:
    """Return which request a row answers, or which event it is."""
    frame = row.get("frame") or row.get("missing") or {}
    return str(row.get("id") or frame.get("id") or frame.get("event", ""))


@pytest.mark.parametrize("name", NAMES)
def test_our_side_of_a_recording_is_the_recorded_one(name: str) -> None:
    lines = load(name)
    ours = [row for row in replay(lines) if not row.get("timer")]
    theirs = server_side(lines)
    left_out = exceptions(name)
    assert [r for r in ours if request_of(r) not in left_out] == [r for r in theirs if request_of(r) not in left_out]


def test_what_comes_by_the_clock_comes() -> None:
    lines = load("tick-idle")
    assert timers(row for row in replay(lines) if row.get("timer")) == timers(lines) == {"tick", "health", "ping"}


def test_the_command_replays_a_recording_from_any_directory(tmp_path: Path) -> None:
    recording = (RECORDINGS / "err-bad-token.jsonl").read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(TESTS / "conformance.py"), "protocol"],
        input=recording,
        capture_output=True,
        cwd=tmp_path,
        text=True,
        timeout=60,
        check=True,
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == server_side(load("err-bad-token"))
