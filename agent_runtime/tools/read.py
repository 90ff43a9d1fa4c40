"""The `read` tool."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tidegate.agent_runtime.tools.base import Effect, ToolArgs, ToolContext, ToolResult
from tidegate.agent_runtime.workspace import WorkspaceFiles
from tidegate.errors import ToolFailure

MAX_LINES = 2000
MAX_CHARS = 15_000
"""Characters of one answer, so that the note about the rest is not cut away."""


class ReadArgs(ToolArgs):
    """Arguments of `read`."""

    path: Annotated[str, Field(description="Path in the workspace.")]
    offset: Annotated[int, Field(ge=1, description="First line, from 1.")] = 1
    limit: Annotated[int | None, Field(ge=1, description="Most lines.")] = None
    cursor: Annotated[int | None, Field(ge=0, description="First character, to go on in a long line.")] = None
    optional: Annotated[Literal[True] | None, Field(description="A missing file is not an error.")] = None


class Read:
    """Reads a text file of the workspace."""

    name: ClassVar[str] = "read"
    description: ClassVar[str] = "Read a text file of the workspace."
    args: ClassVar[type[ToolArgs]] = ReadArgs
    effect: ClassVar[Effect] = Effect.READ
    idempotent: ClassVar[bool] = True
    seconds: ClassVar[float] = 30.0

    def __init__(self, files: WorkspaceFiles) -> None:
        self._files = files

    async def run(self, args: ReadArgs, context: ToolContext) -> ToolResult:
        """Return the wanted lines, and how to get the rest.

        Raises:
            ToolFailure: The file is missing, not text, or outside the workspace.
        """
        try:
            data = await self._files.read(args.path)
        except ToolFailure as error:
            if args.optional and "does not exist" in str(error):
                return ToolResult("(no such file)")
            raise
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ToolFailure(f"{args.path!r} is not a UTF-8 text file") from error
        if args.cursor is not None:
            return _from_character(text, args.cursor)
        return _from_line(text, args.offset, min(args.limit or MAX_LINES, MAX_LINES))


def _from_character(text: str, start: int) -> ToolResult:
    part = text[start : start + MAX_CHARS]
    end = start + len(part)
    note = f"\n[more: cursor={end} of {len(text)}]" if end < len(text) else ""
    return ToolResult((part or "(end of file)") + note)


def _from_line(text: str, first: int, limit: int) -> ToolResult:
    lines = text.splitlines(keepends=True)
    if first > len(lines):
        return ToolResult("(empty file)" if not text else f"(the file has only {len(lines)} lines)")
    start = sum(len(line) for line in lines[: first - 1])
    chosen = lines[first - 1 : first - 1 + limit]
    part = "".join(chosen)
    if len(part) > MAX_CHARS:
        return _from_character(text, start)
    last = first - 1 + len(chosen)
    note = f"\n[more: offset={last + 1} of {len(lines)} lines]" if last < len(lines) else ""
    return ToolResult(part + note, {"lines": len(chosen)})
