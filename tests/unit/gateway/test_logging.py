"""Log lines: where they go, how large the file gets, and what is never in it."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tidegate.gateway.logging import Redactor, RotatingFile, configure_logging, log_path
from tidegate.gateway.site import Site


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def events(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_the_file_is_bounded_and_one_older_one_is_kept(tmp_path: Path):
    file = RotatingFile(tmp_path / "logs" / "gateway.log", max_bytes=100)
    for number in range(50):
        file.write(f"line {number:03}")
    file.close()
    new, old = tmp_path / "logs" / "gateway.log", tmp_path / "logs" / "gateway.log.1"
    assert new.stat().st_size <= 100
    assert old.stat().st_size <= 100
    assert (old.read_text() + new.read_text()).splitlines()[-1] == "line 049"
    assert sorted(path.name for path in new.parent.iterdir()) == ["gateway.log", "gateway.log.1"]
    assert stat.S_IMODE(new.stat().st_mode) == 0o600


def test_a_restart_goes_on_in_the_same_file(tmp_path: Path):
    for text in ("one", "two"):
        file = RotatingFile(tmp_path / "g.log", max_bytes=100)
        file.write(text)
        file.close()
    assert (tmp_path / "g.log").read_text() == "one\ntwo\n"


def test_a_disk_that_takes_nothing_stops_nobody():
    file = RotatingFile(Path("/dev/full"), max_bytes=1 << 20) if Path("/dev/full").exists() else None
    if file is None:
        pytest.skip("no /dev/full here")
    file.write("lost")
    file.close()


def test_the_console_and_the_file_have_levels_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = RotatingFile(tmp_path / "g.log", max_bytes=1 << 20)
    configure_logging("info", "json", Redactor(), file, console="error")
    log = structlog.get_logger("test")
    log.debug("too.small")
    log.info("for.file")
    log.error("for.both")
    assert [event["event"] for event in events(file.path)] == ["for.file", "for.both"]
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["for.both"]


def test_a_silent_console_stays_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    configure_logging("info", "pretty", Redactor(), RotatingFile(tmp_path / "g.log", 1 << 20), console=None)
    structlog.get_logger("test").error("only.file")
    assert capsys.readouterr().err == ""
    assert events(tmp_path / "g.log")[0]["event"] == "only.file"


def test_the_file_says_utc_and_holds_no_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    configure_logging("info", "pretty", Redactor(), RotatingFile(tmp_path / "g.log", 1 << 20))
    structlog.get_logger("test").info("key.used", key="sk-abcdefgh12345678")
    (event,) = events(tmp_path / "g.log")
    assert str(event["timestamp"]).endswith("Z")
    assert "abcdefgh" not in json.dumps(event) + capsys.readouterr().err


def test_the_log_lies_in_the_state_directory_unless_told_otherwise(tmp_path: Path):
    site = Site(tmp_path, tmp_path / "c.json")
    assert log_path(None, site) == tmp_path / "logs" / "gateway.log"
    assert log_path("own.log", site) == tmp_path / "own.log"
    assert log_path("/var/log/tidegate.log", site) == Path("/var/log/tidegate.log")
