"""The `tidegate` command line: reads the words, loads the one module they need, turns errors into one line."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from tidegate.errors import TidegateError
from tidegate.gateway.cli.parser import Arguments, build_parser

OK = 0
PROBLEM = 1
USAGE = 2
TIMED_OUT = 3
UNREACHABLE = 4
INTERRUPTED = 130
"""Exit codes; `docs/cli.md` lists them."""

Handler = Callable[[Arguments], int]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    raise SystemExit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """Run one command and return its exit code; expected errors become one line each on standard error."""
    arguments = build_parser().parse_args(argv, namespace=Arguments())
    try:
        return _handler(arguments.handler)(arguments)
    except TidegateError as error:
        return _tell(error)
    except BaseExceptionGroup as group:
        expected, others = group.split(TidegateError)
        if expected is None or others is not None:
            raise
        return max(_tell(error) for error in _leaves(expected))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; nothing more may be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


def _tell(error: BaseException) -> int:
    for line in str(error).splitlines() or [type(error).__name__]:
        print(f"tidegate: {line}", file=sys.stderr)
    return int(getattr(error, "exit_code", PROBLEM))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for inner in error.exceptions:
        yield from _leaves(inner)


def _handler(name: str) -> Handler:
    """Load a command; modules load one by one so that a quick command stays quick."""
    module, _, function = name.partition(":")
    return cast("Handler", getattr(importlib.import_module(f"tidegate.gateway.cli.{module}"), function))
