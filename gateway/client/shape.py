"""Data of others may have any shape: this reads it as the shape that is needed."""

from __future__ import annotations

from typing import Any


def fields(value: Any) -> dict[str, Any]:
    """Return an object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return a list, or an empty one for anything else."""
    return value if isinstance(value, list) else []
