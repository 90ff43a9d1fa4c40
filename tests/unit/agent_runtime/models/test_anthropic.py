"""The Anthropic provider against a server on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.fake_model import Bytes, Call, Endless, Fail, FakeModel, Say, Step, Whole, check_anthropic
from tidegate.agent_runtime.history import valid_history
from tidegate.agent_runtime.messages import Image, Message, Role, ToolCall, Usage
from tidegate.agent_runtime.models.anthropic import AnthropicMessages
from tidegate.agent_runtime.models.anthropic_wire import encode_request
from tidegate.agent_runtime.models.base import ModelReply, ModelRequest, ToolDefinition
from tidegate.agent_runtime.models.transport import Endpoint
from tidegate.errors import ContextTooLong, ModelError, ModelRefused, ModelUnavailable

READ = ToolDefinition("read", "Read.", {"type": "object", "properties": {"path": {"type": "string"}}})


def user(text: str) -> Message:
    return Message(Role.USER, text)


def ask(
    *steps: Step,
    messages: tuple[Message, ...] = (user("hi"),),
    thinking: str = "off",
    check: Callable[[FakeModel], None] = lambda fake: None,
    total: float = 20.0,
) -> tuple[ModelReply, list[str]]:
    async def run() -> tuple[ModelReply, list[str]]:
        pieces: list[str] = []
        async with FakeModel(steps) as fake, aiohttp.ClientSession() as session:
            provider = AnthropicMessages(session, Endpoint("anthropic", fake.url, "k", total=total))
            request = ModelRequest("c1", ("stable", "volatile"), messages, (READ,), thinking=thinking)
            reply = await provider.complete(request, pieces.append)
            check(fake)
            return reply, pieces

    return asyncio.run(run())


def test_text_streams_and_comes_whole_with_its_usage() -> None:
    reply, pieces = ask(Say("Hello there"))
    assert reply.message.text == "Hello there" == "".join(pieces)
    assert reply.usage == Usage(input=40, output=20, cache_read=60)


def test_the_stable_prompt_and_the_last_user_block_are_marked_for_caching() -> None:
    def check(fake: FakeModel) -> None:
        body = fake.seen[0].body
        assert body["system"][0] == {"type": "text", "text": "stable", "cache_control": {"type": "ephemeral"}}
        assert "cache_control" not in body["system"][1]
        assert body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
        assert fake.seen[0].headers["x-api-key"] == "k"

    ask(Say("ok"), check=check)


def test_thinking_goes_back_unchanged_with_the_tool_results_it_led_to() -> None:
    reply, _ = ask(Call((("read", '{"path":"a"}'), ("read", "{}"))), thinking="low")
    calls = reply.message.tool_calls
    results = tuple(Message(Role.TOOL, "text", tool_call_id=call.id) for call in calls)

    def check(fake: FakeModel) -> None:
        body = fake.seen[0].body
        blocks = body["messages"][1]["content"]
        assert blocks[0] == {"type": "thinking", "thinking": "let me look", "signature": "signed"}
        assert [block["input"] for block in blocks[1:]] == [{"path": "a"}, {}]
        assert body["max_tokens"] > body["thinking"]["budget_tokens"] == 2048

    ask(Say("done"), messages=(user("hi"), reply.message, *results), thinking="low", check=check)


@pytest.mark.parametrize(
    ("step", "kind", "error"),
    [
        (Fail(529, "overloaded", code="overloaded_error"), "overloaded", ModelUnavailable),
        (Fail(401, "no", code="authentication_error"), "auth", ModelRefused),
        (Fail(400, "prompt is too long: 210000 tokens > 200000 maximum"), "context_overflow", ContextTooLong),
        (Fail(400, "Your credit balance is too low"), "billing", ModelRefused),
        (Bytes((b'data: {"type":"error","error":{"type":"overloaded_error"}}\n\n',)), "overloaded", ModelUnavailable),
        (Bytes((b'data: {"type":"message_start","message":{}}\n\n',)), "server", ModelUnavailable),
        (Bytes((b"data: no json\n\n",)), "server", ModelUnavailable),
        (Say("", finish="refusal"), "refused", ModelRefused),
    ],
)
def test_failures_become_typed_errors(step: Step, kind: str, error: type[ModelError]) -> None:
    with pytest.raises(error) as caught:
        ask(step)
    assert caught.value.kind == kind


def test_thinking_is_off_while_a_tool_step_of_another_model_is_open() -> None:
    foreign = Message(Role.ASSISTANT, tool_calls=(ToolCall("x", "read", "{}"),), opaque='{"provider":"openai"}')

    def check(fake: FakeModel) -> None:
        assert "thinking" not in fake.seen[0].body

    messages = (user("hi"), foreign, Message(Role.TOOL, "text", tool_call_id="x"))
    ask(Say("done"), messages=messages, thinking="high", check=check)


def test_retry_after_is_passed_on() -> None:
    with pytest.raises(ModelUnavailable) as caught:
        ask(Fail(429, "slow", {"retry-after": "7"}))
    assert caught.value.retry_after == 7


def test_an_endless_answer_ends_at_the_total_deadline() -> None:
    with pytest.raises(ModelUnavailable):
        ask(Endless(), total=0.3)


def test_one_json_body_instead_of_a_stream_is_tolerated() -> None:
    assert ask(Whole("in one piece"))[0].message.text == "in one piece"


def test_a_lost_picture_is_named_in_words() -> None:
    def check(fake: FakeModel) -> None:
        assert [block["type"] for block in fake.seen[0].body["messages"][0]["content"]] == ["text", "text"]

    ask(Say("ok"), messages=(Message(Role.USER, "see", (Image("sha256:1", "image/png"),)),), check=check)


CALL_IDS = st.sampled_from(["a", "b", "c"])
MESSAGES = st.one_of(
    st.builds(lambda text: Message(Role.USER, text), st.sampled_from(["", "hi", "more"])),
    st.builds(
        lambda text, ids: Message(Role.ASSISTANT, text, tool_calls=tuple(ToolCall(name, "read", "{}") for name in ids)),
        st.sampled_from(["", "well"]),
        st.lists(CALL_IDS, max_size=3),
    ),
    st.builds(lambda name: Message(Role.TOOL, "", tool_call_id=name), CALL_IDS),
)


@settings(max_examples=150)
@given(st.lists(MESSAGES, max_size=12))
def test_every_repaired_history_is_one_that_the_server_accepts(messages: list[Message]) -> None:
    history = valid_history([*messages, user("now")])
    body = json.loads(asyncio.run(encode_request(ModelRequest("m", ("", ""), history), None)))
    assert check_anthropic(body["messages"]) == ""
