"""`tidegate service`: what it writes, what it runs, and that what it writes starts a gateway."""

from __future__ import annotations

import configparser
import json
import os
import plistlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.driver import clean_environment, short_state_dir
from tidegate.gateway.service_files import Condition, Manager, Plan, Service, condition, plan, quoted

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).with_name("tidegate")
DEADLINE = 30.0
SYSTEMCTL = """#!/bin/sh
# Keeps what it was asked, and whether the unit runs, as systemctl would.
echo "systemctl $*" >> "$FAKE/asked"
case "$*" in
*daemon-reload*) [ -z "$REFUSES" ] || { echo "Failed to connect to bus: No medium found" >&2; exit 1; } ;;
*restart*) : > "$FAKE/active" ;;
*disable*) /bin/rm -f "$FAKE/active" ;;
*is-active*) [ -e "$FAKE/active" ] && echo active || { echo inactive; exit 3; } ;;
esac
"""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="speaks to systemd")


class Machine:
    """A home with a service manager that only takes notes."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.bin = home / "bin"
        self.bin.mkdir()
        systemctl = self.bin / "systemctl"
        systemctl.write_text(SYSTEMCTL)
        systemctl.chmod(0o755)
        self.unit = home / ".config/systemd/user/tidegate.service"

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        return subprocess.run(
            [str(PROGRAM), "service", *words],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
            env=clean_environment(HOME=str(self.home), **{"PATH": str(self.bin), "FAKE": str(self.home), **env}),
        )

    @property
    def asked(self) -> list[str]:
        """What the service manager was asked, in order."""
        notes = self.home / "asked"
        return notes.read_text().splitlines() if notes.exists() else []

    def port_in_config(self) -> int:
        """Let the gateway listen on a port that was free just now."""
        port = free_port()
        (self.home / ".tidegate").mkdir(exist_ok=True)
        (self.home / ".tidegate" / "tidegate.json").write_text(json.dumps({"gateway": {"port": port}}))
        return port


def free_port() -> int:
    """Return a port that was free just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def machine() -> Iterator[Machine]:
    with short_state_dir() as home:
        yield Machine(home)


