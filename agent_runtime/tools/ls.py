"""The `ls` tool."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from tidegate.agent_runtime.tools.base import Effect, ToolArgs, ToolContext, ToolResult
from tidegate.agent_runtime.workspace import WorkspaceFiles


class LsArgs(ToolArgs):
    """Arguments of `ls`."""

    path: Annotated[str, Field(description="Folder in the workspace.")] = "."
    limit: Annotated[int, Field(ge=1, le=1000, description="Most entries.")] = 200
    after: Annotated[str | None, Field(description="Go on after this name.")] = None


class Ls:
    """Lists a folder of the workspace."""

    name: ClassVar[str] = "ls"
    description: ClassVar[str] = "List a folder of the workspace."
    args: ClassVar[type[ToolArgs]] = LsArgs
    effect: ClassVar[Effect] = Effect.READ
    idempotent: ClassVar[bool] = True
    seconds: ClassVar[float] = 30.0

    def __init__(self, files: WorkspaceFiles) -> None:
        self._files = files

    async def run(self, args: LsArgs, context: ToolContext) -> ToolResult:
        """Return one name a line; folders end with a slash.

        Raises:
            ToolFailure: It is not a folder of the workspace.
        """
        entries = await self._files.entries(args.path)
        if args.after is not None:
            entries = [entry for entry in entries if entry.name > args.after.rstrip("/")]
        lines = [f"{entry.name}/" if entry.is_dir else entry.name for entry in entries[: args.limit]]
        if len(entries) > args.limit:
            lines.append(f"[{len(entries) - args.limit} more: after={entries[args.limit - 1].name!r}]")
        return ToolResult("\n".join(lines) or "(empty)", {"entries": min(len(entries), args.limit)})
