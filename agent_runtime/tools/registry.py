"""The tools that exist, by name, and how each is shown to a model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidegate.agent_runtime.models.base import ToolDefinition
from tidegate.agent_runtime.tools.base import AnyTool


class ToolRegistry:
    """A fixed set of tools. Their schemas are made on first use and kept."""

    def __init__(self, tools: Iterable[AnyTool]) -> None:
        """Take the tools in the order in which models will see them.

        Raises:
            ValueError: Two tools have one name.
        """
        self._tools: dict[str, AnyTool] = {}
        self._definitions: dict[str, ToolDefinition] = {}
        self._add(tools)

    def with_tools(self, tools: Iterable[AnyTool]) -> ToolRegistry:
        """Return a registry of other objects of the same tools, which models see in the same way."""
        other = ToolRegistry(())
        other._definitions = self._definitions
        other._add(tools)
        return other

    def _add(self, tools: Iterable[AnyTool]) -> None:
        for tool in tools:
            if tool.name in self._tools:
                raise ValueError(f"two tools are named {tool.name!r}")
            self._tools[tool.name] = tool

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, in order."""
        return tuple(self._tools)

    def get(self, name: str) -> AnyTool | None:
        """Return the tool of that exact name."""
        return self._tools.get(name)

    def definition(self, name: str) -> ToolDefinition:
        """Return how a model sees the tool.

        Raises:
            KeyError: No such tool.
        """
        definition = self._definitions.get(name)
        if definition is None:
            tool = self._tools[name]
            schema = compact_schema(tool.args.model_json_schema())
            definition = self._definitions[name] = ToolDefinition(name, tool.description, schema)
        return definition


def compact_schema(schema: Any) -> Any:
    """Return a JSON Schema without what models do not need: titles, null defaults, the docstring, `$defs`."""
    definitions = schema.get("$defs", {})
    compact = _compact(schema, definitions)
    compact.pop("description", None)
    compact.setdefault("properties", {})
    return compact


def _compact(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_compact(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = dict(definitions[node["$ref"].rsplit("/", 1)[-1]])
        target.pop("description", None)
        return _compact(target, definitions)
    variants = node.get("anyOf")
    if variants is not None and {"type": "null"} in variants and len(variants) == 2:
        kept = next(variant for variant in variants if variant != {"type": "null"})
        node = {**kept, **{key: value for key, value in node.items() if key != "anyOf"}}
    compact: dict[str, Any] = {}
    for key, value in node.items():
        if key in ("$defs", "title") and not (key == "title" and isinstance(value, dict)):
            continue
        if key == "default" and value is None:
            continue
        if key == "properties":
            compact[key] = {name: _compact(item, definitions) for name, item in value.items()}
        else:
            compact[key] = _compact(value, definitions)
    return compact
