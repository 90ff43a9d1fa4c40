"""Methods for the web chat: codes that let a browser in, its way out, and Markdown that it may show."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import structlog
from pydantic import Field

from tidegate.config.load import Loaded
from tidegate.gateway.http.listen import page_addresses
from tidegate.gateway.plane.contract import Call, Code, Method, NoParams, Params, Role, RpcError, Scope

if TYPE_CHECKING:
    from tidegate.gateway.plane.build import Plane
    from tidegate.gateway.plane.devices import DeviceBook
    from tidegate.sessions.devices import Device

PAGE_SCOPES = (Scope.READ.value, Scope.WRITE.value)
"""What the web chat may do: look and talk. Settings, devices and approvals are not on its page."""
MAX_RENDERED = 200_000
"""Characters of all texts that one request may have rendered."""

LEAVE_SECONDS = 2.0
"""How long a device that leaves may take to hear so, before its connection is ended."""
MAX_RENDERING = 2
"""Requests that are rendered at a time; others wait, so that pages cannot take the threads of the store."""


log = structlog.get_logger("plane.devices")


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


async def _leave(book: DeviceBook, call: Call) -> Any:
    """Forget the device that asks: everybody may give up what is theirs, whatever else they may not do."""
    caller = call.caller
    if not caller.device:
        raise RpcError(Code.INVALID_REQUEST, "only a paired device can leave")

    def without(device: Device | None) -> Device | None:
        rest = tuple(token for token in device.tokens if token.role != caller.role.value) if device is not None else ()
        return replace(device, tokens=rest) if device is not None and rest else None

    await book.store.change_device(caller.device, without)
    log.info("device.left", device=caller.device[:12], role=caller.role.value)
    book.tell_changed(caller.device, caller)
    for connection in book.hub.of_device(caller.device, caller.role.value):
        if connection.id != caller.connection:
            book.hub.revoke(connection, "device removed")

    async def hang_up() -> None:
        # Its own connection has to carry the answer first.
        await asyncio.sleep(LEAVE_SECONDS)
        book.hub.close_device(caller.device, caller.role.value)

    call.spawn(hang_up())
    return {"deviceId": caller.device}


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

    async def leave(call: Call) -> Any:
        return await _leave(gateway.plane.devices, call)

    return [
        Method("tidegate.web.code", NoParams, code, Scope.ADMIN, hidden=True),
        Method("tidegate.web.leave", NoParams, leave, Scope.READ, hidden=True, lasting=True),
        Method("tidegate.web.render", RenderParams, render, Scope.READ, hidden=True),
    ]
