"""One call of the command line: where things are and how to print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.config.load import environment, locate
from tidegate.errors import ConfigError
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.terminal import Style, as_json, wants_colour
from tidegate.gateway.site import Site

URL_VARIABLE = "TIDEGATE_GATEWAY_URL"
WORK_ELSEWHERE = frozenset(
    {"chat", "agent", "sessions", "deliveries", "people", "devices", "setup_code", "channels", "status", "logs"}
)
"""Modules whose commands also work on a gateway elsewhere."""
WORK_ELSEWHERE_TOO = frozenset({"config:check", "config:get", "config:put", "config:unset", "config:schema", "tui:tui"})
MAKE_THE_FILE = frozenset({"config:put"})
"""Commands to which a configuration file may be named that does not exist yet."""


@dataclass(frozen=True, slots=True)
class Call:
    """What every command needs.

    Attributes:
        style: Colours for standard output, or none.
        url: The gateway elsewhere that the command is about, as it was written; empty for the one here.
    """

    arguments: Arguments
    site: Site
    environ: Mapping[str, str]
    style: Style
    url: str = ""

    @classmethod
    def of(cls, arguments: Arguments) -> Call:
        """Find the files and the terminal that a call is about.

        Raises:
            ConfigError: A configuration file was named that does not exist, or a gateway elsewhere to a command that
                is about this machine.
        """
        environ = environment()
        url = _elsewhere(arguments, environ)
        paths = locate(arguments.config, arguments.state_dir, environ)
        if arguments.config and arguments.handler not in MAKE_THE_FILE and not paths.config.exists():
            raise ConfigError(f"{paths.config} does not exist; --config names a file that does")
        site = Site(paths.state_dir, paths.config, getattr(arguments, "port", None))
        colour = wants_colour(sys.stdout, environ, off=arguments.no_color)
        return cls(arguments, site, environ, Style(colour, markup=sys.stdout.isatty()), url)

    def show(self, data: Any, lines: Callable[[Style], Iterable[str]]) -> None:
        """Print a result: as JSON where that was asked for, else the lines for people."""
        if self.arguments.json:
            print(as_json(data))
            return
        for line in lines(self.style):
            print(line)


def _elsewhere(arguments: Arguments, environ: Mapping[str, str]) -> str:
    """Return the address of the gateway elsewhere; that of the environment counts where it makes sense."""
    works = arguments.handler in WORK_ELSEWHERE_TOO or arguments.handler.partition(":")[0] in WORK_ELSEWHERE
    if arguments.url and not works:
        command = arguments.parser.prog
        raise ConfigError(f"`{command}` is about this machine: leave out --url, or run it where the gateway is")
    return (arguments.url or environ.get(URL_VARIABLE, "")).strip() if works else ""


def warn(text: str) -> None:
    """Print a line for people that is not the result."""
    print(f"tidegate: {text}", file=sys.stderr)
