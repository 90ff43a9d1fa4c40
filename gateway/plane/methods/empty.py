"""Lists that are always empty here: clients ask for them, and an empty list is the truth.

What would put something into such a list is refused in plain words.
"""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

from pydantic import ConfigDict, Field

from tidegate.gateway.plane.contract import Call, Code, Method, Params, RpcError, Scope
from tidegate.gateway.plane.methods.desk import Desk

NO_CRON = "scheduled jobs are not available in this gateway yet"


class Anything(Params):
    """Filters of a list that is empty whatever they say."""

    model_config = ConfigDict(extra="allow")


class CronAdd(Anything):
    """`cron.add`: what a job needs, so that a client learns of its mistakes before it learns that there are no jobs."""

    name: Annotated[str, Field(min_length=1)]
    schedule: dict[str, Any]
    sessionTarget: str
    wakeMode: str
    payload: dict[str, Any]


class Empty:
    """The methods."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def cron_list(self, call: Call) -> Any:
        """Return a page without jobs."""
        extra = call.params.model_extra or {}
        page = {"jobs": [], "snapshotRevision": "empty", "total": 0, "offset": 0, "limit": extra.get("limit", 50)}
        return {**page, "hasMore": False, "nextOffset": None, "deliveryPreviews": {}}

    async def cron_status(self, _: Call) -> Any:
        """Return that nothing is scheduled."""
        path = str(self._desk.gateway.site.database)
        about = {"enabled": False, "triggersEnabled": False, "storePath": path, "storage": "sqlite"}
        return {**about, "jobs": 0, "nextWakeAtMs": None}

    async def cron_runs(self, call: Call) -> Any:
        """Return a page without runs."""
        limit = (call.params.model_extra or {}).get("limit", 50)
        return {"entries": [], "total": 0, "offset": 0, "limit": limit, "hasMore": False, "nextOffset": None}

    async def no_cron(self, _: Call) -> NoReturn:
        """Refuse to schedule."""
        raise RpcError(Code.UNAVAILABLE, NO_CRON)

    async def no_job(self, call: Call) -> NoReturn:
        """Say that there is no such job: there are none."""
        extra = call.params.model_extra or {}
        job = str(extra.get("id") or extra.get("jobId") or "")
        text = f"cron job not found: {job}"
        raise RpcError(Code.INVALID_REQUEST, text, {"code": "CRON_JOB_NOT_FOUND", "jobId": job})

    async def heartbeat(self, _: Call) -> None:
        """Return that there was no heartbeat."""

    async def nothing(self, _: Call) -> Any:
        """Return an empty array."""
        return []


def _named(name: str) -> Any:
    async def answer(_: Call) -> Any:
        return {name: []}

    return answer


def empty_methods(desk: Desk, *, without: frozenset[str] = frozenset()) -> list[Method]:
    """Return the methods, save those that somebody else answers."""
    e = Empty(desk)
    found = [
        Method("cron.list", Anything, e.cron_list, Scope.READ),
        Method("cron.status", Anything, e.cron_status, Scope.READ),
        Method("cron.runs", Anything, e.cron_runs, Scope.READ),
        Method("cron.get", Anything, e.no_job, Scope.READ),
        # Known, so that clients read why; not listed, since they do not work.
        Method("cron.add", CronAdd, e.no_cron, Scope.ADMIN, hidden=True, write_budget=True),
        Method("cron.update", Anything, e.no_job, Scope.ADMIN, hidden=True, write_budget=True),
        Method("cron.remove", Anything, e.no_job, Scope.ADMIN, hidden=True, write_budget=True),
        Method("cron.run", Anything, e.no_job, Scope.ADMIN, hidden=True, write_budget=True),
        Method("last-heartbeat", Anything, e.heartbeat, Scope.READ),
        Method("question.list", Anything, _named("questions"), Scope.QUESTIONS),
        Method("plugin.approval.list", Anything, e.nothing, Scope.APPROVALS),
        Method("exec.approval.list", Anything, e.nothing, Scope.APPROVALS),
        Method("approval.history", Anything, _named("items"), Scope.APPROVALS),
        Method("taskSuggestions.list", Anything, _named("suggestions"), Scope.READ),
        Method("tasks.list", Anything, _named("tasks"), Scope.READ),
        Method("plugins.list", Anything, _named("plugins"), Scope.READ),
    ]
    return [method for method in found if method.name not in without]
