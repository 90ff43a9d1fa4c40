"""`/healthz`: the process works. `/readyz`: it takes messages, and every connection says how it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web


def add_health_routes(app: web.Application, is_ready: Callable[[], tuple[bool, dict[str, Any]]]) -> None:
    """Add the two routes.

    Args:
        is_ready: Tells whether messages are taken, and facts without secrets or message text.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def readyz(_: web.Request) -> web.Response:
        ready, facts = is_ready()
        return web.json_response({"ready": ready, **facts}, status=200 if ready else 503)

    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
