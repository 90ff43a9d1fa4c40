"""What sessions used, from the turns in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from tidegate.clock import SECOND
from tidegate.gateway.plane.contract import Call, Code, Method, Params, RpcError, Scope, Text
from tidegate.gateway.plane.methods.desk import Desk
from tidegate.gateway.plane.methods.reports import MAX_DAYS, NO_USE, add_use, read_day
from tidegate.sessions.operating import SessionUsage

USUAL_DAYS = 30
USUAL_ROWS = 50
MAX_ROWS = 1_000
_RANGES = {"7d": 7, "30d": 30, "90d": 90, "1y": 365, "all": MAX_DAYS}


class SessionsUsage(Params):
    """`sessions.usage`. Days are those of UTC, whatever a client's zone is."""

    key: Text | None = None
    agentId: Text | None = None
    agentScope: Literal["all"] | None = None
    creatorKey: Text | None = None
    startDate: str | None = None
    endDate: str | None = None
    mode: Literal["utc", "gateway", "specific"] | None = None
    range: Literal["7d", "30d", "90d", "1y", "all"] | None = None
    groupBy: Literal["instance", "family"] | None = None
    includeHistorical: bool | None = None
    utcOffset: str | None = None
    timeZone: Text | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    includeContextWeight: bool | None = None


class SessionReports:
    """The method."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def usage(self, call: Call) -> Any:
        """Return tokens by session, with sums by model, provider, agent and day. Prices are not known."""
        params: SessionsUsage = call.params
        desk = self._desk
        first, last = self._span(params)
        since = int(datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp()) * SECOND
        key = desk.key(params.key, params.agentId)[0] if params.key else ""
        agent = desk.agent(params.agentId, call.method) if params.agentId else None
        used = [
            row
            for row in await desk.store.usage_of_sessions(since, key)
            if row.day <= last.isoformat() and agent in (None, row.agent)
        ]
        shown = await self._rows(used, key, min(params.limit or USUAL_ROWS, MAX_ROWS))
        sessions = {row.session for row in used}
        return {
            "updatedAt": desk.now(),
            "startDate": first.isoformat(),
            "endDate": last.isoformat(),
            "sessions": shown,
            "totals": _sum(used),
            "aggregates": {
                "sessionCount": len(sessions),
                "byModel": [
                    {"provider": name.partition("/")[0], "model": name.partition("/")[2], "count": n, "totals": total}
                    for name, n, total in _grouped(used, lambda row: row.model)
                ],
                "byProvider": [
                    {"provider": name, "count": n, "totals": total}
                    for name, n, total in _grouped(used, lambda row: row.model.partition("/")[0])
                ],
                "byAgent": [
                    {"agentId": name, "totals": total} for name, _, total in _grouped(used, lambda row: row.agent)
                ],
                "byChannel": [],
                "costDaily": [
                    {"date": name, **total}
                    for name, _, total in sorted(_grouped(used, lambda row: row.day), key=lambda item: item[0])
                ],
            },
        }

    def _span(self, params: SessionsUsage) -> tuple[date, date]:
        today = datetime.fromtimestamp(self._desk.gateway.clock.now() // SECOND, UTC).date()
        last = read_day(params.endDate, today)
        days = _RANGES[params.range] if params.range else USUAL_DAYS
        first = read_day(params.startDate, last - timedelta(days=days - 1))
        if not 0 <= (last - first).days < MAX_DAYS:
            raise RpcError(Code.INVALID_REQUEST, f"sessions.usage covers 1 to {MAX_DAYS} days")
        return first, last

    async def _rows(self, used: list[SessionUsage], key: str, limit: int) -> list[dict[str, Any]]:
        by_session: dict[str, list[SessionUsage]] = {}
        for row in used:
            by_session.setdefault(row.session, []).append(row)
        found = []
        for session in list(by_session)[:limit] or ([key] if key else []):
            held = await self._desk.store.session(session)
            if held is None:
                continue
            about = {"key": session, "agentId": held.agent, "scope": "instance", "updatedAt": held.touched_at // 1000}
            about |= {"sessionId": held.conversation} if held.conversation else {}
            about |= {"label": held.settings["label"]} if held.settings.get("label") else {}
            own = by_session.get(session)
            if own:
                provider, _, model = own[0].model.partition("/")
                about |= {"modelProvider": provider, "model": model}
            found.append({**about, "usage": _sum(own) if own else None, "hasContextWeight": False})
        return found


def _sum(used: Iterable[SessionUsage]) -> dict[str, Any]:
    total = dict(NO_USE)
    for row in used:
        add_use(total, row.tokens_in, row.tokens_out, row.turns)
    return total


def _grouped(
    used: Iterable[SessionUsage], name: Callable[[SessionUsage], str]
) -> list[tuple[str, int, dict[str, Any]]]:
    """Return name, number of turns and sums of each group, the largest first."""
    groups: dict[str, list[SessionUsage]] = {}
    for row in used:
        groups.setdefault(name(row), []).append(row)
    found = [(key, sum(row.turns for row in rows), _sum(rows)) for key, rows in groups.items()]
    return sorted(found, key=lambda item: -item[2]["totalTokens"])


def usage_methods(desk: Desk) -> list[Method]:
    """Return the method."""
    return [Method("sessions.usage", SessionsUsage, SessionReports(desk).usage, Scope.READ, hidden=True)]
