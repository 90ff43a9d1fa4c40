"""Parts that did not certainly arrive, looked at from the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from cli.driver import tidegate
from tidegate.clock import SystemClock
from tidegate.events import Address
from tidegate.faults import Faults
from tidegate.sessions.model import DeliveryState, Draft, Settlement
from tidegate.sessions.sqlite.store import SqliteStore


def leave_trouble(state: Path) -> None:
    """Store one part in each bad state, about which the owner was told already, and one that was sent."""

    async def store_it() -> None:
        store = SqliteStore(state / "tidegate.db", SystemClock(), Faults())
        await store.open()
        chat = Address("telegram", "default", "4242")
        ids = await store.add_deliveries([Draft(chat, {"body": f"part {n}"}) for n in range(4)])
        states = (DeliveryState.UNKNOWN, DeliveryState.DEAD, DeliveryState.EXPIRED, DeliveryState.SENT)
        await store.settle([Settlement(n, s, reason=f"why {n}") for n, s in zip(ids, states, strict=True)])
        await store.report(ids[:3], ())
        await store.close()

    asyncio.run(store_it())


def test_trouble_stays_visible_after_the_owner_was_told(state: Path):
    leave_trouble(state)
    shown = tidegate("status", state=state).stdout
    assert all(f"why {number}" in shown for number in (1, 2, 3))
    assert "why 4" not in shown
    attention = json.loads(tidegate("status", "--json", state=state).stdout)["attention"]
    assert not any("certainly arrive" in line for line in attention)


def test_parts_are_listed_by_state_and_shown_with_what_the_state_means(state: Path):
    leave_trouble(state)
    listed = tidegate("deliveries", "list", state=state).stdout
    assert [line.split()[0] for line in listed.splitlines()[1:4]] == ["3", "2", "1"]
    assert "may or may not have arrived" in listed
    only = json.loads(
        tidegate("deliveries", "list", "--state", "dead", "--state", "sent", "--json", state=state).stdout
    )
    assert [row["state"] for row in only] == ["sent", "dead"]
    shown = tidegate("deliveries", "show", "2", state=state).stdout
    assert "refused" in shown
    assert "why 2" in shown
    assert "part 1" in shown
    missing = tidegate("deliveries", "show", "99", state=state)
    assert (missing.returncode, "there is no delivery 99" in missing.stderr) == (1, True)


def test_a_machine_on_which_nothing_ran_has_none(state: Path):
    assert tidegate("deliveries", "list", state=state).stdout == "there are none\n"
