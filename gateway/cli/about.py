"""`tidegate help` and `tidegate version`."""

from __future__ import annotations

import argparse
import json

from tidegate import __version__
from tidegate.gateway.cli.parser import Arguments, build_parser, guess


def help_(arguments: Arguments) -> int:
    """Print the help of the command that the words name, or of all."""
    parser: argparse.ArgumentParser = build_parser()
    for word in arguments.words:
        inner = next((action for action in parser._actions if isinstance(action, argparse._SubParsersAction)), None)
        choices = inner.choices if inner is not None else {}
        if word not in choices:
            parser.error(f"there is no command {word!r}{guess(word, choices)}")
        parser = choices[word]
    parser.print_help()
    return 0


def version(arguments: Arguments) -> int:
    """Print the version."""
    print(json.dumps({"version": __version__}) if arguments.json else f"tidegate {__version__}")
    return 0
