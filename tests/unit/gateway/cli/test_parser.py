"""The words of the command line."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys

import pytest

from tidegate import __version__
from tidegate.gateway.cli.completion import walk
from tidegate.gateway.cli.main import run
from tidegate.gateway.cli.parser import Arguments, build_parser


def parsed(*words: str) -> Arguments:
    return build_parser().parse_fully(words)


@pytest.mark.parametrize(
    "words", [("--json", "--state-dir", "/s", "status"), ("status", "--state-dir", "/s", "--json")]
)
def test_global_options_stand_before_or_after_the_command(words: tuple[str, ...]):
    arguments = parsed(*words)
    assert (arguments.json, arguments.state_dir, arguments.config) == (True, "/s", None)


def test_a_global_option_after_a_nested_command_wins():
    assert parsed("--config", "a", "config", "--config", "b", "get", "--config", "c", "x").config == "c"


def handlers(parser: argparse.ArgumentParser) -> set[str]:
    found = {str(parser.get_default("handler") or "")}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= set().union(*(handlers(sub) for sub in action.choices.values()))
    return found - {""}


def test_every_command_has_the_function_that_it_names():
    for name in handlers(build_parser()):
        module, _, function = name.partition(":")
        assert callable(getattr(importlib.import_module(f"tidegate.gateway.cli.{module}"), function))


def test_every_command_and_option_has_help():
    for words in walk(build_parser()):
        nameless = [name for name, text in {**words.commands, **words.options}.items() if not text]
        assert nameless == [], words.command


def test_every_command_takes_json():
    assert [words.command for words in walk(build_parser()) if "--json" not in words.options] == []


@pytest.mark.parametrize(
    "words",
    [
        ("gateway", "run", "--port", "65536"),
        ("route", "explain", "--channel", "x", "--peer", "person:7"),
        ("logs", "-n", "0"),
        ("nonsense",),
        ("status", "--wach"),
    ],
)
def test_wrong_words_end_with_code_two(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        parsed(*words)
    assert ended.value.code == 2
    assert "usage: tidegate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("statsu",), "did you mean 'status'?"),
        (("config", "st"), "did you mean 'set'?"),
        (("config", "check", "--efective"), "did you mean '--effective'?"),
        (("help", "config", "chekc"), "did you mean 'check'?"),
    ],
)
def test_a_mistyped_word_is_guessed_and_the_usage_is_that_of_its_command(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        run(words)
    shown = capsys.readouterr().err
    assert ended.value.code == 2
    assert told in shown
    if "--efective" in words:
        assert "usage: tidegate config check " in shown


@pytest.mark.parametrize("words", [(), ("config",), ("gateway",)])
def test_a_command_alone_that_only_groups_others_prints_its_help(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    assert run(words) == 2
    assert ("commands:" if not words else "actions:") in capsys.readouterr().err


def test_help_and_version_are_commands_too(capsys: pytest.CaptureFixture[str]):
    assert run(("help", "config", "set")) == 0
    assert "usage: tidegate config set" in capsys.readouterr().out
    assert run(("version",)) == 0
    assert capsys.readouterr().out == f"tidegate {__version__}\n"


def test_help_loads_nothing_heavy():
    code = (
        "import sys\n"
        "from tidegate.gateway.cli.parser import build_parser\n"
        "import tidegate.gateway.cli.main\n"
        "build_parser().format_help()\n"
        "print([name for name in ('asyncio', 'aiohttp', 'pydantic', 'sqlite3') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
