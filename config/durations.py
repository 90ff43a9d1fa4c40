"""Durations as people write them: `500ms`, `30s`, `5m`, `2h`, `1h30m`, or a bare number."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Literal

DurationUnit = Literal["ms", "s", "m", "h", "d"]

_MILLISECONDS: dict[str, int] = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BARE = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)
_SEGMENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhd])", re.ASCII)
_COMPOSITE = re.compile(rf"(?:{_SEGMENT.pattern})+", re.ASCII)
_MAX_CHARS = 64
_MAX_MILLISECONDS = 100 * 365 * 86_400_000


def parse_duration_ms(raw: str, default_unit: DurationUnit = "ms") -> int:
    """Whole milliseconds in `raw`; a number without a unit counts in `default_unit`.

    Segments add up in any order (`30m1h`); blanks inside, signs and exponents are refused, and so is
    anything longer than a hundred years.

    Raises:
        ValueError: `raw` is not a duration.
    """
    text = raw.strip().lower()
    if not text:
        raise ValueError("a duration is expected, such as 500ms, 30s, 5m, 2h or 1h30m")
    total: float
    if len(text) <= _MAX_CHARS and _BARE.fullmatch(text):
        total = float(text) * _MILLISECONDS[default_unit]
    elif len(text) <= _MAX_CHARS and _COMPOSITE.fullmatch(text):
        total = sum(float(amount) * _MILLISECONDS[unit] for amount, unit in _SEGMENT.findall(text))
    else:
        raise ValueError(f"{raw[:_MAX_CHARS]!r} is not a duration; write it like 500ms, 30s, 5m, 2h or 1h30m")
    if total > _MAX_MILLISECONDS:
        raise ValueError(f"{raw[:_MAX_CHARS]!r} is longer than a hundred years")
    return int(total + 0.5)


def parse_duration(raw: str | int | float, default_unit: DurationUnit = "ms") -> timedelta:
    """The same as a `timedelta`; a number counts in `default_unit`.

    Raises:
        ValueError: `raw` is not a duration.
    """
    text = f"{raw:f}" if isinstance(raw, float) else str(raw)
    return timedelta(milliseconds=parse_duration_ms(text, default_unit))
