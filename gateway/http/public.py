"""Everything on the gateway's port: the control plane, health, and the interfaces for programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp import web

from tidegate.gateway.agents import AgentFactory
from tidegate.gateway.http.access import Access
from tidegate.gateway.http.headers import READ, add_common_headers, add_route
from tidegate.gateway.http.health import add_health_routes
from tidegate.gateway.http.history_api import HistoryApi
from tidegate.gateway.http.openai_api import ApiGateway, OpenAiApi
from tidegate.gateway.http.tool_api import ToolApi
from tidegate.gateway.plane.build import Plane
from tidegate.sessions.wakeups import Wakeups

if TYPE_CHECKING:
    from tidegate.gateway.web.files import PageFiles


class PublicGateway(ApiGateway, Protocol):
    """What is served."""

    wakeups: Wakeups
    plane: Plane


def public_app(
    gateway: PublicGateway,
    is_ready: Callable[[], tuple[bool, dict[str, Any]]],
    agents: Callable[[], AgentFactory],
) -> web.Application:
    """Return the application; every request passes the control plane's check of name and origin."""
    app = web.Application()
    server = gateway.plane.server
    access = Access(gateway.plane.doorkeeper, server.peer)
    add_common_headers(app)
    add_health_routes(app, is_ready, access.may_see)
    OpenAiApi(gateway, access, gateway.wakeups).attach(app)
    ToolApi(access, lambda: gateway.loaded, agents).attach(app)
    HistoryApi(access, lambda: gateway.loaded, gateway.store).attach(app)
    _add_page(app, lambda: gateway.loaded.config.gateway.control_ui.enabled)
    server.attach(app)
    return app


def _add_page(app: web.Application, is_enabled: Callable[[], bool]) -> None:
    """Serve the web chat: everybody may load the page, the control plane asks whoever opens it."""
    files: list[PageFiles] = []

    async def page(request: web.Request) -> web.Response:
        if not is_enabled():
            raise web.HTTPNotFound
        if not files:
            # Loaded with the first request: a start pays nothing for a page that nobody opens.
            from tidegate.gateway.web.files import PageFiles  # noqa: PLC0415

            files.append(PageFiles())
        return await files[0].answer(request, request.match_info.get("name", "index.html"))

    for path in ("/", "/chat", "/assets/{name}"):
        add_route(app, path, page, *READ)
