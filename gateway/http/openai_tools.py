"""Tools of the client in OpenAI's formats: what a request brings along, and calls as transcripts tell them. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.agent_runtime.models.base import ToolDefinition
from tidegate.gateway.client_tools import ClientTools
from tidegate.gateway.http.openai_wire import ApiError

MAX_TOOLS = 128
MAX_TOOLS_CHARS = 262_144
"""Characters of all tools of a request."""
MAX_DESCRIPTION = 8_192
ONLY_FUNCTIONS = "Only tools of type `function` can be brought along."

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def read_tools(data: Mapping[str, Any]) -> ClientTools | None:
    """Return the tools of a request, None when it brings none or none is to be called. Raises ApiError."""
    if data.get("functions"):
        raise ApiError(400, "`functions` is not supported; use `tools`.")
    given, choice = data.get("tools"), data.get("tool_choice")
    if not given or choice == "none":
        return None
    if not isinstance(given, list) or len(given) > MAX_TOOLS:
        raise ApiError(400, f"`tools` must be a list of at most {MAX_TOOLS}.")
    if len(json.dumps(given)) > MAX_TOOLS_CHARS:
        raise ApiError(400, f"The tools have more than {MAX_TOOLS_CHARS} characters.")
    tools = tuple(_tool(item) for item in given)
    names = [tool.name for tool in tools]
    if len(set(names)) != len(names):
        raise ApiError(400, "Two tools have one name.")
    return ClientTools(tools, _must(choice, names))


def _tool(item: Any) -> ToolDefinition:
    if not isinstance(item, dict) or item.get("type") != "function":
        raise ApiError(400, ONLY_FUNCTIONS)
    told = item["function"] if isinstance(item.get("function"), dict) else item
    name, parameters = told.get("name"), told.get("parameters")
    description = told.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ApiError(400, "A tool needs a name of at most 64 letters, digits, `_` and `-`.")
    if parameters is not None and not isinstance(parameters, dict):
        raise ApiError(400, f"The parameters of {name} must be a JSON Schema object.")
    schema = dict(parameters or {})
    schema.setdefault("type", "object")
    schema.setdefault("properties", {})
    return ToolDefinition(name, description[:MAX_DESCRIPTION] if isinstance(description, str) else "", schema)


def _must(choice: Any, names: Sequence[str]) -> tuple[str, ...]:
    if choice in (None, "auto"):
        return ()
    if choice == "required":
        return tuple(names)
    if isinstance(choice, dict) and choice.get("type") == "function":
        told = choice["function"] if isinstance(choice.get("function"), dict) else choice
        if told.get("name") in names:
            return (str(told["name"]),)
    raise ApiError(400, "`tool_choice` must be none, auto, required or one of the tools.")
