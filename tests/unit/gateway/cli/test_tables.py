"""Tables of an answer on a terminal."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.cli.markdown import render
from tidegate.gateway.cli.terminal import Style, width

MARKED = Style(colour=False, markup=True)
COLOUR = Style(colour=True)
TABLE = "before\n\n| Tool | Calls |\n|:--|--:|\n| **ls** | 3 |\n| `read` | 12 |\n\nafter"


def test_columns_are_aligned_and_rules_are_drawn():
    assert render(TABLE, MARKED, 40).split("\n") == [
        "before",
        "",
        "Tool │ Calls",
        "─────┼──────",
        "ls   │     3",
        "read │    12",
        "",
        "after",
    ]


def test_a_table_that_is_too_wide_is_a_list_for_each_row():
    wide = f"| Name | About |\n|---|---|\n| one | {'word ' * 12}|\n| two | |"
    assert render(wide, MARKED, 40).split("\n") == [
        "one",
        "• About: word word word word word word",
        "  word word word word word word",
        "",
        "two",
    ]


def test_wide_signs_count_twice():
    rows = render("| a | b |\n|---|---|\n| 漢字 | x |\n| ab | y |", MARKED, 40).split("\n")
    assert {width(row[: row.index("│")]) for row in rows if "│" in row} == {5}


def test_pipes_in_code_and_in_words_are_no_table():
    assert render("```\n| a | b |\n|---|---|\n```", MARKED) == "  | a | b |\n  |---|---|"
    assert render("a | b\nc | d", MARKED) == "a | b\nc | d"
    assert render("| a | b |\n| --- |", MARKED) == "| a | b |\n| --- |"


def test_a_table_that_is_still_being_written_becomes_one_with_its_second_line():
    assert render("| a | b |\n|--", MARKED) == "| a | b |\n|--"
    assert render("| a | b |\n|---|---|", MARKED) == "a │ b\n──┼──"


@given(st.text(alphabet="ab|-: \n`*\\", max_size=80), st.integers(8, 60))
def test_any_text_is_drawn_and_no_colour_stays_on(text: str, room: int):
    shown = render(f"| x | y |\n|---|---|\n{text}", COLOUR, room)
    codes = re.findall(r"\x1b\[[0-9;]*m", shown)
    assert not codes or codes[-1] == "\x1b[0m"
