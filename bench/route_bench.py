"""Measure route lookups: `python bench/route_bench.py`.

Prints microseconds per lookup for tables of growing size. The time must not grow with the number of bindings.
"""

from __future__ import annotations

import sys
import time

from tidegate.routing.bindings import Binding, Match, RouteQuery
from tidegate.routing.keys import PeerRef
from tidegate.routing.roster import Roster
from tidegate.routing.table import RouteTable, select_route

LOOKUPS = 5_000


def table_of(size: int) -> RouteTable:
    """Return a table with `size` bindings: mostly groups and people, some guilds with roles, one catch-all."""
    bindings = [
        Binding("main", Match("discord", "*", guild=f"g{n}", roles=(f"r{n}", "staff")), n)
        if n % 10 == 0
        else Binding("main", Match("telegram", "*", PeerRef("group" if n % 2 else "direct", str(n))), n)
        for n in range(size - 1)
    ]
    return RouteTable.compile([*bindings, Binding("main", Match("telegram", "*"), size)], Roster())


def measure(table: RouteTable, size: int) -> float:
    """Return mean microseconds of one lookup over hits on the last peer, on roles, and on the catch-all."""
    queries = (
        RouteQuery("telegram", "biz", PeerRef("group", str(size - 3 | 1))),
        RouteQuery("telegram", "biz", PeerRef("direct", "nobody")),
        RouteQuery("discord", "default", PeerRef("channel", "c"), guild="g0", roles=("staff", "x")),
    )
    started = time.perf_counter()
    for n in range(LOOKUPS):
        select_route(queries[n % len(queries)], table)
    return (time.perf_counter() - started) / LOOKUPS * 1e6


def main() -> int:
    """Print one line per table size."""
    for size in (10, 100, 1_000, 10_000):
        started = time.perf_counter()
        table = table_of(size)
        built = (time.perf_counter() - started) * 1e3
        sys.stdout.write(f"{size:>6} bindings: compile {built:7.1f} ms, lookup {measure(table, size):6.1f} µs\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
