"""The `tidegate` command line: reads the words, loads the one module they need, turns errors into one line."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from tidegate.errors import TidegateError
from tidegate.gateway.cli.parser import Arguments, build_parser
from tidegate.gateway.cli.terminal import as_json

OK = 0
PROBLEM = 1
USAGE = 2
TIMED_OUT = 3
UNREACHABLE = 4
INTERRUPTED = 130
"""Exit codes; `docs/cli.md` lists them."""

MISFITS = (LookupError, TypeError, AttributeError, ValueError)
"""What comes of an answer that has another shape than ours."""
NOT_OURS = "the gateway answers in another shape than this program knows ({}); use the same version on both sides"

Handler = Callable[[Arguments], int]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    raise SystemExit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """Run one command and return its exit code; expected errors become one line each on standard error."""
    arguments = build_parser().parse_fully(argv)
    if not arguments.handler:
        arguments.parser.print_help(sys.stderr)
        return USAGE
    try:
        return _handler(arguments.handler)(arguments)
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            # The terminal shows ^C, perhaps behind half a line of ours.
            print(file=sys.stderr)
        return INTERRUPTED
    except BaseException as error:
        expected = list(_leaves(error))
        if all(isinstance(leaf, BrokenPipeError) for leaf in expected):
            # Whoever read our output has gone; nothing more may be written, not even at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return OK
        if not all(map(_is_expected, expected)):
            if not (_asks_elsewhere(arguments) and all(isinstance(leaf, MISFITS) for leaf in expected)):
                raise
            expected = [TidegateError(NOT_OURS.format(type(expected[0]).__name__))]
        return _tell(expected, for_programs=arguments.json)


def _asks_elsewhere(arguments: Arguments) -> bool:
    """Tell whether a gateway answered that may be any version, or no gateway of ours."""
    return bool(arguments.url or os.environ.get("TIDEGATE_GATEWAY_URL"))


def _is_expected(error: BaseException) -> bool:
    """Tell whether a person can act on an error as it is: ours, and files that cannot be used."""
    return isinstance(error, TidegateError) or (isinstance(error, OSError) and error.filename is not None)


def _tell(errors: Sequence[BaseException], *, for_programs: bool) -> int:
    lines = [line for error in errors for line in _text(error).splitlines()]
    for line in lines:
        print(f"tidegate: {line}", file=sys.stderr)
    if for_programs:
        print(as_json({"ok": False, "error": "\n".join(lines)}, indent=None))
    return max(int(getattr(error, "exit_code", PROBLEM)) for error in errors)


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and not isinstance(error, TidegateError):
        return f"{os.fsdecode(error.filename)} cannot be used: {error.strerror or type(error).__name__}"
    return str(error) or type(error).__name__


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for inner in error.exceptions:
        yield from _leaves(inner)


def _handler(name: str) -> Handler:
    """Load a command; modules load one by one so that a quick command stays quick."""
    module, _, function = name.partition(":")
    # Nothing that an import makes is garbage; looking for some costs a tenth of a start.
    gc.disable()
    try:
        return cast("Handler", getattr(importlib.import_module(f"tidegate.gateway.cli.{module}"), function))
    finally:
        gc.freeze()
        gc.enable()
