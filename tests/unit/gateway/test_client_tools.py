from __future__ import annotations

from dataclasses import dataclass, field

from fakes.event_loop import on_loop
from tidegate.agent_runtime.messages import Message, Role, ToolCall, Usage
from tidegate.agent_runtime.models.base import ModelReply, ModelRequest, OnText, ToolDefinition
from tidegate.gateway.client_tools import (
    NOT_JSON,
    WAITING,
    ClientTools,
    HandedTools,
    HandingModel,
    HandingTools,
)

MINE = ToolDefinition("read", "theirs", {})
EXTRA = ToolDefinition("look", "theirs", {})


@dataclass
class OwnTools:
    """Two tools of ours; remembers what was asked of them."""

    prepared: list[str] = field(default_factory=list)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        return (ToolDefinition("read", "ours", {}), ToolDefinition("write", "ours", {}))

    def is_known(self, name: str) -> bool:
        return name in ("read", "write")

    def is_read_only(self, name: str) -> bool:
        return name == "read"

    async def prepare(self, call: ToolCall) -> Message:
        self.prepared.append(call.name)
        return Message(Role.TOOL, "ours", tool_call_id=call.id)


@dataclass
class Model:
    """Answers always the same; remembers the requests."""

    requests: list[ModelRequest] = field(default_factory=list)

    async def complete(self, request: ModelRequest, on_text: OnText) -> ModelReply:
        self.requests.append(request)
        return ModelReply(Message(Role.ASSISTANT, "hello"), Usage(1, 1), "end", "fake/model")


REQUEST = ModelRequest("model", ("stable", "tail"), ())


def test_tools_of_the_newest_message_that_brought_any_are_offered_until_they_are_forgotten() -> None:
    tools = HandedTools()
    first, second = tools.offer("m1", ClientTools((EXTRA,))), tools.offer("m2", ClientTools((MINE,)))
    assert tools.of(["m1", "m2", "m3"]) is second
    tools.forget("m2")
    assert tools.of(["m1", "m2"]) is first
    tools.forget("m1")
    tools.forget("m1")
    assert tools.of(["m1", "m2"]) is None


@on_loop
async def test_a_tool_of_the_program_hides_ours_and_the_others_stay() -> None:
    own, handed = OwnTools(), HandedTools().offer("m", ClientTools((MINE, EXTRA)))
    box = HandingTools(own, handed)
    assert [(tool.name, tool.description) for tool in box.definitions()] == [
        ("write", "ours"),
        ("read", "theirs"),
        ("look", "theirs"),
    ]
    assert [box.is_known(name) for name in ("look", "write", "other")] == [True, True, False]
    assert [box.is_read_only(name) for name in ("look", "write")] == [True, False]
    ready = await box.prepare(ToolCall("c1", "read", '{"a": 1}'))
    assert not isinstance(ready, Message)
    assert ready.summary == "read"
    result = await ready.run(1.0)
    assert (result.tool_call_id, "c1" in result.text, result.is_error) == ("c1", True, False)
    assert [call.name for call in handed.calls] == ["read"]
    assert own.prepared == []
    await box.prepare(ToolCall("c2", "write", "{}"))
    assert own.prepared == ["write"]


@on_loop
async def test_a_call_without_arguments_that_can_be_read_is_not_handed_over() -> None:
    handed = HandedTools().offer("m", ClientTools((EXTRA,)))
    refused = await HandingTools(OwnTools(), handed).prepare(ToolCall("c1", "look", "[1]"))
    assert isinstance(refused, Message)
    assert (refused.text, refused.is_error, handed.calls) == (NOT_JSON, True, [])


@on_loop
async def test_a_model_is_not_asked_again_once_something_was_handed_over() -> None:
    model, handed = Model(), HandedTools().offer("m", ClientTools((EXTRA,), ("look",)))
    handing = HandingModel(model, handed)
    assert [tool.name for tool in HandingTools(OwnTools(), handed).definitions()] == ["look"]
    await handing.complete(REQUEST, lambda _: None)
    assert model.requests[0].system[0] == "stable"
    assert "Answer now by calling one of these tools: look." in model.requests[0].system[1]
    handed.calls.append(ToolCall("c1", "look", "{}"))
    reply = await handing.complete(REQUEST, lambda _: None)
    assert (reply.message.text, reply.model, len(model.requests)) == (WAITING, "fake/model", 1)
