"""Makes a provider from what the configuration says about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp

from tidegate.agent_runtime.models.anthropic import AnthropicMessages
from tidegate.agent_runtime.models.base import ModelProvider
from tidegate.agent_runtime.models.catalog import PROVIDERS, KnownProvider
from tidegate.agent_runtime.models.demo import DemoModel
from tidegate.agent_runtime.models.litellm_provider import LiteLLM
from tidegate.agent_runtime.models.openai_chat import OpenAIChat
from tidegate.agent_runtime.models.transport import Endpoint, LoadBlob
from tidegate.clock import Clock
from tidegate.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """One provider as configured; empty means what the catalog says.

    Attributes:
        name: In lower case.
        api: `openai`, `anthropic` or `litellm`.
        idle: Seconds without a byte; 0 for the default.
    """

    name: str
    api_key: str = field(default="", repr=False)
    base_url: str = ""
    api: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    idle: float = 0.0


def build_provider(
    settings: ProviderSettings,
    session: aiohttp.ClientSession,
    load_blob: LoadBlob | None = None,
    clock: Clock | None = None,
) -> ModelProvider:
    """Return the provider. One that is unknown and has no address goes through litellm.

    Raises:
        ConfigError: The key cannot be one.
    """
    known = PROVIDERS.get(settings.name, KnownProvider("openai" if settings.base_url else "litellm", ""))
    api = settings.api or known.api
    if api == "demo":
        return DemoModel()
    if api == "litellm":
        return LiteLLM(settings.name, settings.api_key, load_blob)
    key = settings.api_key.strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"the key of the model provider {settings.name} holds characters that no key has")
    base_url = (settings.base_url or known.base_url).rstrip("/")
    endpoint = Endpoint(settings.name, base_url, key, settings.headers, settings.idle)
    if api == "anthropic":
        return AnthropicMessages(session, endpoint, load_blob, clock)
    return OpenAIChat(session, endpoint, load_blob, known.dialect, clock)
