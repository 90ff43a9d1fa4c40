"""Markdown in the terminal."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.cli.markdown import render
from tidegate.gateway.cli.terminal import Style

COLOUR, PLAIN, PROGRAM = Style(colour=True), Style(colour=False, markup=True), Style(colour=False)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def test_a_program_gets_the_text_as_written_and_a_person_without_colours_no_marks():
    assert render("**bold** `code`\n- item", PROGRAM) == "**bold** `code`\n- item"
    assert render("**bold** `code`\n- item", PLAIN) == "bold code\n• item"


def test_lines_are_broken_between_words_but_code_is_not():
    assert render("one two three\n```\nfour five six\n```", PLAIN, 9) == "one two\nthree\n  four five six"


def test_marks_become_colours():
    shown = render("# Head\nsome **bold** and `code`\n- item\n```py\nx = **1**\n```", COLOUR)
    assert _ANSI.sub("", shown) == "Head\nsome bold and code\n• item\n  x = **1**"
    assert "\x1b[1mbold\x1b[0m" in shown


def test_stars_that_mark_nothing_stay():
    assert render("2 * 3 * 4 = 24, a*b*c", COLOUR) == "2 * 3 * 4 = 24, a*b*c"


@given(st.text(alphabet="ab*`_[]()# \n->~\x1b\x07", max_size=60))
def test_no_text_leaves_a_colour_on_or_smuggles_control_characters(text: str):
    shown = render(text, COLOUR)
    rest = _ANSI.sub("", shown)
    assert "\x1b" not in rest
    assert "\x07" not in rest
    codes = _ANSI.findall(shown)
    assert not codes or codes[-1] == "\x1b[0m"
