"""What the commands say when something is in the way: one line, the right exit code, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.driver import tidegate


@pytest.mark.parametrize(
    "words",
    [
        ("gateway", "run", "--port", "0"),
        ("status",),
        ("config", "set", "session.dmScope", "main"),
        ("pairing", "list"),
        ("doctor",),
        ("logs",),
    ],
)
@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_file_in_the_place_of_the_state_directory_is_told_in_words(state: Path, words: tuple[str, ...], below: str):
    (state / "file").write_text("not a folder")
    done = tidegate(*words, state=state / "file" / below)
    assert done.returncode in (1, 4), done.stdout
    assert "Traceback" not in done.stderr
    assert str(state / "file") in done.stderr + done.stdout


def test_a_failure_is_json_where_json_was_asked_for(state: Path):
    done = tidegate("pairing", "approve", "telegram", "NONE", "--json", state=state)
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert answer["ok"] is False
    assert "NONE" in answer["error"]
    assert done.stderr == f"tidegate: {answer['error']}\n"


def test_a_configuration_file_that_is_named_must_exist(state: Path):
    absent = state / "absent.json"
    for words in (("config", "check"), ("status",), ("gateway", "run"), ("doctor",), ("config", "unset", "a.b")):
        done = tidegate(*words, "--config", str(absent), state=state)
        assert (done.returncode, f"{absent} does not exist" in done.stderr) == (1, True), words
    made = tidegate("config", "set", "gateway.port", "19000", "--config", str(absent), state=state)
    assert made.returncode == 0
    assert absent.read_text().endswith("}\n")


@pytest.mark.parametrize("words", [("approve", "telgram", "AB"), ("list", "telgram"), ("reject", "telgram/x", "AB")])
def test_a_channel_that_does_not_exist_is_named_as_such(state: Path, words: tuple[str, ...]):
    done = tidegate("pairing", *words, state=state)
    assert done.returncode == 1
    assert "there is no channel 'telgram'; did you mean 'telegram'?" in done.stderr


def test_a_chat_that_a_platform_cannot_have_is_refused_before_anything_is_queued(state: Path):
    token = "123456:" + "A" * 35
    (state / "tidegate.json").write_text(json.dumps({"channels": {"telegram": {"botToken": token}}}))
    done = tidegate("send", "--channel", "telegram", "--to", "abc", "hello", state=state)
    assert done.returncode == 1
    assert "'abc' is no chat of telegram" in done.stderr
    for chat in ("4242", "-100777", "@some_channel"):
        assert tidegate("send", "--channel", "telegram", f"--to={chat}", "hello", state=state).returncode == 0
