"""Clients that others wrote work against our gateway. Runs only when it is asked for: `TIDEGATE_PEERS=folder`."""

from __future__ import annotations

import asyncio
import os

import pytest

from peers.packages import Unreachable, install
from peers.run import VISITS, visit

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif("TIDEGATE_PEERS" not in os.environ, reason="set TIDEGATE_PEERS to a folder for npm packages"),
]


@pytest.mark.parametrize("name", VISITS)
def test_every_step_is_as_it_should_be(name: str) -> None:
    try:
        peers = install()
    except Unreachable as error:
        pytest.skip(str(error))
    outcomes = asyncio.run(visit(peers, [name]))
    assert outcomes
    assert [(outcome.name, outcome.shown[-500:]) for outcome in outcomes if not outcome.is_good] == []
