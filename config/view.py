"""Showing configuration values to people: by dotted path, with secrets masked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tidegate.config.paths import KeyPath, format_path

MASK = "***"

_SECRET_KEY = re.compile(
    r"(?:token|secret|password|passphrase|passwd|api_?key|private_?key|client_?secret|credentials?|cookie"
    r"|authorization|signing_?key|identityData|certificateData)$",
    re.IGNORECASE,
)
_SECRET_MAPS = frozenset({"headers", "vars", "env", "edgeAuth"})
_URL_PASSWORD = re.compile(r"(\w+://[^/\s:@]*:)[^/\s@]+@")
_BOT_TOKEN = re.compile(r"\b\d{3,}:[A-Za-z0-9_-]{20,}\b")
_REFERENCE_ONLY = re.compile(r"\$\{[A-Z_][A-Z0-9_]*\}", re.ASCII)


def value_at(data: object, path: KeyPath) -> object:
    """The value at a path of plain data.

    Raises:
        KeyError: There is nothing there.
    """
    for part in path:
        if isinstance(data, list | tuple):
            if not isinstance(part, int) or part >= len(data):
                raise KeyError(format_path(path))
            data = data[part]
            continue
        if not isinstance(data, Mapping) or part not in data:
            raise KeyError(format_path(path))
        data = data[part]
    return data


def redacted(data: object, path: KeyPath = ()) -> Any:
    """A copy with secrets masked; `path` says where `data` stands, so that a part is masked like the whole.

    A `${NAME}` that was not filled in and a reference to a secret are shown: they hold no secret.
    """
    if isinstance(data, Mapping):
        if "source" in data and "id" in data and set(data) <= {"source", "provider", "id"}:
            return dict(data)
        return {key: redacted(value, (*path, key)) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [redacted(value, (*path, index)) for index, value in enumerate(data)]
    if isinstance(data, int | float) and not isinstance(data, bool):
        return MASK if is_secret(path) else data
    if not isinstance(data, str):
        return data
    if data and is_secret(path):
        return data if _REFERENCE_ONLY.fullmatch(data) else MASK
    return _BOT_TOKEN.sub(MASK, _URL_PASSWORD.sub(rf"\g<1>{MASK}@", data))


def is_secret(path: KeyPath) -> bool:
    """Whether a path's text is a secret by its name."""
    names = [part for part in path if isinstance(part, str)]
    if not names:
        return False
    return bool(_SECRET_KEY.search(names[-1])) or any(name in _SECRET_MAPS for name in names[:-1])
