"""OpenClaw's own command line works against our gateway. Runs only when it is asked for: `TIDEGATE_PEERS=folder`."""

from __future__ import annotations

import asyncio
import os

import pytest

from peers.openclaw_cli import CACHE, Unreachable, install, run_all

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif("TIDEGATE_PEERS" not in os.environ, reason="set TIDEGATE_PEERS to a folder for npm packages"),
]


def test_every_command_ends_well_and_says_what_it_should() -> None:
    try:
        peer = install(CACHE)
    except Unreachable as error:
        pytest.skip(str(error))
    outcomes = asyncio.run(run_all(peer))
    assert [(o.step.words, o.code, o.output[-500:]) for o in outcomes if not o.is_good] == []
