"""What a method of the control plane is. The table of methods is the only place that says who may call what.

Rights are server-side grants bound to a proven identity: a `Caller` is made by the handshake and never from what a
client says about itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from tidegate.errors import TidegateError


class Role(StrEnum):
    """What a connection is: a person's tool, or a machine that offers commands."""

    OPERATOR = "operator"
    NODE = "node"


class Scope(StrEnum):
    """What an operator may do."""

    READ = "operator.read"
    WRITE = "operator.write"
    ADMIN = "operator.admin"
    APPROVALS = "operator.approvals"
    QUESTIONS = "operator.questions"
    PAIRING = "operator.pairing"
    TALK = "operator.talk"
    TALK_SECRETS = "operator.talk.secrets"
    SESSIONS_READ = "operator.sessions.read"
    SESSIONS_WRITE = "operator.sessions.write"


_IMPLIED: dict[Scope, frozenset[Scope]] = {
    Scope.WRITE: frozenset({Scope.READ, Scope.TALK, Scope.SESSIONS_READ, Scope.SESSIONS_WRITE}),
    Scope.READ: frozenset({Scope.SESSIONS_READ}),
    Scope.SESSIONS_WRITE: frozenset({Scope.SESSIONS_READ}),
}


def covers(held: Iterable[str], needed: Scope) -> bool:
    """Return whether a set of scopes includes one: `admin` includes all, `write` includes `read`."""
    granted = set(held)
    if Scope.ADMIN in granted or needed in granted:
        return True
    return any(needed in implied for scope, implied in _IMPLIED.items() if scope in granted)


class Code(StrEnum):
    """Classes of errors on the wire."""

    INVALID_REQUEST = "INVALID_REQUEST"
    FORBIDDEN = "FORBIDDEN"
    NOT_PAIRED = "NOT_PAIRED"
    UNAVAILABLE = "UNAVAILABLE"
    APPROVAL_NOT_FOUND = "APPROVAL_NOT_FOUND"


