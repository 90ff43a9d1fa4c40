"""What every answer over HTTP has in common: headers that keep browsers out, and verbs that a path knows."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), microphone=(self), geolocation=()",
}
READ = ("GET", "HEAD")


def add_common_headers(app: web.Application) -> None:
    """Give every answer the common headers, unless its route set others."""

    async def prepare(_: web.Request, response: web.StreamResponse) -> None:
        # Which software and version answers is nobody's business.
        response.headers.popall("Server", None)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if response.content_type == "application/json":
            response.headers.setdefault("Cache-Control", "no-store")

    @web.middleware
    async def plain_not_found(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPNotFound:
            return web.Response(status=404, text="Not Found")

    app.on_response_prepare.append(prepare)
    app.middlewares.append(plain_not_found)


def json_answer(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return an answer of JSON, without blanks."""
    return web.json_response(data, status=status, headers=headers, dumps=_compact)


def _compact(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def add_route(app: web.Application, path: str, handler: Handler, *methods: str) -> None:
    """Serve a path for some verbs; all others are answered with 405 before anything else is looked at."""

    async def only(request: web.Request) -> web.StreamResponse:
        if request.method not in methods:
            return web.Response(status=405, text="Method Not Allowed", headers={"Allow": ", ".join(methods)})
        return await handler(request)

    app.router.add_route("*", path, only)
