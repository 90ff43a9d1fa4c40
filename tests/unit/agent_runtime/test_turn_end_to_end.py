"""A whole turn with real parts: prompt, provider over HTTP, tools over a folder."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from fakes.fake_model import Call, FakeModel, Say
from fakes.recording_journal import RecordingJournal
from tidegate.agent_runtime.context import ModelSettings, PromptFacts, PromptFiles, SessionContext
from tidegate.agent_runtime.limits import RunLimits
from tidegate.agent_runtime.loop import run_turn
from tidegate.agent_runtime.messages import Message, Role
from tidegate.agent_runtime.models.base import ModelProvider
from tidegate.agent_runtime.models.build import ProviderSettings, build_provider
from tidegate.agent_runtime.models.chain import Candidate, MemoryCooldowns, ModelChain
from tidegate.agent_runtime.models.demo import DemoModel
from tidegate.agent_runtime.tools.base import SessionFacts
from tidegate.agent_runtime.tools.builtin import builtin_tools
from tidegate.agent_runtime.tools.invoke import Toolbox
from tidegate.agent_runtime.tools.registry import ToolRegistry
from tidegate.agent_runtime.turn import EndReason, TurnOutcome
from tidegate.agent_runtime.workspace import WorkspaceFiles, bootstrap_workspace
from tidegate.clock import ManualClock


async def turn(root: Path, model: ModelProvider, text: str) -> tuple[TurnOutcome, RecordingJournal]:
    bootstrap_workspace(root)
    clock = ManualClock()
    journal = RecordingJournal((Message(Role.USER, text),))
    tools = Toolbox(ToolRegistry(builtin_tools(WorkspaceFiles(root), clock)), SessionFacts("agent:main:main"))
    context = SessionContext(PromptFiles(root), PromptFacts(), ModelSettings("m"), clock)
    outcome = await run_turn(journal.turn(), context, model, tools, journal, lambda event: None, RunLimits(), clock)
    return outcome, journal


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", "offline demo model"),
        ("list files", "AGENTS.md"),
        ("read SOUL.md", "personal agent"),
        ("write a.txt: buy milk", "Created a.txt (8 bytes)"),
        ("read ../secret", "failed"),
    ],
)
def test_the_demo_model_answers_and_uses_the_workspace(tmp_path: Path, text: str, words: str) -> None:
    outcome, _ = asyncio.run(turn(tmp_path, DemoModel(), text))
    assert outcome.reason is EndReason.ANSWERED
    assert words in outcome.reply.text


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_a_turn_over_http_falls_back_calls_tools_and_answers(tmp_path: Path, api: str) -> None:
    async def run() -> None:
        steps = [Call((("write", '{"path": "a.md", "content": "hi"}'), ("read", '{"path": "a.md"}'))), Say("done")]
        async with FakeModel(steps) as fake, aiohttp.ClientSession() as session:
            settings = (
                ProviderSettings("down", base_url="http://127.0.0.1:9/v1"),
                ProviderSettings("up", "k", base_url=fake.url, api=api),
            )
            candidates = [Candidate(f"{item.name}/m", "m", build_provider(item, session)) for item in settings]
            clock = ManualClock()
            chain = ModelChain(candidates, MemoryCooldowns(), clock, sleep=lambda seconds: asyncio.sleep(0))
            outcome, journal = await turn(tmp_path, chain, "make a file")
            assert (outcome.reply.text, outcome.model, outcome.fallback_from) == ("done", "up/m", "down/m")
            assert [message.text for message in journal.messages[2:]] == ["Created a.md (2 bytes).", "hi"]
            assert len(fake.seen) == 2

    asyncio.run(run())
