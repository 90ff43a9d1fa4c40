"""How an answer appears in a chat while it is written; the same for every channel that can do it."""

from typing import Literal

from tidegate.config.sections.base import BreakPreference, Count, Flag, Lazy, Names, Positive, Section, absent


class Chunk(Section):
    """Size of the pieces a preview grows by."""

    min_chars: Positive = 200
    """Characters before a piece is shown."""
    max_chars: Positive = 800
    """Characters after which it is shown in any case."""
    break_preference: BreakPreference = "paragraph"
    """Where pieces end if they can."""


class Preview(Section):
    """The message that shows an answer while it is written."""

    chunk: Lazy[Chunk] = absent(Chunk)
    """Size of its steps."""
    tool_progress: Flag = True
    """Show which tool runs."""
    command_text: Literal["raw", "status"] = "raw"
    """Show commands as they are, or only that one runs."""


class Progress(Section):
    """The message that shows work instead of words."""

    label: str | Literal[False] | None = None
    """Its first line; `false`: none; unset: chosen for you."""
    labels: Names = ()
    """First lines to choose from."""
    max_lines: Positive = 8
    """Lines shown."""
    max_line_chars: Positive = 120
    """Characters of a line."""
    tool_progress: Flag = False
    """A line for each tool."""
    command_text: Literal["raw", "status"] = "raw"
    """Show commands as they are, or only that one runs."""
    commentary: Flag = False
    """Show what the model says between tools."""
    narration: Flag = True
    """Show what is being done in words."""


class Coalesce(Section):
    """Joining small blocks before they are sent."""

    min_chars: Positive | None = None
    """Characters before a block is sent."""
    max_chars: Positive | None = None
    """Characters of one block."""
    idle_ms: Count = 1000
    """Milliseconds without new text until a block is sent; 0: at once."""


class Block(Section):
    """Sending an answer in several messages while it is written."""

    enabled: Flag | None = None
    """Unset: as the stream mode says."""
    coalesce: Lazy[Coalesce] = absent(Coalesce)
    """Joining small blocks."""


class Streaming(Section):
    """How an answer appears while it is written."""

    mode: Literal["off", "partial", "block", "progress"] = "partial"
    """`off`: only the finished answer; `partial`: one message that is edited; `block`: several messages;
    `progress`: a message about the work."""
    chunk_mode: Literal["length", "newline"] = "length"
    """Where long answers are cut: anywhere suitable, or between paragraphs."""
    preview: Lazy[Preview] = absent(Preview)
    """The edited message."""
    progress: Lazy[Progress] = absent(Progress)
    """The message about the work."""
    block: Lazy[Block] = absent(Block)
    """Several messages."""
