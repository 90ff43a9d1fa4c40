"""`${NAME}` in the configuration's texts, and where the values come from."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Mapping

MAX_DOTENV_BYTES = 256 * 1024

_REFERENCE = re.compile(r"\$(\$?)\{([A-Z_][A-Z0-9_]*)\}", re.ASCII)
_ASSIGNMENT = re.compile(
    r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"
    r"""(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|(|[^"'\s#].*?))(?:\s+#.*)?\s*""",
    re.ASCII,
)
_DOTENV_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def substitute(text: str, environment: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Fill in `${NAME}`; `$${NAME}` stands for the text `${NAME}`.

    Returns the text and the names that are missing or empty; those stay in the text as they were written.
    """
    if "${" not in text:
        return text, ()
    missing: list[str] = []

    def fill(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        value = environment.get(match[2], "")
        if not value:
            missing.append(match[2])
        return value or match[0]

    return _REFERENCE.sub(fill, text), tuple(dict.fromkeys(missing))


def unresolved_names(text: str) -> tuple[str, ...]:
    """The `${NAME}` references that are still in a text."""
    return tuple(dict.fromkeys(match[2] for match in _REFERENCE.finditer(text) if not match[1]))


def parse_dotenv(text: str) -> dict[str, str]:
    """`NAME=value` lines; quotes are optional, `#` begins a comment, the last line of a name wins.

    Lines that are not assignments are passed over: other tools write such files too.
    """
    values: dict[str, str] = {}
    for line in text.splitlines():
        match = _ASSIGNMENT.fullmatch(line)
        if match is None:
            continue
        name, double, single, bare = match.groups()
        if double is not None:
            values[name] = re.sub(r"\\(.)", lambda m: _DOTENV_ESCAPES.get(m[1], m[1]), double)
        else:
            values[name] = single if single is not None else bare
    return values


def layered(*sources: Mapping[str, str]) -> Mapping[str, str]:
    """One view of several environments; an earlier one wins unless its value is empty."""
    return ChainMap(*[{name: value for name, value in source.items() if value} for source in sources])
