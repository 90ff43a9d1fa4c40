"""Commands in chat."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.routing.commands import (
    Command,
    has_control_command,
    has_inline_command_tokens,
    is_abort_request,
    is_control_command_message,
    normalize_command_body,
    parse_command,
)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/status", Command("status")),
        (" /STATUS please ", Command("status", "please")),
        ("/id", Command("whoami")),
        ("/new\nfirst line\nsecond", Command("new", "first line\nsecond")),
        ("/queue: collect", Command("queue", "collect")),
        ("/status@TideBot now", Command("status", "now")),
        ("/stop right now", Command("stop", "right now")),
        ("/resume 2", Command("resume", "2")),
        ("/bash ls", Command("bash", "ls", is_supported=False)),
        ("/side x", Command("btw", "x", is_supported=False)),
    ],
)
def test_commands_are_read_with_their_argument(text: str, command: Command) -> None:
    assert parse_command(text, "tidebot") == command


@pytest.mark.parametrize(
    "text",
    ["", "/", "/ status", "//status", "hey /status", "/unknown", "/help me please", "/status@other", "/usr/bin/x"],
)
def test_ordinary_text_is_no_command(text: str) -> None:
    assert parse_command(text, "tidebot") is None


@pytest.mark.parametrize(
    "text", ["stop", "Stop!", "STOP.", "please  stop", "стоп", "やめて。", "don't stop", "stop it"]
)
def test_a_whole_message_of_a_stop_word_stops(text: str) -> None:
    assert is_abort_request(text) == (text not in ("don't stop", "stop it"))


@given(st.text(max_size=60), st.one_of(st.none(), st.text(max_size=8)))
def test_any_text_can_be_asked_and_the_answers_agree(text: str, bot: str | None) -> None:
    command = parse_command(text, bot)
    assert (command is not None) == has_control_command(text, bot)
    assert has_control_command(text, bot) <= is_control_command_message(text, bot)
    if command is not None:
        assert has_inline_command_tokens(text)
        body = normalize_command_body(text, bot)
        assert parse_command(body) == command, "the canonical spelling means the same"
