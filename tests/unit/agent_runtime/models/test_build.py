"""Which provider a setting makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp
import pytest

from fakes.fake_model import FakeModel, Say
from tidegate.agent_runtime.messages import Message, Role
from tidegate.agent_runtime.models.anthropic import AnthropicMessages
from tidegate.agent_runtime.models.base import ModelProvider, ModelReply, ModelRequest
from tidegate.agent_runtime.models.build import ProviderSettings, build_provider
from tidegate.agent_runtime.models.catalog import PROVIDERS, window_of
from tidegate.agent_runtime.models.demo import DemoModel
from tidegate.agent_runtime.models.litellm_provider import INSTALL, LiteLLM
from tidegate.agent_runtime.models.openai_chat import OpenAIChat
from tidegate.errors import ConfigError, ModelRefused

REQUEST = ModelRequest("m", ("", ""), (Message(Role.USER, "hi"),), max_output_tokens=50, thinking="low")


def build(settings: ProviderSettings) -> ModelProvider:
    async def run() -> ModelProvider:
        async with aiohttp.ClientSession() as session:
            return build_provider(settings, session)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        (ProviderSettings("demo"), DemoModel),
        (ProviderSettings("openai", "k"), OpenAIChat),
        (ProviderSettings("ollama"), OpenAIChat),
        (ProviderSettings("anthropic", "k"), AnthropicMessages),
        (ProviderSettings("mine", base_url="http://127.0.0.1:1/v1"), OpenAIChat),
        (ProviderSettings("mine", base_url="http://127.0.0.1:1/v1", api="anthropic"), AnthropicMessages),
        (ProviderSettings("bedrock"), LiteLLM),
    ],
)
def test_a_setting_makes_its_provider(settings: ProviderSettings, kind: type) -> None:
    assert isinstance(build(settings), kind)


def test_every_known_provider_can_be_built() -> None:
    for name in PROVIDERS:
        assert build(ProviderSettings(name, "key")) is not None


def test_the_dialect_of_a_provider_shapes_the_request() -> None:
    async def run(name: str, check: Callable[[dict[str, object]], None]) -> ModelReply:
        async with FakeModel([Say("ok")]) as fake, aiohttp.ClientSession() as session:
            settings = ProviderSettings(name, "k", base_url=fake.url + "/", headers={"x-title": "t"})
            reply = await build_provider(settings, session).complete(REQUEST, lambda text: None)
            assert fake.seen[0].headers["x-title"] == "t"
            check(fake.seen[0].body)
            return reply

    def openai(body: dict[str, object]) -> None:
        assert (body["max_completion_tokens"], body["reasoning_effort"]) == (50, "low")

    def mistral(body: dict[str, object]) -> None:
        assert body["max_tokens"] == 50
        assert not {"stream_options", "reasoning_effort"} & set(body)

    assert asyncio.run(run("openai", openai)).model == "openai/m"
    assert asyncio.run(run("mistral", mistral)).message.text == "ok"


@pytest.mark.parametrize("key", ["a\nb", "schlüssel"])
def test_a_key_that_cannot_be_one_is_a_config_error(key: str) -> None:
    with pytest.raises(ConfigError, match="openai"):
        build(ProviderSettings("openai", key))


def test_a_key_is_in_no_representation() -> None:
    assert "sk-secret" not in repr(ProviderSettings("openai", "sk-secret", headers={"x": "sk-secret"}))


def test_litellm_that_is_not_installed_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "litellm", None)
    with pytest.raises(ModelRefused) as caught:
        asyncio.run(LiteLLM("bedrock").complete(REQUEST, lambda text: None))
    assert INSTALL in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "model", "window"),
    [
        ("anthropic", "claude-x", 200_000),
        ("openrouter", "google/gemini-x", 1_000_000),
        ("ollama", "gpt-5-clone", 32_768),
        ("openai", "new", 128_000),
        ("mine", "new", 32_768),
    ],
)
def test_a_window_is_a_careful_guess(provider: str, model: str, window: int) -> None:
    assert window_of(provider, model) == window
