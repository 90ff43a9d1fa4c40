"""The `write` tool."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from tidegate.agent_runtime.tools.base import Effect, ToolArgs, ToolContext, ToolResult
from tidegate.agent_runtime.workspace import WorkspaceFiles


class WriteArgs(ToolArgs):
    """Arguments of `write`."""

    path: Annotated[str, Field(description="Path in the workspace.")]
    content: Annotated[str, Field(description="The whole new content.")]


class Write:
    """Makes or replaces a file of the workspace."""

    name: ClassVar[str] = "write"
    description: ClassVar[str] = "Create or replace a file of the workspace; folders are made as needed."
    args: ClassVar[type[ToolArgs]] = WriteArgs
    effect: ClassVar[Effect] = Effect.WRITE
    idempotent: ClassVar[bool] = True
    seconds: ClassVar[float] = 30.0

    def __init__(self, files: WorkspaceFiles) -> None:
        self._files = files

    async def run(self, args: WriteArgs, context: ToolContext) -> ToolResult:
        """Write the file whole.

        Raises:
            ToolFailure: The path is outside the workspace or a folder, or the content is too large.
        """
        data = args.content.encode("utf-8", "replace")
        is_new = await self._files.write(args.path, data)
        done = "Created" if is_new else "Replaced"
        return ToolResult(f"{done} {args.path} ({len(data)} bytes).", {"path": args.path, "new": is_new})
