"""One call of the command line: where things are and how to print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.config.load import environment, locate
from tidegate.errors import ConfigError
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.terminal import Style, wants_colour
from tidegate.gateway.site import Site

MAKE_THE_FILE = frozenset({"config:put"})
"""Commands to which a configuration file may be named that does not exist yet."""


@dataclass(frozen=True, slots=True)
class Call:
    """What every command needs.

    Attributes:
        style: Colours for standard output, or none.
    """

    arguments: Arguments
    site: Site
    environ: Mapping[str, str]
    style: Style

    @classmethod
    def of(cls, arguments: Arguments) -> Call:
        """Find the files and the terminal that a call is about.

        Raises:
            ConfigError: A configuration file was named that does not exist.
        """
        environ = environment()
        paths = locate(arguments.config, arguments.state_dir, environ)
        if arguments.config and arguments.handler not in MAKE_THE_FILE and not paths.config.exists():
            raise ConfigError(f"{paths.config} does not exist; --config names a file that does")
        site = Site(paths.state_dir, paths.config, getattr(arguments, "port", None))
        colour = wants_colour(sys.stdout, environ, off=arguments.no_color)
        return cls(arguments, site, environ, Style(colour, markup=sys.stdout.isatty()))

    def show(self, data: Any, lines: Callable[[Style], Iterable[str]]) -> None:
        """Print a result: as JSON where that was asked for, else the lines for people."""
        if self.arguments.json:
            print(json.dumps(data, indent=2, ensure_ascii=False))
            return
        for line in lines(self.style):
            print(line)


def warn(text: str) -> None:
    """Print a line for people that is not the result."""
    print(f"tidegate: {text}", file=sys.stderr)
