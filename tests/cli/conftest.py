"""A state directory short enough for a Unix socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.driver import short_state_dir


@pytest.fixture
def state() -> Iterator[Path]:
    with short_state_dir() as folder:
        yield folder
