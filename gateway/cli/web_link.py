"""The words in which a login link of the web chat is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def links(made: Mapping[str, Any]) -> list[str]:
    """Return the links of a new code: the code stands behind the `#`, which a browser sends to nobody."""
    return [f"{address}/#code={made['code']}" for address in made["addresses"]]


def line(link: str) -> str:
    """Return the line that shows a link."""
    return f"web chat: {link} (once, within 10 minutes)"
