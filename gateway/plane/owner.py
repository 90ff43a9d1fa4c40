"""The owner of the state directory: whoever can open its files holds every right, without any secret.

The private socket and a command that works on the bare store both act as the owner.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from tidegate import __version__
from tidegate.gateway.plane.contract import Call, Caller, ClientInfo, Code, MethodTable, Role, RpcError, Scope, Waiting
from tidegate.gateway.plane.frames import validate

METHOD = "owner"
"""How the owner is authenticated: by the rights on the files."""
NEED_A_SOCKET = frozenset({"agent", "chat.send", "sessions.send", "sessions.steer", "sessions.create", "connect"})
"""Methods that go on after their first response, or belong to one connection."""


def owner(connection: str = "") -> Caller:
    """Return the owner as a caller."""
    about = ClientInfo("cli", "cli", __version__, "")
    return Caller(connection, Role.OPERATOR, frozenset({Scope.ADMIN.value}), about, method=METHOD, is_local=True)


async def call_as_owner(methods: MethodTable, name: str, params: Any) -> Any:
    """Call a method that answers once.

    Raises:
        RpcError: There is no such method, the parameters do not fit, or it was refused.
    """
    method = methods.get(name)
    if method is None or Role.OPERATOR not in method.roles:
        raise RpcError(Code.INVALID_REQUEST, f"unknown method: {name}")
    if name in NEED_A_SOCKET:
        raise RpcError(Code.INVALID_REQUEST, f"{name} needs a connection")
    if method.precheck is not None:
        method.precheck(params)
    given = validate(method.params, params, name)
    answer = await method.handler(Call("", name, given, owner(), _no_more, _no_task))
    return await answer.answer() if isinstance(answer, Waiting) else answer


def _no_more(_: Any) -> None:
    raise ValueError("this method was to answer once")


def _no_task(_: Awaitable[None]) -> None:
    raise ValueError("this method was to end with its answer")
