"""Methods of our own, under `tidegate.`: what our command line shows and the protocol has no method for.

Each is an operation of `Control`, which the local socket and a bare store serve as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Protocol

from pydantic import Field

from tidegate.config.load import Loaded
from tidegate.gateway.config_report import config_report
from tidegate.gateway.control import Control
from tidegate.gateway.plane.contract import Call, Code, Method, NoParams, Params, RpcError, Said, Scope, Text
from tidegate.gateway.site import Site


class SessionList(Params):
    """`tidegate.sessions.list`."""

    limit: Annotated[int, Field(ge=1)] = 50


class SessionShow(Params):
    """`tidegate.sessions.show`."""

    key: Text
    conversation: str = ""
    limit: Annotated[int, Field(ge=1)] = 50


class DeliveryList(Params):
    """`tidegate.deliveries.list`."""

    states: Annotated[list[str], Field(default_factory=list, max_length=16)]
    limit: Annotated[int, Field(ge=1)] = 50


class DeliveryShow(Params):
    """`tidegate.deliveries.show`."""

    id: Annotated[int, Field(ge=0)]


class PairingList(Params):
    """`tidegate.pairing.list`."""

    channel: str = ""


class PairingReject(Params):
    """`tidegate.pairing.reject`."""

    channel: Text
    code: Text


class PairingApprove(PairingReject):
    """`tidegate.pairing.approve`."""

    notify: bool = True


class SendLater(Params):
    """`tidegate.send`."""

    channel: Text
    to: Text
    text: Said
    account: Text = "default"
    thread: str | None = None


class ConfigCheck(Params):
    """`tidegate.config.check`."""

    effective: bool = False


class Located(Protocol):
    """A gateway whose configuration can be looked at."""

    site: Site
    loaded: Loaded


Operation = Callable[..., Awaitable[Any]]


def control_methods(control: Control) -> list[Method]:
    """Return the operations of a control, each with the scope that it needs."""
    return [
        Method("tidegate.status", NoParams, _status(control), Scope.READ, hidden=True),
        _method("tidegate.sessions.list", SessionList, control.sessions_list, Scope.READ),
        _method("tidegate.sessions.show", SessionShow, control.sessions_show, Scope.READ),
        _method("tidegate.deliveries.list", DeliveryList, control.deliveries_list, Scope.READ),
        _method("tidegate.deliveries.show", DeliveryShow, control.deliveries_show, Scope.READ),
        _method("tidegate.pairing.list", PairingList, control.pairing_list, Scope.PAIRING),
        _method("tidegate.pairing.approve", PairingApprove, control.pairing_approve, Scope.PAIRING),
        _method("tidegate.pairing.reject", PairingReject, control.pairing_reject, Scope.PAIRING),
        _method("tidegate.send", SendLater, control.send, Scope.WRITE),
        _method("tidegate.reload", NoParams, control.reload, Scope.ADMIN),
    ]


def config_methods(gateway: Located) -> list[Method]:
    """Return the methods about the configuration that the protocol does not have."""

    async def check(call: Call) -> Any:
        site, environ = gateway.site, gateway.loaded.environment
        return await asyncio.to_thread(config_report, site, environ, effective=call.params.effective)

    return [Method("tidegate.config.check", ConfigCheck, check, Scope.READ, hidden=True)]


def _method(name: str, params: type[Params], operation: Operation, scope: Scope) -> Method:
    async def handler(call: Call) -> Any:
        given = {field: getattr(call.params, field) for field in type(call.params).model_fields}
        try:
            return await operation(**given)
        except ValueError as error:
            raise RpcError(Code.INVALID_REQUEST, str(error)) from error

    return Method(name, params, handler, scope, hidden=True)


def _status(control: Control) -> Callable[[Call], Awaitable[Any]]:
    async def handler(call: Call) -> Any:
        data = await control.status()
        return data if call.caller.may(Scope.ADMIN) else _without_places(data)

    return handler


def _without_places(data: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out where files are and who asks to be let in: only an admin is told."""
    store = {name: value for name, value in dict(data.get("store", {})).items() if name != "path"}
    return {**{name: value for name, value in data.items() if name not in ("config", "asking")}, "store": store}
