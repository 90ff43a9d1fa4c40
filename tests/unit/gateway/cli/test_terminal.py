"""Tables, colours and times."""

from __future__ import annotations

import io
import json

from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.cli.terminal import Style, ago, as_json, fold, one_line, printable, table, wants_colour, width

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


@given(st.text())
def test_a_name_of_others_is_one_line_that_reads_as_it_is(text: str):
    line = one_line(f"before{text}after")
    assert line.startswith("before")
    assert line.endswith("after")
    assert not set(line) & set("\n\r\x1b\x9b\u202e\u2066\u2028")
    assert len(one_line(text, 10)) <= 10


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_for_programs_commands_no_terminal_and_says_the_same(data: object):
    text = as_json(data)
    assert not set(text) & {chr(code) for code in (0x1B, 0x7F, *range(0x80, 0xA0), 0x202E, 0x2066)}
    assert json.loads(text) == data
