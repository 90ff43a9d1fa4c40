"""Tools that a program brings along with its request: the model may call them, the program carries them out.

A call of such a tool ends the turn. The transcript says that it was handed over; what came of it is told with the
program's next message. A run offers them only while the request waits: after a restart they are not there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tidegate.agent_runtime.history import tool_result
from tidegate.agent_runtime.loop import PreparedCall, ToolRunner
from tidegate.agent_runtime.messages import Message, Role, ToolCall, Usage
from tidegate.agent_runtime.models.base import ModelProvider, ModelReply, ModelRequest, OnText, ToolDefinition
from tidegate.agent_runtime.models.repair import repair_arguments

HANDED_OVER = "Handed over as {id} to the program that asked. What came of it is told with its next message."
WAITING = "(I wait for what comes of the calls that I handed over.)"
NOT_JSON = "The arguments are not a JSON object. Nothing was done."


@dataclass(frozen=True, slots=True)
class ClientTools:
    """What a program brings along.

    Attributes:
        must: Names one of which is to be called; empty when the model is free.
    """

    tools: tuple[ToolDefinition, ...]
    must: tuple[str, ...] = ()


@dataclass(slots=True)
class Handed:
    """The tools of one request, and the calls that were handed over so far."""

    brought: ClientTools
    calls: list[ToolCall] = field(default_factory=list)

    @property
    def names(self) -> frozenset[str]:
        """The names of its tools."""
        return frozenset(tool.name for tool in self.brought.tools)


class HandedTools:
    """The tools of all requests that wait, by the id of their message."""

    def __init__(self) -> None:
        self._waiting: dict[str, Handed] = {}

    def offer(self, message_id: str, brought: ClientTools) -> Handed:
        """Offer tools to the turn of a message; whoever waits for its answer takes them back with `forget`."""
        handed = self._waiting[message_id] = Handed(brought)
        return handed

    def forget(self, message_id: str) -> None:
        """Offer them no more."""
        self._waiting.pop(message_id, None)

    def of(self, message_ids: Iterable[str]) -> Handed | None:
        """Return the tools of the newest of some messages that brought any."""
        found = [self._waiting[name] for name in message_ids if name in self._waiting]
        return found[-1] if found else None


class HandingTools:
    """The tools of a run with those of the program in front: one of the same name hides ours.

    It gains nothing by that: the program carries it out, with its own rights.
    """

    def __init__(self, own: ToolRunner, handed: Handed) -> None:
        self._own = own
        self._handed = handed

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that the model may see; only those that it must choose from, if it must."""
        brought, names = self._handed.brought, self._handed.names
        if brought.must:
            return tuple(tool for tool in brought.tools if tool.name in brought.must)
        return (*(tool for tool in self._own.definitions() if tool.name not in names), *brought.tools)

    def is_known(self, name: str) -> bool:
        """Tell whether a tool is known."""
        return name in self._handed.names or self._own.is_known(name)

    def is_read_only(self, name: str) -> bool:
        """Tell whether the tool only reads; handing a call over does nothing here."""
        return name in self._handed.names or self._own.is_read_only(name)

    async def prepare(self, call: ToolCall) -> PreparedCall | Message:
        """Return the call ready to be handed over, or to run."""
        if call.name not in self._handed.names:
            return await self._own.prepare(call)
        if repair_arguments(call.arguments) is None:
            return tool_result(call.id, NOT_JSON, is_error=True)
        return _HandedCall(call, self._handed)


@dataclass(frozen=True, slots=True)
class _HandedCall:
    """A call that the program carries out."""

    call: ToolCall
    handed: Handed

    @property
    def summary(self) -> str:
        """What is called."""
        return self.call.name

    async def run(self, seconds: float | None) -> Message:
        """Hand it over."""
        del seconds
        self.handed.calls.append(self.call)
        return tool_result(self.call.id, HANDED_OVER.format(id=self.call.id))


class HandingModel:
    """A model that is not asked again once a call was handed over: the turn ends there."""

    def __init__(self, model: ModelProvider, handed: Handed) -> None:
        self._model = model
        self._handed = handed
        self._last = ""

    async def complete(self, request: ModelRequest, on_text: OnText) -> ModelReply:
        """Ask the model, or end the turn."""
        if self._handed.calls:
            return ModelReply(Message(Role.ASSISTANT, WAITING), Usage(), "end", self._last)
        must = self._handed.brought.must
        if must:
            stable, tail = request.system
            told = f"{tail}\n\nAnswer now by calling one of these tools: {', '.join(must)}."
            request = replace(request, system=(stable, told.strip()))
        reply = await self._model.complete(request, on_text)
        self._last = reply.model
        return reply