def unit_of(path: Path) -> configparser.ConfigParser:
    """Return a unit as its sections and keys."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path)
    return parser


def words_of(line: str) -> list[str]:
    """Return the words of a command line as systemd reads them: quotes and escapes, then specifiers and variables."""
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line)]


def healthy(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the gateway answers."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2) as answer:
                assert json.load(answer) == {"ok": True, "status": "live"}
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"no gateway answers on {port}: {process.poll()}")


def starts(words: list[str], port: int, env: dict[str, str]) -> None:
    """Start a command line as a service manager does: nothing but these words; then stop it as one does."""
    process = subprocess.Popen(words, env=env, cwd="/", stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        healthy(port, process)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0


def test_the_command_line_of_the_installed_unit_starts_a_gateway(machine: Machine) -> None:
    port = machine.port_in_config()
    done = machine.run("install")
    assert done.returncode == 0, done.stderr
    words = words_of(unit_of(machine.unit)["Service"]["ExecStart"])
    assert words[0] == str(PROGRAM)
    state = str(machine.home / ".tidegate")
    assert words[1:] == ["gateway", "run", "--state-dir", state, "--config", f"{state}/tidegate.json"]
    starts(words, port, {"HOME": "/", "PATH": "/usr/bin:/bin"})


def test_the_command_line_of_the_property_list_starts_a_gateway(machine: Machine) -> None:
    port = machine.port_in_config()
    command = (str(PROGRAM), "gateway", "run", "--state-dir", str(machine.home / ".tidegate"))
    made = plan(Manager.LAUNCHD, Service(command, machine.home), machine.home, uid=501)
    data = plistlib.loads(made.content.encode())
    assert made.path == machine.home / "Library/LaunchAgents/ai.tidegate.gateway.plist"
    assert made.apply[-1].words == ("launchctl", "bootstrap", "gui/501", str(made.path))
    assert (data["KeepAlive"], data["RunAtLoad"], data["Umask"]) == (True, True, 0o077)
    starts(data["ProgramArguments"], port, {"HOME": "/", "PATH": "/usr/bin:/bin"})


def test_installing_enables_and_starts_and_can_be_repeated(machine: Machine) -> None:
    steps = ["daemon-reload", "enable tidegate.service", "restart tidegate.service"]
    for _ in range(2):
        (machine.home / "asked").unlink(missing_ok=True)
        done = machine.run("install", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["started"] is True
        assert [line for line in machine.asked if "is-active" not in line] == [f"systemctl --user {s}" for s in steps]
    assert machine.run("status").returncode == 0
    assert json.loads(machine.run("status", "--json").stdout)["condition"] == "current"


def test_an_edited_unit_is_never_overwritten_or_deleted_without_force(machine: Machine) -> None:
    machine.run("install")
    edited = machine.unit.read_text().replace("RestartSec=3", "RestartSec=60")
    machine.unit.write_text(edited)
    for action in ("install", "remove"):
        done = machine.run(action)
        assert done.returncode == 1
        assert "was changed by hand" in done.stderr
        assert machine.unit.read_text() == edited
    assert json.loads(machine.run("status", "--json").stdout)["condition"] == "edited"
    assert machine.run("install", "--force").returncode == 0
    assert "RestartSec=3" in machine.unit.read_text()
    assert machine.unit.with_name("tidegate.service.bak").read_text() == edited


def test_a_unit_for_other_files_is_written_anew(machine: Machine) -> None:
    machine.run("install", "--state-dir", str(machine.home / "other"))
    assert json.loads(machine.run("status", "--json").stdout)["condition"] == "outdated"
    assert machine.run("install").returncode == 0
    assert f"--state-dir {machine.home}/.tidegate" in machine.unit.read_text()


def test_removing_stops_and_deletes_the_unit_and_keeps_the_state(machine: Machine) -> None:
    machine.run("install")
    done = machine.run("remove")
    assert done.returncode == 0, done.stderr
    assert machine.asked[-2:] == ["systemctl --user disable --now tidegate.service", "systemctl --user daemon-reload"]
    assert not machine.unit.exists()
    assert (machine.home / ".tidegate").is_dir()
    assert machine.run("remove").returncode == 0
    assert machine.run("status").returncode == 1


def test_a_dry_run_prints_everything_and_does_nothing(machine: Machine) -> None:
    done = machine.run("install", "--dry-run")
    assert done.returncode == 0
    assert "ExecStart=" in done.stdout
    assert "systemctl --user enable tidegate.service" in done.stdout
    assert "systemctl --user disable --now tidegate.service" in machine.run("remove", "--dry-run").stdout
    assert not machine.unit.exists()
    assert not machine.asked
    assert not (machine.home / ".tidegate").exists()


@pytest.mark.parametrize("why", ["missing", "refuses"])
def test_without_a_service_manager_it_says_what_to_run(machine: Machine, why: str) -> None:
    env = {"REFUSES": "1"}
    if why == "missing":
        (machine.bin / "systemctl").unlink()
        env = {}
    done = machine.run("install", **env)
    assert done.returncode == 1
    assert machine.unit.exists()
    told = "systemctl is not here" if why == "missing" else "Failed to connect to bus"
    assert told in done.stderr
    assert "systemctl --user restart tidegate.service" in done.stderr


def test_a_service_of_the_system_never_runs_as_root(machine: Machine) -> None:
    done = machine.run("install", "--system", "--dry-run", "--run-as", "root")
    assert done.returncode == 1
    assert "must not run as root" in done.stderr
    done = machine.run("install", "--system", "--dry-run", "--run-as", "nobody", "--state-dir", "/var/lib/tidegate")
    assert done.returncode == 0, done.stderr
    assert "# /etc/systemd/system/tidegate.service" in done.stdout
    assert "User=nobody" in done.stdout
    assert "--state-dir /var/lib/tidegate" in done.stdout


def test_it_does_not_start_beside_a_gateway_that_runs_by_hand(machine: Machine) -> None:
    port = machine.port_in_config()
    env = clean_environment(HOME=str(machine.home))
    process = subprocess.Popen([str(PROGRAM), "gateway", "run"], env=env, stderr=subprocess.DEVNULL)
    try:
        healthy(port, process)
        done = machine.run("install")
        assert done.returncode == 1
        assert f"(pid {process.pid}) uses" in done.stderr
        assert not machine.unit.exists()
    finally:
        process.terminate()
        process.wait(DEADLINE)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("user", ["", "daemon"])
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path, user: str) -> None:
    command = (str(PROGRAM), "gateway", "run", "--state-dir", f"{tmp_path}/with space, 100% and $HOME")
    made = plan(Manager.SYSTEMD, Service(command, tmp_path, user), tmp_path)
    unit = tmp_path / "tidegate.service"
    unit.write_text(made.content)
    scope = [] if user else ["--user"]
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        ["systemd-analyze", "verify", *scope, "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=env,
    )
    about_ours = [line for line in done.stderr.splitlines() if "tidegate.service" in line]
    assert not about_ours
    assert words_of(unit_of(unit)["Service"]["ExecStart"]) == list(command)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n\t"), min_size=1), min_size=1))
def test_any_words_survive_the_quoting(words: list[str]) -> None:
    assert words_of(" ".join(map(quoted, words))) == words


def test_only_the_own_unchanged_text_counts_as_ours(tmp_path: Path) -> None:
    def made(state: str, manager: Manager) -> Plan:
        return plan(manager, Service(("/bin/tidegate", "--state-dir", state), Path(state)), tmp_path)

    for manager in Manager:
        wanted, other = made("/a", manager), made("/b", manager)
        assert condition(None, wanted) is Condition.ABSENT
        assert condition(wanted.content, wanted) is Condition.CURRENT
        assert condition(other.content, wanted) is Condition.OUTDATED
        assert condition(other.content.replace("/b", "/c"), wanted) is Condition.EDITED
        assert condition("[Service]\nExecStart=/bin/tidegate\n", wanted) is Condition.EDITED


def test_the_examples_are_what_is_written() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/deploy_units.py"), "--check"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    for path in (ROOT / "deploy/systemd").iterdir():
        assert re.search(r"^ExecStart=/opt/tidegate/bin/tidegate gateway run", path.read_text(), re.MULTILINE)
