"""Markdown is read into the tree that its author meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.adapters.markdown.blocks import parse
from tidegate.adapters.markdown.tree import (
    Block,
    CodeBlock,
    Heading,
    Item,
    Link,
    Listing,
    Mark,
    Marked,
    Paragraph,
    Quote,
    Rule,
    Table,
    Text,
)

BARS = "a | b\n--|--\n1 | 2 | 3"


def words(text: str, *, spaced: bool = False) -> Paragraph:
    return Paragraph((Text(text),), spaced)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a\nb", [words("a\nb")]),
        ("a\n\nb", [words("a"), words("b", spaced=True)]),
        ("## h ##\na", [Heading(2, (Text("h"),)), words("a")]),
        ("h\n===\na", [Heading(1, (Text("h"),)), words("a")]),
        ("#5 is fine", [words("#5 is fine")]),
        ("a\n---\nb", [words("a"), Rule(), words("b")]),
        ("> a\n> > b\nc", [Quote((words("a"), Quote((words("b"),)))), words("c")]),
        ("````x y\n```\n````", [CodeBlock("```", "x y", "````")]),
        ("~~~\na\n\nb", [CodeBlock("a\n\nb", "", "~~~")]),
        ("```py\n  a\n```", [CodeBlock("  a", "py", "```")]),
        ("- a\n- b", [Listing((Item("", (words("a"),)), Item("", (words("b"),))))]),
        ("- a\n  - b", [Listing((Item("", (words("a"), Listing((Item("", (words("b"),)),)))),))]),
        ("2. a\n\n3. b", [Listing((Item("2.", (words("a"),)), Item("3.", (words("b"),), spaced=True)))]),
        ("1. a\n   ```\n   x\n   ```", [Listing((Item("1.", (words("a"), CodeBlock("x", "", "```"))),))]),
        ("In\n2024. it was", [words("In\n2024. it was")]),
        ("- a\nb", [Listing((Item("", (words("a"),)),)), words("b")]),
        (BARS, [Table((((Text("a"),), (Text("b"),)), ((Text("1"),), (Text("2 | 3"),))), ("left", "left"), BARS)]),
        ("a | b", [words("a | b")]),
        ("-5 degrees", [words("-5 degrees")]),
        ("*not a list*", [Paragraph((Marked(Mark.ITALIC, (Text("not a list"),)),))]),
        ("![cat](http://x/c.png)", [Paragraph((Link("http://x/c.png", (Text("cat"),)),))]),
        ("[a](<b c>) [x](y(z))", [Paragraph((Link("b c", (Text("a"),)), Text(" "), Link("y(z)", (Text("x"),))))]),
    ],
)  # fmt: skip
def test_blocks_are_what_they_look_like(text: str, tree: list[Block]) -> None:
    assert list(parse(text)) == tree


@given(st.text(st.sampled_from("ab*_`~|[]()<>#->1. \n\t\\!&"), max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    parse(text)


def test_endless_nesting_ends() -> None:
    parse("> " * 3000 + "x")
    parse("\n".join("  " * depth + "- x" for depth in range(500)))
    parse("[" * 500 + "x" + "](u)" * 500)
    parse("**a _b " * 3000)
