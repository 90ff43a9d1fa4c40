"""What can be wrong with the name of a model, without asking anybody."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tidegate.agent_runtime.models.catalog import PROVIDERS
from tidegate.agent_runtime.models.refs import parse_model_ref
from tidegate.config.load import Loaded
from tidegate.config.paths import KeyPath, format_path
from tidegate.config.problems import Problem
from tidegate.config.sources import descend, read_tree
from tidegate.gateway.program import program


def name_problem(ref: str, loaded: Loaded) -> str:
    """Return why nobody can be asked under this name, with the likely repair, or empty."""
    providers = loaded.config.models.providers
    known = [*PROVIDERS, *providers]
    provider, slash, model = (part.strip() for part in ref.partition("/"))
    if not slash:
        close = difflib.get_close_matches(provider.lower(), known, n=1)
        return "it names no provider: write it as provider/model" + (f"; did you mean {close[0]}/…?" if close else "")
    parsed = parse_model_ref(ref, "")
    if parsed is None or not model:
        return "write it as provider/model"
    configured = providers.get(parsed.provider)
    if parsed.provider in PROVIDERS or (configured is not None and configured.base_url):
        return ""
    close = difflib.get_close_matches(parsed.provider, known, n=1)
    if close and close[0] != parsed.provider:
        return f"there is no provider {provider!r}; did you mean {close[0]!r}?"
    if find_spec("litellm") is None:
        return f"the provider {provider!r} goes through litellm, which is not installed: {_install()}"
    return ""


def strange_models(loaded: Loaded, file: Path) -> Iterator[Problem]:
    """Yield a warning for every model of the configuration that nobody can be asked under, at its place."""
    root = read_tree(file).root
    for path, ref in _refs(loaded.config.raw):
        if problem := name_problem(ref, loaded):
            node = descend(root, path) if root is not None else None
            place = node.source.file if node is not None else file
            line, column = node.source.position(node.start) if node is not None else (1, 1)
            yield Problem(place, line, column, format_path(path), f"{ref} cannot answer: {problem}")


def _refs(raw: Any) -> Iterator[tuple[KeyPath, str]]:
    agents = raw.get("agents") if isinstance(raw, dict) else None
    if not isinstance(agents, dict):
        return
    places: list[tuple[KeyPath, Any]] = [(("agents", "defaults"), agents.get("defaults"))]
    for section in ("entries", "list"):
        held = agents.get(section)
        items = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ()
        places += [(("agents", section, key), item) for key, item in items]
    for path, place in places:
        model = place.get("model") if isinstance(place, dict) else None
        yield from _names((*path, "model"), model)


def _names(path: KeyPath, model: Any) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(model, str):
        yield path, model
    elif isinstance(model, dict):
        yield from _names((*path, "primary"), model.get("primary"))
        fallbacks = model.get("fallbacks")
        for index, name in enumerate(fallbacks if isinstance(fallbacks, list) else ()):
            yield from _names((*path, "fallbacks", index), name)


def _install() -> str:
    """Return the command that installs it, with the pip beside a program that is called by its path, as in a clone."""
    started = program()
    pip = f"{started.rpartition('/')[0]}/pip" if "/" in started else "pip"
    return f"{pip} install litellm"
