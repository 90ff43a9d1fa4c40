"""Providers that need no address in the configuration, and how large a window to expect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.agent_runtime.models.openai_wire import Dialect


@dataclass(frozen=True, slots=True)
class KnownProvider:
    """A provider whose API we know.

    Attributes:
        api: `openai`, `anthropic` or `demo`.
        key_env: Environment variables that may hold the key, first one first; empty when none is needed.
        window: Tokens, where a model's own window is not known.
    """

    api: str
    base_url: str
    key_env: tuple[str, ...] = ()
    window: int = 128_000
    dialect: Dialect = field(default_factory=Dialect)


_PLAIN = Dialect(reasoning_effort=False)

PROVIDERS: Mapping[str, KnownProvider] = {
    "demo": KnownProvider("demo", ""),
    "openai": KnownProvider(
        "openai",
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        dialect=Dialect(max_tokens_key="max_completion_tokens"),
    ),
    "anthropic": KnownProvider("anthropic", "https://api.anthropic.com/v1", ("ANTHROPIC_API_KEY",), window=200_000),
    "openrouter": KnownProvider("openai", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    "groq": KnownProvider("openai", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "deepseek": KnownProvider(
        "openai",
        "https://api.deepseek.com/v1",
        ("DEEPSEEK_API_KEY",),
        dialect=Dialect(keeps_reasoning=True, reasoning_effort=False),
    ),
    "mistral": KnownProvider(
        "openai",
        "https://api.mistral.ai/v1",
        ("MISTRAL_API_KEY",),
        dialect=Dialect(usage_option=False, reasoning_effort=False),
    ),
    "xai": KnownProvider("openai", "https://api.x.ai/v1", ("XAI_API_KEY",)),
    "together": KnownProvider("openai", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",), dialect=_PLAIN),
    "gemini": KnownProvider(
        "openai",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        window=1_000_000,
    ),
    "ollama": KnownProvider("openai", "http://127.0.0.1:11434/v1", window=32_768, dialect=_PLAIN),
    "lmstudio": KnownProvider("openai", "http://127.0.0.1:1234/v1", window=32_768, dialect=_PLAIN),
    "vllm": KnownProvider("openai", "http://127.0.0.1:8000/v1", ("VLLM_API_KEY",), 32_768, _PLAIN),
}

_WINDOWS: tuple[tuple[str, int], ...] = (
    ("claude", 200_000),
    ("gpt-5", 272_000),
    ("gpt-4.1", 1_000_000),
    ("gpt-4o", 128_000),
    ("gemini", 1_000_000),
    ("grok-4", 256_000),
    ("kimi-k2", 256_000),
    ("deepseek", 128_000),
)


def window_of(provider: str, model: str) -> int:
    """Return the tokens a model takes, as a careful guess when the configuration does not say.

    A server on this machine keeps its provider's small default: it is set up with less than a model could do.
    """
    known = PROVIDERS.get(provider)
    if known is not None and known.base_url.startswith("http://"):
        return known.window
    for name, window in _WINDOWS:
        if name in model.lower():
            return window
    return known.window if known is not None else 32_768
