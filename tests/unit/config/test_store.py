from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tidegate.config.load import load_config
from tidegate.config.problems import InvalidConfig, WriteRefused
from tidegate.config.store import LAST_GOOD, ConfigWriter, load_or_last_good, save_last_good, write_atomically

TEXT = """{
  // where it listens
  gateway: {
    port: 18790, // as always
  },
  messages: { queue: { cap: 5 } },
}
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "conf" / "tidegate.json"
    path.parent.mkdir()
    path.write_text(TEXT, encoding="utf-8")
    return path


def writer(file: Path) -> ConfigWriter:
    return ConfigWriter(file, environ={}, state_dir=file.parent.parent / "state")


def test_a_change_keeps_comments_and_takes_effect(file: Path) -> None:
    loaded = writer(file).set("gateway.port", 9, writer(file).base_hash())
    assert loaded.config.gateway.port == 9
    assert file.read_text(encoding="utf-8") == TEXT.replace("18790", "9")
    assert mode(file) == 0o600
    assert loaded.digest == writer(file).base_hash()
    assert [path for path in loaded.files if path.name.startswith(".candidate")] == []


def test_a_change_that_would_not_load_is_refused_and_nothing_is_written(file: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"tidegate.json:4:11: gateway.port: must be less"):
        writer(file).set("gateway.port", 99999)
    assert file.read_text(encoding="utf-8") == TEXT
    assert [path.name for path in file.parent.iterdir()] == ["tidegate.json"]


def test_a_change_made_for_another_version_of_the_file_is_refused(file: Path) -> None:
    base = writer(file).base_hash()
    file.write_text(TEXT.replace("5", "6"), encoding="utf-8")
    with pytest.raises(WriteRefused, match="changed by somebody else"):
        writer(file).set("gateway.port", 9, base)


def test_a_key_from_an_included_file_is_changed_there(file: Path) -> None:
    (file.parent / "part.json5").write_text("{ agents: { defaults: { model: 'a/b' } } }", encoding="utf-8")
    file.write_text('{ $include: "part.json5", gateway: { port: 1 } }', encoding="utf-8")
    with pytest.raises(WriteRefused, match=r"agents comes from the included file .*part.json5"):
        writer(file).set("agents.defaults.model", "x/y")
    with pytest.raises(WriteRefused, match="comes from the included file"):
        writer(file).unset("agents")
    assert writer(file).set("gateway.port", 2).config.gateway.port == 2


def test_a_change_that_removes_most_of_the_file_is_refused_and_kept_aside(file: Path) -> None:
    groups = ", ".join(f"'-{number}': {{ requireMention: true }}" for number in range(30))
    file.write_text(f"{{ channels: {{ telegram: {{ botToken: '1:a', groups: {{ {groups} }} }} }} }}", encoding="utf-8")
    before = file.read_text(encoding="utf-8")
    with pytest.raises(WriteRefused, match="more than half"):
        writer(file).unset("channels.telegram.groups")
    assert file.read_text(encoding="utf-8") == before
    assert (file.parent / "tidegate.json.rejected").exists()


def test_the_five_files_before_are_kept(file: Path) -> None:
    for port in range(1, 8):
        writer(file).set("gateway.port", port)
    ports = [
        load_config(file.with_name(f"tidegate.json.bak{suffix}"), environ={}, state_dir=file.parent).config.gateway.port
        for suffix in ("", ".1", ".2", ".3", ".4")
    ]
    assert ports == [6, 5, 4, 3, 2]
    assert mode(file.with_name("tidegate.json.bak")) == 0o600


def test_taking_a_key_away_brings_its_default_back(file: Path) -> None:
    assert writer(file).unset("messages.queue.cap").config.messages.queue.cap == 20
    with pytest.raises(WriteRefused, match="is not set"):
        writer(file).unset("messages.queue.mode")


def test_a_missing_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "tidegate.json"
    assert ConfigWriter(path, environ={}, state_dir=tmp_path).set("gateway.port", 5).config.gateway.port == 5
    assert path.exists()


@pytest.mark.parametrize("path", ["", "a..b", "$include", "gateway.$include"])
def test_paths_that_make_no_sense_are_refused(file: Path, path: str) -> None:
    with pytest.raises(WriteRefused):
        writer(file).set(path, 1)


def test_a_linked_file_stays_a_link(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "conf" / "link.json"
    link.symlink_to(file)
    writer(link).set("gateway.port", 3)
    assert link.is_symlink()
    assert "port: 3" in file.read_text(encoding="utf-8")


def test_the_last_good_copy_is_one_private_file_without_filled_in_secrets(file: Path, tmp_path: Path) -> None:
    (file.parent / "part.json5").write_text("{ gateway: { auth: { token: '${TOKEN}' } } }", encoding="utf-8")
    file.write_text('{ $include: "part.json5", logging: { level: "debug" } }', encoding="utf-8")
    copy = save_last_good(file, tmp_path)
    assert copy == tmp_path / LAST_GOOD
    assert mode(copy) == 0o600
    assert "${TOKEN}" in copy.read_text(encoding="utf-8")
    config = load_config(copy, environ={"TOKEN": "t"}, state_dir=tmp_path).config
    assert (config.gateway.auth.token, config.logging.level) == ("t", "debug")


def test_a_broken_file_is_stood_in_for_by_its_last_good_copy(file: Path, tmp_path: Path) -> None:
    good = load_or_last_good(file, environ={}, state_dir=tmp_path)
    assert not good.is_last_good
    save_last_good(file, tmp_path)
    file.write_text("{ gateway: { port: ", encoding="utf-8")
    stand_in = load_or_last_good(file, environ={}, state_dir=tmp_path)
    assert stand_in.is_last_good
    assert stand_in.loaded.config.messages.queue.cap == 5
    assert [problem.line for problem in stand_in.problems] == [1]
    assert file in stand_in.loaded.files


def test_a_broken_file_without_a_good_copy_is_refused(file: Path, tmp_path: Path) -> None:
    file.write_text("{", encoding="utf-8")
    with pytest.raises(InvalidConfig, match=r"tidegate.json:1:2"):
        load_or_last_good(file, environ={}, state_dir=tmp_path)


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(target, "\ud800")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert target.read_text(encoding="utf-8") == "old"


def test_a_file_that_is_made_ends_with_a_line_break_and_loses_sections_that_are_left_empty(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.json"
    writer = ConfigWriter(path, environ={"HOME": str(tmp_path)}, state_dir=tmp_path)
    writer.set("session.reset.mode", "idle")
    assert path.read_text().endswith("}\n")
    writer.unset("session.reset.mode")
    assert path.read_text().split() == ["{", "}"]


def test_an_empty_section_that_means_something_or_is_commented_stays(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.json"
    path.write_text(
        "{\n  agents: { entries: { main: {}, ops: { name: 'x' } } },\n  session: { /* why */ dmScope: 'main' },\n}\n"
    )
    writer = ConfigWriter(path, environ={"HOME": str(tmp_path)}, state_dir=tmp_path)
    writer.unset("agents.entries.ops.name")
    writer.unset("session.dmScope")
    assert "ops: {" in path.read_text()
    assert "/* why */" in path.read_text()


def test_what_cannot_be_changed_is_told_with_the_real_file(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.json"
    writer = ConfigWriter(path, environ={"HOME": str(tmp_path)}, state_dir=tmp_path)
    with pytest.raises(WriteRefused, match=r"gateway\.port is not set in .*tidegate\.json"):
        writer.unset("gateway.port")
    path.write_text("{ gateway: ")
    for change in (lambda: writer.set("gateway.port", 1), lambda: writer.unset("gateway.port")):
        with pytest.raises(WriteRefused) as refused:
            change()
        assert str(refused.value).startswith(f"{path}:1:")
