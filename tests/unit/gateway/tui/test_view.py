"""How the screen looks."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.cli.terminal import Style, width
from tidegate.gateway.tui.entries import Entry, Kind, Row, Step
from tidegate.gateway.tui.model import Model
from tidegate.gateway.tui.view import Painter, lasted, session_name, session_names, shortened, visible

PLAIN = Painter(Style(False, markup=True))
SGR = re.compile(r"\x1b\[[0-9;]*m")


def drawn(*entries: Entry, room: int = 60, now: int = 0) -> list[str]:
    return PLAIN.chat(Model(entries=list(entries)), room, now)


def test_messages_tools_and_errors_are_told_apart():
    rows = drawn(
        Entry(Kind.USER, "look\nhere"),
        Entry(Kind.ASSISTANT, "**Well.**"),
        Entry(Kind.TOOL, "ls", step=Step.RUNNING, about=".", began=1_000),
        Entry(Kind.TOOL, "read", step=Step.FAILED, about="a", began=1_000, ended=3_500),
        Entry(Kind.ERROR, "no key"),
        now=2_500,
    )
    assert rows == [
        "› look",
        "  here",
        "",
        "  Well.",
        "",
        "  ◐ ls . 1.5 s",
        "  ✗ read a failed 2.5 s",
        "",
        "✗ no key",
    ]
    assert drawn(Entry(Kind.ERROR, "no key for this model"), room=14) == ["✗ no key for", "  this model"]


@pytest.mark.parametrize(
    ("step", "told"),
    [(Step.UNSENT, "(not sent yet)"), (Step.WAITING, "(waits)"), (Step.ASIDE, "(not answered: the stop set it aside)")],
)
def test_a_message_says_how_far_it_is(step: Step, told: str):
    assert drawn(Entry(Kind.USER, "hello", step=step)) == ["› hello", f"  {told}"]


def test_an_entry_that_changes_is_drawn_anew_and_one_that_does_not_is_kept():
    entry = Entry(Kind.ASSISTANT, "one")
    painter, model = Painter(Style(False, markup=True)), Model(entries=[entry])
    assert painter.chat(model, 40, 0) == ["  one"]
    entry.text, entry.version = "two", 1
    assert painter.chat(model, 40, 0) == ["  two"]
    assert painter.chat(model, 12, 0) == ["  two"]


def test_a_table_is_drawn_in_columns_and_as_a_list_where_it_is_too_wide():
    table = "| Name | About |\n|---|---|\n| one | some more words |"
    assert drawn(Entry(Kind.ASSISTANT, table)) == [
        "  Name │ About",
        "  ─────┼────────────────",
        "  one  │ some more words",
    ]
    assert drawn(Entry(Kind.ASSISTANT, table), room=20) == ["  one", "  • About: some more", "    words"]


def test_the_open_session_is_in_view_in_a_long_list():
    model = Model(session="agent:main:s50", rows=[Row(f"agent:main:s{number}") for number in range(100)])
    rows = PLAIN.sessions(model, 20, 5)
    assert [row.strip() for row in rows] == ["s48", "s49", "▸  s50", "s51", "s52"]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("agent:main:main", "main"),
        ("agent:ops:telegram:group:-1", "ops: telegram:group:-1"),
        ("agent:main:dashboard:01a2-abcdef", "new abcdef"),
        ("odd", "odd"),
    ],
)
def test_sessions_have_short_names(key: str, name: str):
    assert session_name(key) == name


def test_the_main_session_is_marked_and_equal_titles_are_told_apart():
    day = 24 * 3_600_000
    main = Row("agent:main:main", "notes", is_main=True)
    one, two = Row("agent:main:one1", "notes", began=10 * day), Row("agent:main:two2", "notes", began=10 * day)
    three = Row("agent:main:other", "else")
    names = session_names([main, one, two, three])
    assert [names[row.key] for row in (main, one, two, three)] == [
        ("notes", "main"),
        ("notes", "one1"),
        ("notes", "two2"),
        ("else", ""),
    ]
    two.began = 12 * day
    main.began = 11 * day
    marks = [names[1] for names in session_names([main, one, two]).values()]
    assert (marks[0], len(set(marks))) == ("main", 3)
    assert session_names([Row("agent:main:main", is_main=True)]) == {"agent:main:main": ("main", "")}
    model = Model(session=main.key, rows=[main, one, two])
    rows = [row.rstrip() for row in PLAIN.sessions(model, 24, 5)]
    assert rows[0] == "▸  notes main"
    assert "notes · main" in PLAIN.top(model, 80, "here")


def test_durations_are_short():
    assert [lasted(number) for number in (0, 1_540, 45_000, 600_000, -5)] == [
        "0.0 s",
        "1.5 s",
        "45 s",
        "10 min",
        "0.0 s",
    ]


@given(st.integers(0, 30), st.integers(1, 12), st.integers(-5, 40))
def test_as_many_rows_are_in_view_as_there_is_room_for(count: int, height: int, scrolled: int):
    rows = [str(number) for number in range(count)]
    shown, hidden = visible(rows, height, scrolled)
    assert len(shown) == height
    assert 0 <= hidden <= max(0, count - height)
    assert [row for row in shown if row] == rows[max(0, count - hidden - height) : count - hidden]


TEXTS = st.text(st.characters(), max_size=200)
ENTRIES = st.builds(
    Entry,
    st.sampled_from(Kind),
    TEXTS,
    step=st.sampled_from(Step),
    about=TEXTS,
    began=st.integers(0, 10**9),
    ended=st.integers(0, 10**9),
)


@given(st.lists(ENTRIES, max_size=4), st.integers(20, 100))
def test_no_text_makes_a_row_too_long_or_commands_the_terminal(entries: list[Entry], room: int):
    painter = Painter(Style(True, markup=True))
    model = Model(session="k", entries=entries, rows=[Row("k", entries[0].text if entries else "")])
    model.notice, model.reason, model.state = entries[0].text if entries else "", "why " * 9, "away"
    rows = painter.chat(model, room, 5)
    rows += [*painter.sessions(model, 24, 5), painter.top(model, room, "here"), painter.bottom(model, room, 5, 3)]
    rows += painter.trouble(model, room) + painter.help(room, 20)
    for row in rows:
        assert width(row) <= max(room, 24), row
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", SGR.sub("", row))


@given(TEXTS, st.integers(0, 40))
def test_a_shortened_text_fits(text: str, room: int):
    assert width(shortened(text, room)) <= room


def test_of_a_very_long_answer_that_still_grows_only_the_end_is_drawn():
    text = "word " * 10_000 + "the end"
    growing = drawn(Entry(Kind.ASSISTANT, text, step=Step.RUNNING))
    whole = drawn(Entry(Kind.ASSISTANT, text))
    assert growing[0] == "  …"
    assert growing[-1].endswith("the end")
    assert len(growing) < len(whole) / 2
