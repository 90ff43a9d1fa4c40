"""How tools are shown to models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidegate.agent_runtime.tools.builtin import builtin_tools
from tidegate.agent_runtime.tools.registry import ToolRegistry
from tidegate.agent_runtime.workspace import WorkspaceFiles
from tidegate.clock import ManualClock


@pytest.fixture
def registry(tmp_path: Path) -> ToolRegistry:
    return ToolRegistry(builtin_tools(WorkspaceFiles(tmp_path), ManualClock()))


def test_the_built_in_tools_have_their_known_names(registry: ToolRegistry) -> None:
    assert registry.names == ("read", "write", "edit", "ls", "find", "session_status")


@pytest.mark.parametrize(
    ("name", "parameters", "required"),
    [
        ("read", {"path", "offset", "limit", "cursor", "optional"}, ["path"]),
        ("write", {"path", "content"}, ["path", "content"]),
        ("edit", {"path", "edits"}, ["path", "edits"]),
        ("ls", {"path", "limit", "after"}, None),
    ],
)
def test_parameters_have_their_known_names(
    registry: ToolRegistry, name: str, parameters: set[str], required: list[str] | None
) -> None:
    schema = registry.definition(name).parameters
    assert set(schema["properties"]) == parameters
    assert schema.get("required") == required


def test_schemas_are_compact_and_self_contained(registry: ToolRegistry) -> None:
    text = json.dumps([registry.definition(name).parameters for name in registry.names])
    for noise in ('"title"', "$ref", "$defs", "anyOf", "null"):
        assert noise not in text
    assert len(text) < 2500
    items = registry.definition("edit").parameters["properties"]["edits"]["items"]
    assert items["required"] == ["oldText", "newText"]


def test_a_definition_is_made_once(registry: ToolRegistry) -> None:
    assert registry.definition("read") is registry.definition("read")


def test_two_tools_of_one_name_are_refused(tmp_path: Path) -> None:
    tools = builtin_tools(WorkspaceFiles(tmp_path), ManualClock())
    with pytest.raises(ValueError, match="'read'"):
        ToolRegistry((*tools, tools[0]))
