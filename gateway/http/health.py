"""`/healthz`: the process works. `/readyz`: it takes messages, and every connection says how it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from tidegate.gateway.http.headers import READ, add_route, json_answer


def add_health_routes(
    app: web.Application,
    is_ready: Callable[[], tuple[bool, dict[str, Any]]],
    may_see: Callable[[web.Request], Awaitable[bool]],
) -> None:
    """Add the routes, `/health` and `/ready` for those who know them by these names.

    Args:
        is_ready: Tells whether messages are taken, and facts without secrets or message text.
        may_see: Tells whether a caller may see these facts; everybody may see whether we are ready.
    """

    async def health(_: web.Request) -> web.Response:
        return json_answer({"ok": True, "status": "live"})

    async def readiness(request: web.Request) -> web.Response:
        ready, facts = is_ready()
        shown = facts if await may_see(request) else {}
        return json_answer({"ready": ready, **shown}, status=200 if ready else 503)

    for path in ("/health", "/healthz"):
        add_route(app, path, health, *READ)
    for path in ("/ready", "/readyz"):
        add_route(app, path, readiness, *READ)
