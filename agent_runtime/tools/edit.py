"""The `edit` tool."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from tidegate.agent_runtime.tools.base import Effect, ToolArgs, ToolContext, ToolResult
from tidegate.agent_runtime.workspace import WorkspaceFiles
from tidegate.errors import ToolFailure


class Replacement(ToolArgs):
    """One change."""

    oldText: Annotated[str, Field(min_length=1, description="Text that occurs exactly once.")]
    newText: Annotated[str, Field(description="What replaces it.")]


class EditArgs(ToolArgs):
    """Arguments of `edit`."""

    path: Annotated[str, Field(description="Path in the workspace.")]
    edits: Annotated[list[Replacement], Field(min_length=1, max_length=100)]


class Edit:
    """Replaces pieces of a file of the workspace."""

    name: ClassVar[str] = "edit"
    description: ClassVar[str] = "Replace exact pieces of text in a file of the workspace; all or none."
    args: ClassVar[type[ToolArgs]] = EditArgs
    effect: ClassVar[Effect] = Effect.WRITE
    idempotent: ClassVar[bool] = False
    seconds: ClassVar[float] = 30.0

    def __init__(self, files: WorkspaceFiles) -> None:
        self._files = files

    async def run(self, args: EditArgs, context: ToolContext) -> ToolResult:
        """Make all changes, or none.

        Raises:
            ToolFailure: An old text is missing or occurs more than once; nothing was changed.
        """
        data = await self._files.read(args.path)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ToolFailure(f"{args.path!r} is not a UTF-8 text file") from error
        for number, change in enumerate(args.edits, 1):
            text = _replace_once(text, change, number)
        await self._files.write(args.path, text.encode("utf-8", "replace"))
        return ToolResult(f"Changed {args.path} in {len(args.edits)} place(s).", {"path": args.path})


def _replace_once(text: str, change: Replacement, number: int) -> str:
    old, new = change.oldText, change.newText
    if old not in text and "\r\n" in text and "\n" in old and "\r\n" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")
    count = text.count(old)
    if count != 1:
        problem = "was not found" if count == 0 else f"occurs {count} times; give more of the text around it"
        raise ToolFailure(f"edit {number}: oldText {problem}. Nothing was changed.")
    return text.replace(old, new)
