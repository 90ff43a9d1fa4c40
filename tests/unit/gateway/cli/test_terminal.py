"""Tables, colours and times."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.cli.terminal import Style, ago, fold, printable, table, wants_colour, width

PLAIN = Style(colour=False)


def test_columns_line_up_whatever_the_letters_and_colours():
    colourful = Style(colour=True)
    rows = [("日本", colourful.paint("ok", "green"), "x"), ("abcdef", "longer", "y")]
    lines = table(colourful, ("A", "B", "C"), rows)
    assert len({width(line) for line in lines}) == 1


def test_a_table_without_rows_has_its_heads():
    assert table(PLAIN, ("A", "B"), []) == ["A  B"]


def test_no_colour_wins_over_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert wants_colour(Terminal(), {})
    assert not wants_colour(Terminal(), {"NO_COLOR": "1"})
    assert not wants_colour(Terminal(), {"TERM": "dumb"})
    assert not wants_colour(Terminal(), {}, off=True)
    assert not wants_colour(io.StringIO(), {})


@given(st.text())
def test_texts_of_others_cannot_steer_the_terminal(text: str):
    assert "\x1b" not in printable(text)
    assert "\r" not in printable(text)


def test_times_are_told_in_the_unit_that_fits():
    second = 1_000_000
    now = 1_000_000 * second
    assert [ago(now - n * second, now) for n in (5, 125, 7300, 300_000)] == [
        "5 s ago",
        "2 min ago",
        "2 h ago",
        "3 days ago",
    ]
    assert ago(0, now) == "never"


def test_a_text_is_folded_between_words_and_under_its_own_bullet():
    assert fold("• one two three four five", 12) == ["• one two", "  three four", "  five"]
    assert fold("  indented words go on", 12) == ["  indented", "  words go", "  on"]


def test_a_word_that_is_too_long_is_broken_only_where_that_is_wanted():
    link = "https://example.org/" + "x" * 20
    assert fold(f"see {link}", 20, split=False) == ["see", link]
    assert max(map(len, fold(f"see {link}", 20))) <= 20


def test_the_last_column_of_a_table_is_folded_under_itself():
    rows = table(Style(colour=False), ("A", "REASON"), [("x/y", "a reason with quite some words")], room=27)
    assert rows == ["A    REASON", "x/y  a reason with quite", "     some words"]
