"""The tools that every agent has unless policy takes them away."""

from __future__ import annotations

from tidegate.agent_runtime.tools.base import AnyTool
from tidegate.agent_runtime.tools.edit import Edit
from tidegate.agent_runtime.tools.find import Find
from tidegate.agent_runtime.tools.ls import Ls
from tidegate.agent_runtime.tools.read import Read
from tidegate.agent_runtime.tools.session_status import SessionStatus
from tidegate.agent_runtime.tools.write import Write
from tidegate.agent_runtime.workspace import WorkspaceFiles
from tidegate.clock import Clock


def builtin_tools(files: WorkspaceFiles, clock: Clock) -> tuple[AnyTool, ...]:
    """Return the built-in tools over one workspace, in the order in which models see them."""
    return (Read(files), Write(files), Edit(files), Ls(files), Find(files), SessionStatus(clock))
