"""Drives a real gateway of ours with clients that others wrote, and prints what became of each step.

    python tests/peers/run.py [--cache FOLDER] [--only cli|library|tui|node]

Installs npm packages into a cache folder when they are not there (some minutes, once). Ends with 0 when everything
was as it should be, with 77 when npm cannot be reached, else with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers import openclaw_cli, openclaw_library, openclaw_node_host, openclaw_tui
from peers.packages import CACHE, Peers, Unreachable, install
from peers.world import Outcome

UNREACHABLE = 77
SHOWN = 2_500
"""Characters of what a failed step printed."""
VISITS: dict[str, Callable[[Peers], AsyncIterator[Outcome]]] = {
    "cli": openclaw_cli.outcomes,
    "library": openclaw_library.outcomes,
    "tui": openclaw_tui.outcomes,
    "node": openclaw_node_host.outcomes,
}


async def visit(peers: Peers, names: list[str]) -> list[Outcome]:
    """Go through the visits one after another and print each step."""
    found = []
    for name in names:
        async for outcome in VISITS[name](peers):
            found.append(outcome)
            print(f"{'ok ' if outcome.is_good else 'BAD'} {outcome.seconds:5.1f} s  {outcome.name}", flush=True)
            if not outcome.is_good:
                print("    " + outcome.shown.strip()[-SHOWN:].replace("\n", "\n    "), flush=True)
    return found


def main() -> int:
    """Install, run, print; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cache", type=Path, default=CACHE, help="where npm packages are kept")
    parser.add_argument("--only", choices=VISITS, action="append", help="one kind of client")
    arguments = parser.parse_args()
    try:
        peers = install(arguments.cache)
    except Unreachable as error:
        print(f"skipped: {error}")
        return UNREACHABLE
    outcomes = asyncio.run(visit(peers, arguments.only or list(VISITS)))
    good = sum(outcome.is_good for outcome in outcomes)
    print(f"{good} of {len(outcomes)} steps are good")
    return 0 if good == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
