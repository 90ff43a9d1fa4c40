"""The OpenAI-compatible provider against a server on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from fakes.fake_model import Bytes, Call, Endless, Fail, FakeModel, Say, Step, Whole
from tidegate.agent_runtime.messages import Image, Message, Role, ToolCall, Usage
from tidegate.agent_runtime.models.base import ModelReply, ModelRequest, ToolDefinition
from tidegate.agent_runtime.models.openai_chat import OpenAIChat
from tidegate.agent_runtime.models.openai_wire import Dialect
from tidegate.agent_runtime.models.transport import Endpoint
from tidegate.errors import ContextTooLong, ModelError, ModelRefused, ModelUnavailable

READ = ToolDefinition("read", "Read.", {"type": "object", "properties": {"path": {"type": "string"}}})


def user(text: str) -> Message:
    return Message(Role.USER, text)


def ask(
    *steps: Step,
    messages: tuple[Message, ...] = (user("hi"),),
    tools: tuple[ToolDefinition, ...] = (),
    check: Callable[[FakeModel], None] = lambda fake: None,
    **endpoint: Any,
) -> tuple[ModelReply, list[str]]:
    """Send one request and return the reply with the pieces of text that were streamed."""

    async def blob(name: str) -> bytes:
        return {"sha256:1": b"png"}[name]

    async def run() -> tuple[ModelReply, list[str]]:
        pieces: list[str] = []
        async with FakeModel(steps) as fake, aiohttp.ClientSession() as session:
            provider = OpenAIChat(session, Endpoint("local", fake.url, "k", **endpoint), blob, Dialect())
            reply = await provider.complete(ModelRequest("m1", ("stable", "volatile"), messages, tools), pieces.append)
            check(fake)
            return reply, pieces

    return asyncio.run(run())


def sse(*chunks: dict[str, Any], end: bytes = b"data: [DONE]\n\n") -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + end


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def test_text_streams_and_comes_whole_with_its_usage() -> None:
    reply, pieces = ask(Say("Hello there, friend"))
    assert reply.message.text == "Hello there, friend" == "".join(pieces)
    assert len(pieces) > 2
    assert reply.usage == Usage(input=40, output=20, cache_read=60)
    assert (reply.stop, reply.model) == ("end", "local/m1")


def test_the_request_is_compact_and_carries_prompt_tools_and_key() -> None:
    def check(fake: FakeModel) -> None:
        seen = fake.seen[0]
        assert seen.headers["Authorization"] == "Bearer k"
        assert seen.body["messages"][0] == {"role": "system", "content": "stable\n\nvolatile"}
        assert seen.body["tools"][0]["function"]["name"] == "read"
        assert seen.size == len(json.dumps(seen.body, separators=(",", ":"), ensure_ascii=False).encode())

    ask(Say("ok"), tools=(READ,), check=check)


def test_tool_calls_are_put_together_from_their_pieces() -> None:
    reply, _ = ask(Call((("read", '{"path":"a.md"}'), ("read", '{"path":"ü.md"}'))), tools=(READ,))
    assert [json.loads(call.arguments)["path"] for call in reply.message.tool_calls] == ["a.md", "ü.md"]
    assert reply.stop == "tool_calls"


@pytest.mark.parametrize(
    "calls",
    [
        [{"function": {"name": "read", "arguments": {"path": "a"}}}, {"function": {"name": "read", "arguments": "{}"}}],
        [
            {"index": 0, "id": "x", "function": {"name": "read", "arguments": '{"path":"a"}'}},
            {"index": 0, "id": "y", "function": {"name": "read", "arguments": "{}"}},
        ],
        [
            {"id": "x", "function": {"name": "read", "arguments": '{"path"'}},
            {"id": "x", "function": {"arguments": ':"a"}'}},
            {"id": "y", "function": {"name": "read", "arguments": "{}"}},
        ],
    ],
    ids=["whole objects without index and id", "one index for all", "told apart by id only"],
)
def test_calls_of_careless_servers_are_told_apart(calls: list[dict[str, Any]]) -> None:
    chunks = [delta(tool_calls=[call]) for call in calls]
    reply, _ = ask(Bytes((sse(*chunks, delta("tool_calls")),)), tools=(READ,))
    assert [json.loads(call.arguments) for call in reply.message.tool_calls] == [{"path": "a"}, {}]


def test_any_cut_of_the_byte_stream_gives_the_same_text() -> None:
    stream = b": keep-alive\r\n\r\n" + sse(delta(content="naïve 😀"), delta(content=" ok"), delta("stop"))
    stream = stream.replace(b"\\u00ef", "ï".encode()).replace(b"\n", b"\r\n").replace(b"\r\r\n", b"\r\n")
    for size in (1, 2, 3, 7, 64):
        chunks = tuple(stream[start : start + size] for start in range(0, len(stream), size))
        reply, _ = ask(Bytes(chunks))
        assert reply.message.text == "naïve 😀 ok"


def test_a_character_escaped_in_two_halves_is_one_character() -> None:
    first, second = (
        b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % part for part in (b"a\\ud83d", b"\\ude00b")
    )
    reply, pieces = ask(Bytes((first, second, sse(delta("stop")))))
    assert reply.message.text == "a😀b" == "".join(pieces)


@pytest.mark.parametrize("end", [b"", b"data: [DONE]", b"data: [DONE]\n\n"])
def test_a_missing_or_unfinished_done_is_tolerated(end: bytes) -> None:
    reply, _ = ask(Bytes((sse(delta(content="all"), delta("stop"), end=end),)))
    assert reply.message.text == "all"


def test_one_connection_serves_many_calls() -> None:
    async def run() -> None:
        async with FakeModel() as fake, aiohttp.ClientSession() as session:
            provider = OpenAIChat(session, Endpoint("local", fake.url))
            for _ in range(5):
                await provider.complete(ModelRequest("m", ("", ""), (user("hi"),)), lambda text: None)
            assert len({str(seen.peer) for seen in fake.seen}) == 1

    asyncio.run(run())


def test_a_stream_that_stays_open_after_its_last_event_is_not_waited_for() -> None:
    stream = sse(delta(content="all"), delta("stop"))
    assert ask(Bytes((stream,), hang=True), idle=20.0)[0].message.text == "all"


def test_a_connection_that_breaks_after_the_last_event_does_no_harm() -> None:
    stream = sse(delta(content="all"), delta("stop"))
    assert ask(Bytes((stream,), cut=True))[0].message.text == "all"


def test_one_json_body_instead_of_a_stream_is_tolerated() -> None:
    reply, pieces = ask(Whole("in one piece"))
    assert (reply.message.text, pieces, reply.usage) == ("in one piece", ["in one piece"], Usage(7, 3))


@pytest.mark.parametrize(
    ("finish", "stop"), [("stop", "end"), ("length", "length"), ("content_filter", "refusal"), ("odd", "end")]
)
def test_finish_reasons_become_ours(finish: str, stop: str) -> None:
    assert ask(Say("text", finish=finish))[0].stop == stop


def test_a_withheld_answer_is_a_refusal() -> None:
    with pytest.raises(ModelRefused) as caught:
        ask(Say("", finish="content_filter"))
    assert caught.value.kind == "refused"


@pytest.mark.parametrize(
    "step",
    [
        Bytes((sse(delta(content="half"), end=b""),)),
        Bytes((sse(delta(content="half"), end=b""),), cut=True),
        Bytes((b"<html>busy</html>",)),
        Bytes((b"data: <html>\n\n",)),
        Bytes((b"data: [1]\n\n",)),
        Bytes((b"not json",), content_type="application/json"),
        Bytes(()),
    ],
    ids=["no end", "cut off", "html", "html in an event", "array", "bad body", "nothing"],
)
def test_a_broken_answer_may_be_tried_again(step: Step) -> None:
    with pytest.raises(ModelUnavailable):
        ask(step)


def test_a_silent_server_is_given_up() -> None:
    with pytest.raises(ModelUnavailable) as caught:
        ask(Bytes((sse(delta(content="a"), end=b""),), hang=True), idle=0.1)
    assert caught.value.kind == "timeout"


def test_an_endless_answer_ends_at_the_total_deadline() -> None:
    with pytest.raises(ModelUnavailable) as caught:
        ask(Endless(), total=0.3)
    assert caught.value.kind == "timeout"


def test_a_server_that_is_not_there_is_a_network_failure() -> None:
    async def run() -> None:
        async with aiohttp.ClientSession() as session:
            provider = OpenAIChat(session, Endpoint("local", "http://127.0.0.1:9/v1"))
            await provider.complete(ModelRequest("m", ("", ""), (user("hi"),)), lambda text: None)

    with pytest.raises(ModelUnavailable) as caught:
        asyncio.run(run())
    assert caught.value.kind == "network"


@pytest.mark.parametrize(
    ("step", "kind", "error"),
    [
        (Fail(401, "bad key"), "auth", ModelRefused),
        (Fail(402, "pay"), "billing", ModelRefused),
        (Fail(429, "You exceeded your current quota", code="insufficient_quota"), "billing", ModelRefused),
        (Fail(404, "The model `x` does not exist"), "not_found", ModelRefused),
        (Fail(400, "bad tool schema"), "format", ModelRefused),
        (Fail(400, "blocked by content_policy"), "refused", ModelRefused),
        (Fail(400, "This model's maximum context length is 8192 tokens"), "context_overflow", ContextTooLong),
        (Fail(413, "input is too long"), "context_overflow", ContextTooLong),
        (Fail(500, "boom"), "server", ModelUnavailable),
        (Fail(503, "busy"), "overloaded", ModelUnavailable),
        (Fail(302, "", {"location": "http://127.0.0.1:9/"}), "server", ModelUnavailable),
    ],
)
def test_statuses_become_typed_errors(step: Step, kind: str, error: type[ModelError]) -> None:
    with pytest.raises(error) as caught:
        ask(step)
    assert caught.value.kind == kind


def test_no_word_of_the_server_is_in_the_error() -> None:
    with pytest.raises(ModelError) as caught:
        ask(Fail(500, "sk-secret"))
    assert "secret" not in str(caught.value)


def test_an_error_inside_the_stream_is_typed() -> None:
    event = {"error": {"code": 429, "message": "slow down"}}
    with pytest.raises(ModelUnavailable) as caught:
        ask(Bytes((sse(delta(content="a"), event),)))
    assert caught.value.kind == "rate_limit"


def test_pictures_go_as_data_urls_and_lost_ones_as_words() -> None:
    def check(fake: FakeModel) -> None:
        parts = fake.seen[0].body["messages"][1]["content"]
        assert parts[1]["image_url"]["url"] == "data:image/png;base64,cG5n"
        assert parts[2]["type"] == "text"

    images = (Image("sha256:1", "image/png"), Image("sha256:2", "image/png"))
    ask(Say("a picture"), messages=(Message(Role.USER, "look", images),), check=check)


def test_inline_reasoning_is_not_shown() -> None:
    reply, pieces = ask(Say("<think>secret plan</think>\n\nAnswer", piece=3))
    assert reply.message.text == "Answer" == "".join(pieces)


def test_a_tool_call_written_as_text_is_run_and_not_shown() -> None:
    text = '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>'
    reply, pieces = ask(Say(text, piece=3), tools=(READ,))
    assert (reply.message.tool_calls[0].name, reply.message.text, pieces) == ("read", "", [])


def test_json_that_is_no_call_is_an_answer() -> None:
    reply, _ = ask(Say('{"name": "Tide", "age": 3}'), tools=(READ,))
    assert reply.message.text == '{"name": "Tide", "age": 3}'
    assert not reply.message.tool_calls


def test_what_a_provider_wants_back_goes_back_to_it_only() -> None:
    call = {"index": 0, "id": "x", "function": {"name": "read", "arguments": "{}"}, "extra_content": {"sig": "s"}}
    reply, _ = ask(Bytes((sse(delta(tool_calls=[call]), delta("tool_calls")),)), tools=(READ,))
    result = Message(Role.TOOL, "text", tool_call_id="x")

    def check(fake: FakeModel) -> None:
        assert fake.seen[0].body["messages"][2]["tool_calls"][0]["extra_content"] == {"sig": "s"}

    ask(Say("done"), messages=(user("hi"), reply.message, result), check=check)
    foreign = Message(Role.ASSISTANT, tool_calls=(ToolCall("x", "read", "{}"),), opaque='{"provider":"anthropic"}')

    def check_foreign(fake: FakeModel) -> None:
        assert "extra_content" not in fake.seen[0].body["messages"][2]["tool_calls"][0]

    ask(Say("done"), messages=(user("hi"), foreign, result), check=check_foreign)


def test_a_call_cut_off_before_its_arguments_is_not_a_call_without_any() -> None:
    call = {"index": 0, "id": "x", "function": {"name": "read", "arguments": ""}}
    reply, _ = ask(Bytes((sse(delta(tool_calls=[call]), delta("length")),)), tools=(READ,))
    assert reply.message.tool_calls[0].arguments == "{"
