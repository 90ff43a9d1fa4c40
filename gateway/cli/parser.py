"""Every command with its words and help. Nothing heavy is imported here: `--help` has to be quick."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from tidegate import __version__

EPILOG = """\
exit codes: 0 well, 1 a problem was found, 2 wrong usage, 3 time-out, 4 the gateway cannot be reached
start here: `tidegate up` starts the gateway with a chat; `tidegate doctor` says what is wrong"""

Subparsers = Any
"""argparse keeps the type of its sub-parser collection to itself."""


class Arguments(argparse.Namespace):
    """What was asked for.

    Attributes:
        handler: `module:function` inside this package that carries the command out.
    """

    handler: str
    config: str | None = None
    state_dir: str | None = None
    json: bool = False
    no_color: bool = False


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    common = _common()
    parser = argparse.ArgumentParser(
        prog="tidegate",
        description="Your AI agents in every chat app you use, behind one gateway.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common],
    )
    parser.add_argument("--version", action="version", version=f"tidegate {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add = _adder(commands, common)
    _running(add, common)
    _looking(add, common)
    _people(add, common)
    _config(add, common)
    _routing(add, common)
    _shell(add)
    return parser


Add = Callable[..., argparse.ArgumentParser]


def _common() -> argparse.ArgumentParser:
    """The options that stand before or after any command. Absent ones leave the namespace as it is."""
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = common.add_argument_group("everywhere")
    group.add_argument("--config", metavar="FILE", help="configuration file (default: <state>/tidegate.json)")
    group.add_argument("--state-dir", metavar="DIR", help="state directory (default: ~/.tidegate)")
    group.add_argument("--json", action="store_true", help="print JSON for programs")
    group.add_argument("--no-color", action="store_true", help="print without colours (also: NO_COLOR=1)")
    return common


def _adder(commands: Subparsers, common: argparse.ArgumentParser) -> Add:
    def add(name: str, handler: str, text: str, **more: Any) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}.", parents=[common], **more
        )
        parser.set_defaults(handler=handler)
        return parser

    return add


def _group(add: Add, common: argparse.ArgumentParser, name: str, text: str) -> Add:
    """Add a command that only groups others."""
    parser = add(name, "", text)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    return _adder(actions, common)


def _running(add: Add, common: argparse.ArgumentParser) -> None:
    up = add("up", "up:up", "start the gateway here and, in a terminal, a chat with the agent")
    up.add_argument("--port", type=_port, metavar="N", help="listen on this port; 0 picks a free one")
    gateway = _group(add, common, "gateway", "run the gateway as a service")
    run = gateway("run", "run:run", "run the gateway in the foreground; needs no terminal, logs to standard error")
    run.add_argument("--port", type=_port, metavar="N", help="listen on this port; 0 picks a free one")
    chat = add("chat", "chat:chat", "talk to the agent of the running gateway")
    chat.add_argument("--once", metavar="TEXT", help="send TEXT, print the answer, exit")
    chat.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="give up on an answer (default: 300)")


def _looking(add: Add, common: argparse.ArgumentParser) -> None:
    pass


def _people(add: Add, common: argparse.ArgumentParser) -> None:
    pass


def _config(add: Add, common: argparse.ArgumentParser) -> None:
    pass


def _routing(add: Add, common: argparse.ArgumentParser) -> None:
    pass


def _shell(add: Add) -> None:
    pass


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value
