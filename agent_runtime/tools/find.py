"""The `find` tool."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from tidegate.agent_runtime.tools.base import Effect, ToolArgs, ToolContext, ToolResult
from tidegate.agent_runtime.workspace import WorkspaceFiles


class FindArgs(ToolArgs):
    """Arguments of `find`."""

    pattern: Annotated[str, Field(min_length=1, max_length=200, description="Name pattern such as *.md.")]
    path: Annotated[str, Field(description="Folder to search.")] = "."
    limit: Annotated[int, Field(ge=1, le=1000, description="Most files.")] = 200


class Find:
    """Finds files of the workspace by name."""

    name: ClassVar[str] = "find"
    description: ClassVar[str] = "Find files of the workspace by name pattern."
    args: ClassVar[type[ToolArgs]] = FindArgs
    effect: ClassVar[Effect] = Effect.READ
    idempotent: ClassVar[bool] = True
    seconds: ClassVar[float] = 60.0

    def __init__(self, files: WorkspaceFiles) -> None:
        self._files = files

    async def run(self, args: FindArgs, context: ToolContext) -> ToolResult:
        """Return one path a line.

        Raises:
            ToolFailure: `path` is not a folder of the workspace.
        """
        found = await self._files.find(args.pattern, args.path, args.limit)
        note = "\n[there may be more: raise limit or narrow the pattern]" if len(found) == args.limit else ""
        return ToolResult(("\n".join(found) or "(nothing found)") + note, {"files": len(found)})
