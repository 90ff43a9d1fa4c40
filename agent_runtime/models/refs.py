"""Model references: `provider/model`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A provider, in lower case, and the model id as the provider spells it."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


def parse_model_ref(text: str, default_provider: str) -> ModelRef | None:
    """Return the reference that `text` is, split at its first slash; None when a part is missing.

    A name without a slash is a model of `default_provider`.
    """
    text = text.strip()
    provider, slash, model = text.partition("/")
    if not slash:
        provider, model = default_provider, text
    provider, model = normalize_provider(provider), model.strip()
    return ModelRef(provider, model) if provider and model else None


def normalize_provider(name: str) -> str:
    """Return a provider's name as it is compared."""
    return name.strip().lower()
