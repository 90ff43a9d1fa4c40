"""`tidegate web` and the line at a start: a link is told to whoever sits at the terminal, and to nobody else."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from cli.driver import Terminal, running_gateway, tidegate

LINK = re.compile(r"web chat: (http://127\.0\.0\.1:\d+)/#code=([\w-]{32}) \(once, within 10 minutes\)")


def everything(state: Path) -> bytes:
    """Return all that is stored, logs too."""
    return b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())


def test_each_call_prints_a_new_link_and_only_its_hash_is_stored(state: Path) -> None:
    with running_gateway(state) as gateway:
        first, second = tidegate("web", state=state), tidegate("web", "--json", state=state)
        found = LINK.fullmatch(first.stdout.strip())
        assert found, first
        data = json.loads(second.stdout)
        assert data["links"][0].startswith(f"{found[1]}/#code=")
        assert data["expiresAtMs"] > 0
        other = data["links"][0].partition("#code=")[2]
        assert other != found[2]
        with urllib.request.urlopen(f"{found[1]}/", timeout=10) as page:
            assert b"/assets/main.js" in page.read()
        stored = everything(state)
        assert found[2].encode() not in stored
        assert other.encode() not in stored
        assert gateway.stderr is not None


def test_a_start_in_a_terminal_shows_a_link_that_no_log_holds(state: Path) -> None:
    with Terminal("gateway", "run", "--port", "0", state=state) as terminal:
        terminal.wait_for("within 10 minutes)")
        found = LINK.search(re.sub(r"\s+", " ", terminal.text).replace("#code= ", "#code="))
        assert found, terminal.text
        os.kill(terminal.process.pid, signal.SIGTERM)
        assert terminal.wait_for_end() == 0
        assert found[2].encode() not in everything(state)


def test_a_start_without_a_terminal_shows_none(state: Path) -> None:
    with running_gateway(state) as gateway:
        pass
    assert gateway.stderr is not None
    assert b"#code=" not in everything(state)


def test_opening_hands_the_link_over_in_a_file_that_is_gone_afterwards(state: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" > {seen}.address\nfile="${{1#file://}}"\n'
        f'stat -c %a "$file" > {seen}.mode\ncp "$file" {seen}.page\n'
    )
    browser.chmod(0o755)
    with running_gateway(state):
        done = tidegate("web", "--open", state=state, env={"BROWSER": str(browser)})
    assert done.returncode == 0, done
    link = done.stdout.partition("web chat: ")[2].partition(" ")[0]
    assert "#code=" not in (tmp_path / "seen.address").read_text()
    assert (tmp_path / "seen.mode").read_text().strip() == "600"
    assert link in (tmp_path / "seen.page").read_text()
    assert not (state / "open-web.html").exists()


def test_without_a_desktop_no_browser_is_started_in_the_terminal(state: Path, tmp_path: Path) -> None:
    browser = tmp_path / "w3m"
    browser.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    browser.chmod(0o755)
    with running_gateway(state):
        done = tidegate("web", "--open", state=state, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert LINK.search(done.stdout)
    assert "no browser could be opened here; open the link yourself" in done.stderr
    assert not (tmp_path / "started").exists()


def test_without_a_gateway_there_is_no_link(state: Path) -> None:
    done = tidegate("web", state=state)
    assert done.returncode == 4
    assert "no gateway runs" in done.stderr
    assert done.stdout == ""


def test_switched_off_there_is_neither_link_nor_page(state: Path) -> None:
    (state / "tidegate.json").write_text("{ gateway: { controlUi: { enabled: false } } }")
    with running_gateway(state):
        done = tidegate("web", state=state)
        assert done.returncode == 1
        assert "gateway.controlUi.enabled" in done.stderr
        port = json.loads(tidegate("status", "--json", state=state).stdout)["port"]
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10)
        assert caught.value.code == 404
