"""`tidegate devices code`: a code for a phone, shown once and kept nowhere."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from cli.driver import running_gateway, tidegate

URL = "wss://gate.example"


def test_a_code_is_printed_with_its_picture_and_how_long_it_counts(state: Path) -> None:
    with running_gateway(state):
        done = tidegate("devices", "code", "--address", URL, state=state)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.rstrip("\n").split("\n")
        assert "█" in lines[3]
        code = lines[-3]
        told = json.loads(base64.urlsafe_b64decode(code + "=" * (-len(code) % 4)))
        assert told["url"] == URL
        assert lines[-2] == f"pairs a device that may look and talk, once, within 10 minutes, at {URL}"
        short = tidegate("devices", "code", "--address", URL, "--no-qr", "--node", state=state)
        assert "█" not in short.stdout
        assert "a node, which offers commands" in short.stdout
        stored = b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())
        assert told["bootstrapToken"].encode() not in stored


def test_a_gateway_that_no_phone_reaches_says_what_to_change(state: Path) -> None:
    with running_gateway(state):
        done = tidegate("devices", "code", state=state)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "only bound to loopback" in done.stderr
