"""What every answer over HTTP has in common: headers that keep browsers out, and verbs that a path knows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

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
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if response.content_type == "application/json":
            response.headers.setdefault("Cache-Control", "no-store")

    app.on_response_prepare.append(prepare)


def add_route(app: web.Application, path: str, handler: Handler, *methods: str) -> None:
    """Serve a path for some verbs; all others are answered with 405 before anything else is looked at."""

    async def only(request: web.Request) -> web.StreamResponse:
        if request.method not in methods:
            return web.Response(status=405, text="Method Not Allowed", headers={"Allow": ", ".join(methods)})
        return await handler(request)

    app.router.add_route("*", path, only)
