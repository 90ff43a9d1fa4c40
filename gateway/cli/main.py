"""The `tidegate` command line."""

from __future__ import annotations

import argparse
import asyncio
import sys

from tidegate.config.load import environment, locate
from tidegate.errors import TidegateError
from tidegate.gateway.app import Site
from tidegate.gateway.lifecycle import Life


def main() -> None:
    """Run the command line and exit with its code."""
    parser = argparse.ArgumentParser(prog="tidegate")
    parser.add_argument("group")
    parser.add_argument("action", nargs="?")
    parser.add_argument("--config")
    parser.add_argument("--state-dir")
    parser.add_argument("--port", type=int)
    arguments = parser.parse_args()
    environ = environment()
    paths = locate(arguments.config, arguments.state_dir, environ)
    try:
        asyncio.run(Life(Site(paths.state_dir, paths.config, arguments.port), environ).run())
    except TidegateError as error:
        print(f"tidegate: {error}", file=sys.stderr)
        raise SystemExit(1) from None
