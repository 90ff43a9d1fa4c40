"""`tidegate web`: a link with which one browser logs in, once."""

from __future__ import annotations

import html
import os
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from tidegate.gateway.cli.call import Call, warn
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.rpc import ask
from tidegate.gateway.cli.terminal import Style
from tidegate.gateway.cli.web_link import line, links

OPEN_FILE = "open-web.html"
OPEN_SECONDS = 10.0
"""How long a browser may take to read the file that leads it to the page."""


def web(arguments: Arguments) -> int:
    """Print the link; with `--open` also open it."""
    call = Call.of(arguments)
    made = ask(call, "tidegate.web.code")
    found = links(made)
    shown = {"links": found, "expiresAtMs": made["expiresAtMs"]}

    def lines(_: Style) -> Iterable[str]:
        yield line(found[0])
        yield from (f"or: {link}" for link in found[1:])

    call.show(shown, lines)
    if arguments.open and not (_has_desktop(call.environ) and _open(found[0], call.site.state_dir)):
        warn("no browser could be opened here; open the link yourself")
        return 1
    return 0


def _has_desktop(environ: Mapping[str, str]) -> bool:
    """Tell whether a browser would have somewhere to show itself; else one of text would take the terminal."""
    return sys.platform == "darwin" or any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def _open(link: str, folder: Path) -> bool:
    """Open a link in a browser; False when there is none.

    The browser gets a file that only this user can read: everybody on this machine sees the arguments of processes.
    """
    # Loaded here: printing the link needs no browser.
    import webbrowser  # noqa: PLC0415

    path = folder / OPEN_FILE
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(link)}">\n')
        if not webbrowser.open(path.absolute().as_uri()):
            return False
        time.sleep(OPEN_SECONDS)
        return True
    finally:
        path.unlink(missing_ok=True)
