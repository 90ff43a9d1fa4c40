"""`tidegate devices code`: a link or a code for a phone, shown once and kept nowhere."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

from cli.driver import Terminal, running_gateway, tidegate

URL = "https://gate.example"
LINK = re.compile(r"https://gate\.example/#code=([\w-]{32})")


def test_a_link_is_printed_with_its_picture_and_how_long_it_counts(state: Path) -> None:
    with running_gateway(state):
        done = tidegate("devices", "code", "--address", URL, state=state)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.rstrip("\n").split("\n")
        assert "█" in lines[3]
        found = LINK.fullmatch(lines[-4])
        assert found, done.stdout
        assert "opens the web chat in the browser of one phone, once, within 10 minutes" in lines[-3]
        assert "`tidegate devices code --app`" in lines[-2]
        short = tidegate("devices", "code", "--address", URL, "--no-qr", state=state)
        assert "█" not in short.stdout
        stored = b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())
        assert found[1].encode() not in stored


def test_the_code_of_the_apps_is_printed_where_it_is_asked_for(state: Path) -> None:
    with running_gateway(state):
        done = tidegate("devices", "code", "--address", URL, "--app", state=state)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.rstrip("\n").split("\n")
        assert "█" in lines[3]
        code = lines[-3]
        told = json.loads(base64.urlsafe_b64decode(code + "=" * (-len(code) % 4)))
        assert told["url"] == URL
        assert lines[-2].startswith(f"pairs a device that may look and talk, once, within 10 minutes, at {URL}: scan")
        node = tidegate("devices", "code", "--address", URL, "--no-qr", "--node", state=state)
        assert "a node, which offers commands" in node.stdout
        tailnet = tidegate("devices", "code", "--address", "ws://100.64.0.7:18790", state=state)
        assert "no link for a browser, because ws://100.64.0.7:18790 is no https address" in tailnet.stdout


def test_a_gateway_that_no_phone_reaches_says_what_to_change(state: Path) -> None:
    with running_gateway(state):
        done = tidegate("devices", "code", state=state)
        wrong = tidegate("devices", "code", "--address", "gate.example", state=state)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "tidegate: a phone cannot reach this gateway: it listens on this machine only. Set up docs/remote.md first, "
        "or give its https address with --address https://…\n"
    )
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "--address gate.example is no address that a phone can use safely: write https://HOST" in wrong.stderr


def test_a_window_that_is_narrower_than_the_picture_gets_none_and_is_told(state: Path) -> None:
    with (
        running_gateway(state),
        Terminal("devices", "code", "--address", URL, state=state, columns=40) as terminal,
    ):
        terminal.wait_for("(no picture: it needs 41 columns, and this window has 40)")
        assert terminal.wait_for_end() == 0
        assert "█" not in terminal.text