class RpcError(TidegateError):
    """A request is answered with an error. Clients branch on the code and the details, never on the text."""

    def __init__(
        self,
        code: Code,
        message: str,
        details: dict[str, Any] | None = None,
        *,
        retryable: bool | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms

    def as_wire(self) -> dict[str, Any]:
        """Return the `error` object of a response."""
        wire: dict[str, Any] = {"code": self.code.value, "message": self.message}
        if self.details is not None:
            wire["details"] = self.details
        if self.retryable is not None:
            wire["retryable"] = self.retryable
        if self.retry_after_ms is not None:
            wire["retryAfterMs"] = self.retry_after_ms
        return wire


MAX_NAME = 2_048
"""Characters of a text that is a name, a key or an address."""
MAX_SAID = 4 << 20
Text = Annotated[str, Field(min_length=1)]
"""A name, a key or an address that has to be there."""
RunId = Annotated[str, Field(min_length=1, max_length=256)]
"""The key of a request, which names its run as well."""
Said = Annotated[str, Field(max_length=MAX_SAID)]
"""What somebody wrote, or a file's content."""


class Params(BaseModel):
    """Parameters of a method. Unknown keys are refused, and texts that are too long; what people write is `Said`."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, str_max_length=MAX_NAME)


class NoParams(Params):
    """A method without parameters."""


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """What a client says about itself; for people to read, never for deciding rights."""

    id: str
    mode: str
    version: str
    platform: str
    display_name: str = ""
    device_family: str = ""
    instance_id: str = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as the handshake proved it.

    Attributes:
        connection: Id of the socket.
        method: How it was authenticated: token, password, none, device-token, trusted-proxy.
        device: Id of the proven device, or empty.
        is_local: A direct connection from this machine, without a proxy in between.
        commands: What a node says that it can do; asked for only after a person approved it.
    """

    connection: str
    role: Role
    scopes: frozenset[str]
    client: ClientInfo
    caps: frozenset[str] = field(default_factory=frozenset)
    method: str = ""
    device: str = ""
    is_local: bool = False
    commands: tuple[str, ...] = ()

    def may(self, scope: Scope) -> bool:
        """Return whether the caller holds a scope."""
        return self.role is Role.OPERATOR and covers(self.scopes, scope)


@dataclass(frozen=True, slots=True)
class Call:
    """One request of one caller.

    Attributes:
        params: An instance of the method's `params` model.
        later: Sends a second response with the same id, once; for methods that answer twice.
        spawn: Runs the rest of a method after its first response, in a task that the connection owns.
    """

    id: str
    method: str
    params: Any
    caller: Caller
    later: Callable[[Any], None]
    spawn: Callable[[Awaitable[None]], None]


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a handler returns when all is done that it changes, and the answer has to be waited for.

    Attributes:
        answer: Waits and returns the payload, or raises RpcError. It belongs to the connection, and ends with it.
    """

    answer: Callable[[], Awaitable[Any]]


Handler = Callable[[Call], Awaitable[Any]]
"""Returns the payload of the response, or `Waiting`."""
ScopeOf = Scope | Callable[[Any], Scope]
"""A scope, or a function from the parameters to the scope that they need."""


@dataclass(frozen=True, slots=True)
class Method:
    """One method.

    Attributes:
        scope: What an operator needs; None for methods that only nodes call.
        roles: Who may call it at all.
        hidden: Callable, but not listed in `features.methods`.
        write_budget: Counts against the budget of 30 control-plane writes a minute.
        lasting: It runs to its end although its caller goes; by default every method that needs more than the right
            to read. Such a handler must not wait long: what it only waits for is a `Waiting`.
        precheck: Looks at the raw parameters before the model does, for methods whose clients expect that
            order; raises RpcError.
    """

    name: str
    params: type[Params]
    handler: Handler
    scope: ScopeOf | None
    roles: frozenset[Role] = frozenset({Role.OPERATOR})
    hidden: bool = False
    write_budget: bool = False
    lasting: bool | None = None
    precheck: Callable[[Any], None] | None = None

    @property
    def lasts(self) -> bool:
        """Return whether it runs to its end although its caller goes."""
        return self.scope is not Scope.READ if self.lasting is None else self.lasting


class MethodTable:
    """All methods by name."""

    def __init__(self, methods: Iterable[Method]) -> None:
        """Take the methods. Raises ValueError when two have one name, or one has no stated scope."""
        self._methods: dict[str, Method] = {}
        for method in methods:
            if method.name in self._methods:
                raise ValueError(f"two methods are named {method.name!r}")
            if method.scope is None and Role.OPERATOR in method.roles:
                raise ValueError(f"{method.name!r} does not say which scope it needs")
            self._methods[method.name] = method

    def get(self, name: str) -> Method | None:
        """Return a method."""
        return self._methods.get(name)

    def all(self) -> tuple[Method, ...]:
        """Return every method, by name."""
        return tuple(self._methods[name] for name in sorted(self._methods))

    def advertised(self) -> list[str]:
        """Return the names for `features.methods`."""
        return [method.name for method in self.all() if not method.hidden]


@dataclass(frozen=True, slots=True)
class PlaneEvent:
    """An event for connected clients.

    Attributes:
        scope: What an operator needs to see it, besides what the table in `broadcast.py` asks for events of this
            name; None asks for no more.
        session: The session it belongs to, for clients that asked for some sessions only; empty for none.
        drop_if_slow: A slow client may miss it.
        only: Connections that get it; None for all who may.
        to_nodes: Node connections get it too.
    """

    name: str
    payload: Any
    scope: Scope | None = None
    session: str = ""
    drop_if_slow: bool = False
    only: frozenset[str] | None = None
    to_nodes: bool = False


Publish = Callable[[PlaneEvent], None]
"""Hands an event to the connections; returns at once."""
