"""Tools that a program brings along to `/v1`: the model calls them, the program carries them out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.event_loop import on_loop
from harness.brain import Ask, Tools
from plane.test_openai_api import JSON, Api, api, refused
from tidegate.gateway.client_tools import HANDED_OVER, WAITING
from tidegate.gateway.http.openai_tools import read_tools
from tidegate.gateway.http.openai_wire import ApiError

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
QUESTION = {"role": "user", "content": "How is the weather in Lisbon?"}


async def asks_first(ask: Ask) -> str | Tools:
    """Call the program's tool until its result was told."""
    if "[Result of " in ask.last:
        return f"It is {ask.last.rpartition(chr(10))[2]}."
    return Tools((("get_weather", {"city": "Lisbon"}),), text="Let me look.")


def offered(running: Api, index: int = -1) -> set[str]:
    return {tool["function"]["name"] for tool in running.play.brain.asks[index].body.get("tools", [])}


@on_loop
async def test_a_call_is_handed_to_the_program_and_its_result_is_answered(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        running.play.brain.think = asks_first
        body: dict[str, Any] = {"model": "openclaw", "messages": [QUESTION], "tools": [WEATHER]}
        status, first = await running.call("POST", "/v1/chat/completions", body)
        assert status == 200
        choice = first["choices"][0]
        assert choice["finish_reason"] == "tool_calls"
        message = choice["message"]
        assert message["content"] == "Let me look."
        (call,) = message["tool_calls"]
        assert (call["type"], call["function"]["name"]) == ("function", "get_weather")
        assert json.loads(call["function"]["arguments"]) == {"city": "Lisbon"}
        assert len(running.play.brain.asks) == 1
        assert {"get_weather", "read"} <= offered(running)
        result = {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}
        body["messages"] = [QUESTION, message, result]
        second = (await running.call("POST", "/v1/chat/completions", body))[1]
        assert second["choices"][0]["message"] == {"role": "assistant", "content": "It is sunny."}
        assert second["choices"][0]["finish_reason"] == "stop"
        told = json.dumps(running.play.brain.asks[-1].body["messages"])
        assert "I called get_weather with" in told
        # A caller's story about calls is text, never a call of ours.
        assert not any(m.get("tool_calls") for m in running.play.brain.asks[-1].body["messages"])


@on_loop
async def test_a_conversation_with_a_name_goes_on_with_the_result_alone(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        running.play.brain.think = asks_first
        body: dict[str, Any] = {"model": "openclaw", "messages": [QUESTION], "tools": [WEATHER], "user": "ann"}
        message = (await running.call("POST", "/v1/chat/completions", body))[1]["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "rain"}
        body["messages"] = [QUESTION, message, result]
        second = (await running.call("POST", "/v1/chat/completions", body))[1]
        assert second["choices"][0]["message"]["content"] == "It is rain."
        said = running.play.brain.asks[-1].body["messages"]
        handed = HANDED_OVER.format(id=message["tool_calls"][0]["id"])
        assert [m["content"] for m in said if m["role"] == "tool"] == [handed]
        assert f"[Result of get_weather ({message['tool_calls'][0]['id']})]" in json.dumps(said)
        assert [m["content"] for m in said if m["role"] == "assistant"][-1] == WAITING
        assert json.dumps(said).count("How is the weather") == 1


@on_loop
async def test_calls_are_streamed_and_the_waiting_is_not(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        running.play.brain.think = asks_first
        body = {"model": "openclaw", "messages": [QUESTION], "tools": [WEATHER]}
        events = [data for _, data in await running.events("/v1/chat/completions", body)]
        deltas = [chunk["choices"][0] for chunk in events if chunk != "[DONE]"]
        assert "".join(d["delta"].get("content", "") for d in deltas) == "Let me look."
        calls = [call for d in deltas for call in d["delta"].get("tool_calls", [])]
        assert [(call["index"], call["function"]["name"]) for call in calls] == [(0, "get_weather")]
        assert [d["finish_reason"] for d in deltas][-1] == "tool_calls"
        assert events[-1] == "[DONE]"


@on_loop
async def test_responses_hands_calls_over_too(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        running.play.brain.think = asks_first
        flat = {"type": "function", **WEATHER["function"]}  # type: ignore[dict-item]
        body: dict[str, Any] = {"model": "openclaw", "input": "How is the weather?", "tools": [flat]}
        first = (await running.call("POST", "/v1/responses", body))[1]
        assert [item["type"] for item in first["output"]] == ["message", "function_call"]
        call = first["output"][1]
        assert (call["name"], json.loads(call["arguments"])) == ("get_weather", {"city": "Lisbon"})
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "snow"}
        follow = {**body, "input": [output], "previous_response_id": first["id"]}
        second = (await running.call("POST", "/v1/responses", follow))[1]
        assert second["output"][0]["content"][0]["text"] == "It is snow."
        events = await running.events("/v1/responses", body)
        names = [name for name, _ in events]
        assert names.index("response.function_call_arguments.done") < names.index("response.completed")
        done = next(data for name, data in events if name == "response.completed")
        assert [item["type"] for item in done["response"]["output"]] == ["message", "function_call"]


@on_loop
async def test_the_choice_of_the_program_narrows_what_is_offered(tmp_path: Path) -> None:
    other = {"type": "function", "function": {"name": "other"}}
    async with api(tmp_path) as running:
        for choice, expected in (
            ("required", {"get_weather", "other"}),
            ({"type": "function", "function": {"name": "other"}}, {"other"}),
        ):
            await running.chat("hi", tools=[WEATHER, other], tool_choice=choice)
            assert offered(running) == expected
            assert "Answer now by calling one of" in json.dumps(running.play.brain.asks[-1].body["messages"])
        await running.chat("hi", tools=[WEATHER], tool_choice="none")
        assert "get_weather" not in offered(running)
        await running.chat("hi")
        assert "get_weather" not in offered(running)


@on_loop
async def test_a_tool_of_the_program_hides_ours_and_never_runs_here(tmp_path: Path) -> None:
    async def think(ask: Ask) -> str | Tools:
        return Tools((("write", {"path": "x", "content": "y"}),))

    async with api(tmp_path) as running:
        running.play.brain.think = think
        mine = {"type": "function", "function": {"name": "write"}}
        answer = (await running.chat("hi", tools=[mine]))[1]
        assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "write"
        assert answer["choices"][0]["message"]["content"] is None
        assert not list(running.play.state_dir.rglob("workspace*/x"))


@pytest.mark.parametrize(
    "more",
    [
        {"tools": "x"},
        {"tools": [{"type": "web_search"}]},
        {"tools": [{"type": "function", "function": {"name": "bad name"}}]},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]},
        {"tools": [WEATHER, WEATHER]},
        {"tools": [WEATHER] * 200},
        {"tools": [WEATHER], "tool_choice": "sometimes"},
        {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "g"}}},
        {"tools": [{"type": "function", "function": {"name": "f", "description": "x" * 300_000}}]},
        {"functions": [{"name": "f"}]},
    ],
)
@on_loop
async def test_tools_that_cannot_be_used_are_refused_in_words(tmp_path: Path, more: dict[str, Any]) -> None:
    async with api(tmp_path) as running:
        status, body = await running.chat("hi", **more)
        assert (status, bool(body["error"]["message"])) == (400, True)
        assert running.play.brain.asks == []


@given(
    st.dictionaries(st.sampled_from(["tools", "tool_choice", "functions"]), JSON, max_size=3)
    | st.fixed_dictionaries({"tools": st.lists(st.fixed_dictionaries({"type": st.just("function"), "function": JSON}))})
)
def test_any_tools_are_understood_or_refused_in_words(body: dict[str, Any]) -> None:
    found = refused(lambda: read_tools(body))
    if isinstance(found, ApiError):
        assert (found.status, bool(str(found))) == (400, True)
    elif found is not None:
        names = [tool.name for tool in found.tools]
        assert len(names) == len(set(names))
        assert set(found.must) <= set(names)
