"""Methods for the web chat: codes that let a browser in, and Markdown that it may show."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import Field

from tidegate.config.load import Loaded
from tidegate.gateway.http.listen import page_addresses
from tidegate.gateway.plane.contract import Call, Code, Method, NoParams, Params, Role, RpcError, Scope

if TYPE_CHECKING:
    from tidegate.gateway.plane.build import Plane

PAGE_SCOPES = (Scope.READ.value, Scope.WRITE.value)
"""What the web chat may do: look and talk. Settings, devices and approvals are not on its page."""
MAX_RENDERED = 200_000
"""Characters of all texts that one request may have rendered."""

MAX_RENDERING = 2
"""Requests that are rendered at a time; others wait, so that pages cannot take the threads of the store."""


class RenderParams(Params):
    """`tidegate.web.render`."""

    texts: Annotated[list[Annotated[str, Field(max_length=MAX_RENDERED)]], Field(max_length=64)]


class PagedGateway(Protocol):
    """A gateway that serves the page."""

    plane: Plane
    loaded: Loaded
    port: int


async def new_login(gateway: PagedGateway) -> dict[str, Any]:
    """Return a code that lets one browser in, once, when it expires and where the page is. Never log it.

    Raises:
        RpcError: The page is switched off.
    """
    config = gateway.loaded.config.gateway
    if not config.control_ui.enabled:
        raise RpcError(Code.INVALID_REQUEST, "the web chat is off (gateway.controlUi.enabled)")
    code, expires = await gateway.plane.devices.new_setup_code(Role.OPERATOR.value, PAGE_SCOPES)
    return {"code": code, "expiresAtMs": expires // 1000, "addresses": page_addresses(config, gateway.port)}


def page_methods(gateway: PagedGateway) -> list[Method]:
    """Return the methods."""

    turn = asyncio.Semaphore(MAX_RENDERING)

    async def code(_: Call) -> Any:
        return await new_login(gateway)

    async def render(call: Call) -> Any:
        """Return Markdown as HTML that a page may show: nothing in it runs, loads or reaches out by itself."""
        texts: list[str] = call.params.texts
        if sum(map(len, texts)) > MAX_RENDERED:
            raise RpcError(Code.INVALID_REQUEST, f"texts: more than {MAX_RENDERED} characters together")
        # Loaded when a page asks: a start pays nothing for it.
        from tidegate.gateway.web.html import to_html  # noqa: PLC0415

        async with turn:
            return {"html": await asyncio.to_thread(lambda: [to_html(text) for text in texts])}

    return [
        Method("tidegate.web.code", NoParams, code, Scope.ADMIN, hidden=True),
        Method("tidegate.web.render", RenderParams, render, Scope.READ, hidden=True),
    ]
