"""Looking at the gateway: its log, what was used, what happened lately."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tidegate.clock import SECOND
from tidegate.gateway.logging import log_path
from tidegate.gateway.plane.contract import Call, Code, Method, Params, RpcError, Scope
from tidegate.gateway.plane.methods.desk import Desk

USUAL_LINES = 500
USUAL_BYTES = 250_000
MAX_DAYS = 366


class LogsTail(Params):
    """`logs.tail`."""

    cursor: Annotated[int, Field(ge=0)] | None = None
    limit: Annotated[int, Field(ge=1, le=5000)] | None = None
    maxBytes: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class UsageCost(Params):
    """`usage.cost`."""

    days: Annotated[int, Field(ge=1, le=MAX_DAYS)] | None = None
    startDate: str | None = None
    endDate: str | None = None
    mode: str | None = None
    utcOffset: str | None = None
    timeZone: str | None = None
    agentId: str | None = None
    agentScope: str | None = None


class Stability(Params):
    """`diagnostics.stability`."""

    limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    type: str | None = None
    sinceSeq: int | None = None


class NoneTaken(Params):
    """A method whose parameters change nothing."""

    probe: bool | None = None


class Reports:
    """The methods."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def logs(self, call: Call) -> Any:
        """Return new lines of the log file; the cursor is a byte offset."""
        params: LogsTail = call.params
        gateway = self._desk.gateway
        path = log_path(gateway.loaded.config.logging.file, gateway.site)
        try:
            return await asyncio.to_thread(
                tail, path, params.cursor, params.limit or USUAL_LINES, params.maxBytes or USUAL_BYTES
            )
        except OSError as error:
            raise RpcError(Code.UNAVAILABLE, f"log read failed: {error}") from error

    async def cost(self, call: Call) -> Any:
        """Return tokens a day (UTC). Prices are not known here, so costs are 0 and every day says so."""
        params: UsageCost = call.params
        desk = self._desk
        today = datetime.fromtimestamp(desk.gateway.clock.now() // SECOND, UTC).date()
        last = read_day(params.endDate, today)
        first = read_day(params.startDate, last - timedelta(days=(params.days or 30) - 1))
        if not 0 <= (last - first).days < MAX_DAYS:
            raise RpcError(Code.INVALID_REQUEST, f"usage.cost covers 1 to {MAX_DAYS} days")
        since = int(datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp()) * SECOND
        days: dict[str, dict[str, Any]] = {}
        for offset in range((last - first).days + 1):
            name = (first + timedelta(days=offset)).isoformat()
            days[name] = {"date": name, **NO_USE}
        for row in await desk.store.usage(since):
            if row.day in days:
                add_use(days[row.day], row.tokens_in, row.tokens_out, row.turns)
        totals = dict(NO_USE)
        for day in days.values():
            add_use(totals, day["input"], day["output"], day["missingCostEntries"])
        return {"updatedAt": desk.now(), "days": len(days), "daily": list(days.values()), "totals": totals}

    async def quota(self, _: Call) -> Any:
        """Return the quota windows of providers: none tells us."""
        return {"updatedAt": self._desk.now(), "providers": []}

    async def stability(self, _: Call) -> Any:
        """Return the ring of diagnostic events: nothing is collected in it."""
        now = datetime.fromtimestamp(self._desk.gateway.clock.now() // SECOND, UTC)
        return {
            "generatedAt": now.isoformat().replace("+00:00", "Z"),
            "capacity": 0,
            "count": 0,
            "dropped": 0,
            "events": [],
            "summary": {"byType": {}},
        }


NO_USE: Mapping[str, Any] = {
    "input": 0,
    "output": 0,
    "cacheRead": 0,
    "cacheWrite": 0,
    "totalTokens": 0,
    "totalCost": 0,
    "inputCost": 0,
    "outputCost": 0,
    "cacheReadCost": 0,
    "cacheWriteCost": 0,
    "missingCostEntries": 0,
}
"""Sums of nothing. Prices are not known: every turn is an entry without one."""


def add_use(day: dict[str, Any], tokens_in: int, tokens_out: int, turns: int) -> None:
    """Add what turns used to a row of sums."""
    day["input"] += tokens_in
    day["output"] += tokens_out
    day["totalTokens"] += tokens_in + tokens_out
    day["missingCostEntries"] += turns


def read_day(text: str | None, otherwise: date) -> date:
    """Return the day that a text names. Raises RpcError when it names none."""
    if text is None:
        return otherwise
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise RpcError(Code.INVALID_REQUEST, f"{text!r} is not a date; write YYYY-MM-DD") from error


def tail(path: Path, cursor: int | None, limit: int, max_bytes: int) -> dict[str, Any]:
    """Return whole lines of a file from a byte offset on, or its last ones.

    `reset` says that the file is shorter than the cursor, as after it was begun anew; `truncated` that lines
    before those given were left out.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            reset = cursor is not None and cursor > size
            start = size if cursor is None else (0 if reset else cursor)
            if cursor is None or reset or size - start > max_bytes:
                start = max(0, size - max_bytes)
            file.seek(start)
            data = file.read(min(size - start, max_bytes))
            if start and cursor != start:
                file.seek(start - 1)
                cut = file.read(1) != b"\n"
                gone = data.find(b"\n") + 1 if cut else 0
                data, start = data[gone:], start + gone
    except FileNotFoundError:
        return {"file": str(path), "cursor": 0, "size": 0, "lines": [], "truncated": False, "reset": False}
    # What is being written now is left for the next time.
    whole = data[: data.rfind(b"\n") + 1]
    lines = whole.decode("utf-8", "replace").splitlines()
    left_out = len(lines) > limit or (start > (cursor or 0) and cursor is not None) or (cursor is None and start > 0)
    return {
        "file": str(path),
        "cursor": start + len(whole),
        "size": size,
        "lines": lines[-limit:],
        "truncated": left_out,
        "reset": reset,
    }


def report_methods(desk: Desk) -> list[Method]:
    """Return the methods."""
    r = Reports(desk)
    return [
        Method("logs.tail", LogsTail, r.logs, Scope.READ),
        Method("usage.cost", UsageCost, r.cost, Scope.READ),
        Method("usage.status", NoneTaken, r.quota, Scope.READ),
        Method("diagnostics.stability", Stability, r.stability, Scope.READ),
    ]
