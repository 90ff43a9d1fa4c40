"""One tool call from its text to its result."""

from __future__ import annotations

import asyncio
import json
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.agent_runtime.messages import Message, Role, ToolCall
from tidegate.agent_runtime.policy import ToolPolicy, ToolRules
from tidegate.agent_runtime.tools.base import Effect, SessionFacts, ToolArgs, ToolContext, ToolResult
from tidegate.agent_runtime.tools.invoke import Toolbox, cap_text, result_chars
from tidegate.agent_runtime.tools.registry import ToolRegistry
from tidegate.errors import ToolFailure


class EchoArgs(ToolArgs):
    """Arguments of the test tool."""

    mode: str
    times: int = 1


class Echo:
    """Does what `mode` says."""

    name: ClassVar[str] = "echo"
    description: ClassVar[str] = "Echo."
    args: ClassVar[type[ToolArgs]] = EchoArgs
    effect: ClassVar[Effect] = Effect.READ
    idempotent: ClassVar[bool] = True
    seconds: ClassVar[float] = 5.0

    async def run(self, args: EchoArgs, context: ToolContext) -> ToolResult:
        context.report("working")
        match args.mode:
            case "fail":
                raise ToolFailure("it is locked")
            case "bug":
                raise KeyError("internal secret")
            case "hang":
                await asyncio.Event().wait()
            case "nul":
                return ToolResult("a\0b\ud800")
        return ToolResult(args.mode * args.times)


class Send(Echo):
    """A tool with another effect."""

    name: ClassVar[str] = "send"
    effect: ClassVar[Effect] = Effect.SEND


def toolbox(policy: ToolPolicy | None = None, **options: object) -> Toolbox:
    return Toolbox(ToolRegistry((Echo(), Send())), SessionFacts("s"), policy, **options)  # type: ignore[arg-type]


def invoke(arguments: str, name: str = "echo", box: Toolbox | None = None, seconds: float | None = None) -> Message:
    async def run() -> Message:
        prepared = await (box or toolbox()).prepare(ToolCall("c", name, arguments))
        return prepared if isinstance(prepared, Message) else await prepared.run(seconds)

    result = asyncio.run(run())
    assert (result.role, result.tool_call_id) == (Role.TOOL, "c")
    return result


def test_a_good_call_runs() -> None:
    assert invoke('{"mode": "ab", "times": 2, "unheard_of": 1}') == Message(Role.TOOL, "abab", tool_call_id="c")


def test_a_call_that_is_almost_right_is_repaired() -> None:
    assert invoke("{'mode': 'x',}", "functions.Echo").text == "x"


@pytest.mark.parametrize(
    ("arguments", "name", "words"),
    [
        ('{"mode": "fail"}', "echo", "it is locked"),
        ('{"mode": "cut o', "echo", "not a JSON object"),
        ('{"times": 2}', "echo", "mode: Field required"),
        ('{"mode": "x", "times": "many"}', "echo", "times"),
        ("{}", "fly", "There is no tool 'fly'. Tools: echo, send."),
        ('{"mode": "bug"}', "echo", "failed unexpectedly (KeyError)"),
    ],
)
def test_what_goes_wrong_is_told_to_the_model(arguments: str, name: str, words: str) -> None:
    result = invoke(arguments, name)
    assert result.is_error
    assert words in result.text
    assert "internal secret" not in result.text


def test_wrong_values_are_not_repeated() -> None:
    assert "hunter2" not in invoke('{"mode": "x", "times": "hunter2"}').text


def test_a_tool_that_hangs_ends_at_the_deadline() -> None:
    result = invoke('{"mode": "hang"}', seconds=0.02)
    assert result.is_error
    assert "did not finish" in result.text


def test_a_tool_that_policy_denies_is_neither_shown_nor_run() -> None:
    box = toolbox(ToolPolicy((ToolRules(deny=("send",)),)))
    assert [tool.name for tool in box.definitions()] == ["echo"]
    result = invoke('{"mode": "x"}', "send", box)
    assert result.is_error
    assert "not allowed" in result.text


def test_only_readers_may_run_beside_others() -> None:
    box = toolbox()
    assert box.is_read_only("Echo")
    assert not box.is_read_only("send")
    assert not box.is_read_only("fly")


def test_long_output_keeps_its_head_and_its_tail() -> None:
    result = invoke('{"mode": "abc", "times": 10000}', box=toolbox(max_result_chars=900))
    assert len(result.text) < 1000
    assert result.text.startswith("abc")
    assert "29100 characters left out" in result.text


@pytest.mark.parametrize(("window", "chars"), [(8_000, 9_600), (99_999, 16_000), (100_000, 32_000), (200_000, 64_000)])
def test_larger_windows_see_more_of_a_result(window: int, chars: int) -> None:
    assert result_chars(window) == chars


def test_output_is_clean_text() -> None:
    assert invoke('{"mode": "nul"}').text == "a\ufffdb\ufffd"


def test_progress_is_reported() -> None:
    seen: list[str] = []
    invoke('{"mode": "x"}', box=toolbox(report=seen.append))
    assert seen == ["working"]


def test_the_summary_is_one_short_line() -> None:
    async def run() -> str:
        call = ToolCall("c", "echo", json.dumps({"mode": "first\nsecond" + "x" * 500}))
        prepared = await toolbox().prepare(call)
        assert not isinstance(prepared, Message)
        return prepared.summary

    assert asyncio.run(run()) == "echo first"


@given(st.text(max_size=60), st.integers(2, 30))
def test_a_capped_text_begins_and_ends_as_before(text: str, limit: int) -> None:
    capped = cap_text(text, limit)
    if len(text) <= limit:
        assert capped == text
    else:
        assert capped.startswith(text[: limit * 2 // 3])
        assert capped.endswith(text[-(limit - limit * 2 // 3) :])
