"""The command as somebody can type it here, for hints: in a clone that is not `tidegate` but `.venv/bin/tidegate`."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

NAME = "tidegate"


@cache
def program() -> str:
    """Return how this program is called on this machine, quoted for a shell."""
    return spelled(sys.argv[0] if sys.argv else "", shutil.which(NAME))


def spelled(started_as: str, on_path: str | None) -> str:
    """Return the name when a shell finds this very program by it, else the path that it was started by.

    Args:
        started_as: `argv[0]`.
        on_path: What a shell finds under the plain name, or None.
    """
    path = Path(started_as)
    if path.name != NAME or (on_path is not None and _same(path, Path(on_path))):
        return NAME
    return shlex.quote(started_as)


def hint(words: str) -> str:
    """Return a command in the marks that surround commands in our messages."""
    return f"`{program()} {words}`"


def command(words: Sequence[str]) -> str:
    """Return a command ready to be typed, every word quoted as a shell needs it."""
    return " ".join([program(), *map(shlex.quote, words)])


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
