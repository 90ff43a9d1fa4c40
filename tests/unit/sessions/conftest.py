"""Keeps the log of failures that these tests cause on purpose out of the way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[dict[str, object]]]:
    """What was logged during the test."""
    with capture_logs() as entries:
        yield entries  # type: ignore[misc]
