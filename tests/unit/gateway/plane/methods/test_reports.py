"""The tail of a log file by byte cursor."""

from __future__ import annotations

from pathlib import Path

from tidegate.gateway.plane.methods.reports import tail


def test_the_last_lines_come_first_and_the_cursor_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("one\ntwo\nthree\n")
    first = tail(log, None, 2, 1000)
    assert (first["lines"], first["cursor"], first["truncated"]) == (["two", "three"], 14, True)
    with log.open("a") as file:
        file.write("four\nfi")
    second = tail(log, first["cursor"], 10, 1000)
    assert (second["lines"], second["cursor"], second["truncated"]) == (["four"], 19, False)
    with log.open("a") as file:
        file.write("ve\n")
    assert tail(log, second["cursor"], 10, 1000)["lines"] == ["five"]


def test_a_line_that_would_be_cut_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("a long line\nend\n")
    found = tail(log, None, 10, 8)
    assert (found["lines"], found["truncated"], found["cursor"]) == (["end"], True, 16)


def test_a_file_that_was_begun_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("new\n")
    found = tail(log, 500, 10, 1000)
    assert (found["lines"], found["reset"]) == (["new"], True)


def test_a_file_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert tail(tmp_path / "none", None, 10, 100)["lines"] == []
