"""`models`: where language models are reached."""

from typing import Any, Literal

from pydantic import Field

from tidegate.config.sections.base import Amount, Flag, Lazy, Positive, Secret, Section

ModelApi = Literal[
    "openai-completions",
    "openai-responses",
    "openai-chatgpt-responses",
    "anthropic-messages",
    "google-generative-ai",
    "google-vertex",
    "github-copilot",
    "bedrock-converse-stream",
    "ollama",
    "pi-messages",
    "azure-openai-responses",
    "litellm",
]


class ModelCost(Section):
    """Prices in US dollars for a million tokens."""

    input: Amount = 0
    """Tokens read; 0: free."""
    output: Amount = 0
    """Tokens written; 0: free."""
    cache_read: Amount = 0
    """Tokens read from the provider's cache."""
    cache_write: Amount = 0
    """Tokens written to the provider's cache."""


class ModelEntry(Section):
    """One model of a provider."""

    id: str = Field(min_length=1)
    """The provider's name for it."""
    name: str | None = None
    """Name shown to people; unset: the id."""
    api: ModelApi | None = None
    """Protocol, where it differs from the provider's."""
    base_url: str | None = None
    """Address, where it differs from the provider's."""
    reasoning: Flag = False
    """The model can think before it answers."""
    input: tuple[Literal["text", "image", "video", "audio"], ...] = ("text",)
    """What it reads."""
    cost: Lazy[ModelCost] | None = None
    """Prices; unset: unknown, so budgets in money do not bind."""
    context_window: Positive | None = None
    """Tokens it can read at once; unset: taken from what is known about the model."""
    context_tokens: Positive | None = None
    """Tokens we let it read at once; unset: the whole window."""
    max_tokens: Positive | None = None
    """Tokens it may write in one answer."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Extra fields of the request."""
    headers: dict[str, Secret] = Field(default_factory=dict, repr=False)
    """Extra request headers."""
    compat: dict[str, Any] = Field(default_factory=dict)
    """Differences from the protocol this model needs."""


class ModelProvider(Section):
    """One place where models are reached."""

    base_url: str | None = None
    """Address of the service; unset: the well-known one of this provider."""
    api_key: Secret | None = Field(default=None, repr=False)
    """Key; unset: the provider's usual environment variable."""
    auth: Literal["api-key", "aws-sdk", "oauth", "token"] | None = None
    """Kind of credential; unset: `api-key`."""
    api: ModelApi | None = None
    """Protocol spoken; unset: the well-known one of this provider, else `openai-completions`."""
    headers: dict[str, Secret] = Field(default_factory=dict, repr=False)
    """Extra request headers."""
    auth_header: Flag | None = None
    """Send the key as `Authorization: Bearer`; unset: as the protocol says."""
    timeout_seconds: Positive | None = None
    """Seconds without a byte until a call counts as failed; unset: 120, or 300 for local addresses."""
    max_tokens: Positive | None = None
    """Tokens an answer may have, for models that do not say."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Extra fields of every request."""
    region: str | None = None
    """Cloud region, for providers that have them."""
    models: tuple[Lazy[ModelEntry], ...] = ()
    """Models; empty: any model id is passed on."""


class ModelsSection(Section):
    """Where language models are reached."""

    mode: Literal["merge", "replace"] = "merge"
    """`merge`: these providers and the well-known ones; `replace`: these only."""
    providers: dict[str, Lazy[ModelProvider]] = Field(default_factory=dict)
    """Providers by the name used in `<provider>/<model>`."""
