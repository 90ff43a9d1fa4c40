"""What a tool is. One file beside this one per tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict


class Effect(StrEnum):
    """What a tool can do to the world; all that policy knows about it besides its name."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"
    SEND = "send"


class ToolArgs(BaseModel):
    """Arguments as the model sees them. Keys that a tool does not know are ignored: models invent some."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What a tool may know about the session it works for.

    Attributes:
        timezone: IANA name.
        model: `provider/model` asked first.
        is_owner: The person whose turn this is owns the gateway.
    """

    session_key: str
    agent: str = ""
    channel: str = ""
    timezone: str = "UTC"
    model: str = ""
    is_owner: bool = False


def _no_report(_text: str) -> None:
    """Drop progress that nobody watches."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a call runs in.

    Attributes:
        deadline: Seconds the call may take.
        report: Takes a line of progress for whoever watches; returns at once.
    """

    session: SessionFacts
    deadline: float
    report: Callable[[str], None] = _no_report


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool found or did: text for the model, details for interfaces only."""

    text: str
    details: Mapping[str, Any] = field(default_factory=dict)


Args_contra = TypeVar("Args_contra", bound=ToolArgs, contravariant=True)


class Tool(Protocol[Args_contra]):
    """Something an agent can do.

    Attributes:
        idempotent: Running it twice does what running it once does.
        seconds: How long one call may take unless the caller allows less.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    args: ClassVar[type[ToolArgs]]
    effect: ClassVar[Effect]
    idempotent: ClassVar[bool]
    seconds: ClassVar[float]

    async def run(self, args: Args_contra, context: ToolContext) -> ToolResult:
        """Do it. May be cancelled at any await.

        Raises:
            ToolFailure: The call was understood and failed; the model sees the text.
        """
        ...


AnyTool = Tool[Any]
