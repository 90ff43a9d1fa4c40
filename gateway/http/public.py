"""Everything on the gateway's port: the control plane, health, and the interfaces for programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from aiohttp import web

from tidegate.gateway.agents import AgentFactory
from tidegate.gateway.http.access import Access
from tidegate.gateway.http.headers import add_common_headers
from tidegate.gateway.http.health import add_health_routes
from tidegate.gateway.http.openai_api import ApiGateway, OpenAiApi
from tidegate.gateway.http.tool_api import ToolApi
from tidegate.gateway.plane.build import Plane
from tidegate.sessions.wakeups import Wakeups


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
    server.attach(app)
    return app
