"""The tree that Markdown is read into."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mark(StrEnum):
    """How words are set off."""

    BOLD = "bold"
    ITALIC = "italic"
    STRIKE = "strike"
    SPOILER = "spoiler"


@dataclass(frozen=True, slots=True)
class Text:
    """Words as they are; line breaks are kept."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """Code within a line."""

    text: str


@dataclass(frozen=True, slots=True)
class Marked:
    """Words that are set off."""

    mark: Mark
    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """Words that lead somewhere."""

    url: str
    children: tuple[Inline, ...]


Inline = Text | Code | Marked | Link


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Lines of text."""

    children: tuple[Inline, ...]
    spaced: bool = False


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of level 1 to 6."""

    level: int
    children: tuple[Inline, ...]
    spaced: bool = False


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Fenced code.

    Attributes:
        info: What stands behind the opening fence.
        fence: The opening fence itself.
    """

    text: str
    info: str
    fence: str
    spaced: bool = False


@dataclass(frozen=True, slots=True)
class Quote:
    """What somebody else said."""

    children: tuple[Block, ...]
    spaced: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a list, with its own marker: a number with its sign, or empty for a bullet."""

    marker: str
    children: tuple[Block, ...]
    spaced: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """A list."""

    items: tuple[Item, ...]
    spaced: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table: rows of cells, the first one its head.

    Attributes:
        aligned: `left`, `right` or `center` of each column.
        source: As it was written.
    """

    rows: tuple[tuple[tuple[Inline, ...], ...], ...]
    aligned: tuple[str, ...]
    source: str
    spaced: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across."""

    spaced: bool = False


Block = Paragraph | Heading | CodeBlock | Quote | Listing | Table | Rule
"""`spaced` says that an empty line stood before the block; only the author knows how airy a text is to be."""


def plain(children: tuple[Inline, ...]) -> str:
    """Return the words of inline nodes, without what sets them off."""
    return "".join(node.text if isinstance(node, Text | Code) else plain(node.children) for node in children)
