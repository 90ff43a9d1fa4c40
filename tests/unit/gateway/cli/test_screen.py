"""The chat's screen, as a person sees it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fakes.tiny_terminal import TinyTerminal
from tidegate.gateway.cli.editor import LineEditor
from tidegate.gateway.cli.screen import PROMPT, Screen
from tidegate.gateway.cli.terminal import Style, fold, width


def opened() -> tuple[Screen, LineEditor, TinyTerminal]:
    terminal, editor = TinyTerminal(), LineEditor()
    screen = Screen(Style(colour=True), editor, terminal, keys=None)
    screen.__enter__()
    return screen, editor, terminal


def test_a_preview_gives_way_to_the_answer():
    screen, _, terminal = opened()
    for text in ("The", "The answer", "The answer " + "is long " * 30):
        screen.preview(text)
    assert terminal.text.count("The answer") == 1
    screen.preview("")
    screen.say("The answer is 42.")
    assert terminal.text == f"The answer is 42.\n{PROMPT}".rstrip()


def test_what_is_being_typed_stays_below_what_arrives():
    screen, editor, terminal = opened()
    list(editor.feed(b"half a sen"))
    screen.draw()
    screen.say("ping")
    screen.note("waiting")
    assert terminal.rows == ["ping", "waiting", f"{PROMPT}half a sen"]
    screen.note("")
    assert terminal.rows == ["ping", f"{PROMPT}half a sen"]


def test_a_long_line_is_shown_around_the_cursor_on_one_row():
    screen, editor, terminal = opened()
    list(editor.feed(b"begin " + b"x" * 200 + b" end"))
    screen.draw()
    assert len(terminal.rows) == 1
    assert terminal.rows[0].endswith(" end")
    list(editor.feed(b"\x01"))
    screen.draw()
    assert terminal.rows[0].startswith(f"{PROMPT}begin")
    assert width(terminal.rows[0]) < 80


def test_leaving_takes_the_prompt_away_and_keeps_what_was_said():
    screen, _, terminal = opened()
    screen.say("kept")
    screen.preview("gone")
    screen.__exit__(None, None, None)
    assert terminal.text == "kept"


_ACTIONS = st.lists(st.tuples(st.sampled_from(["say", "preview", "note", "type"]), st.text(max_size=200)), max_size=12)


@given(_ACTIONS)
def test_whatever_happens_every_said_line_is_there_once_and_in_order(actions: list[tuple[str, str]]):
    screen, editor, terminal = opened()
    for number, (action, text) in enumerate(actions):
        if action == "say":
            screen.say(f"said {number}")
        elif action == "type":
            list(editor.feed(text.encode("utf-8", "replace")))
            screen.draw()
        elif action == "preview":
            screen.preview(text)
        else:
            screen.note(text.replace("\n", " "))
    said = [f"said {number}" for number, (action, _) in enumerate(actions) if action == "say"]
    assert terminal.rows[: len(said)] == said


def solid(text: str) -> str:
    return text.replace(" ", "").replace("\n", "")


@given(st.text(alphabet="ab \n•1.│é中", max_size=300), st.integers(20, 100))
def test_no_row_of_a_preview_reaches_the_edge_and_nothing_but_blanks_is_lost(text: str, columns: int):
    rows = fold(text, columns - 1)
    assert all(width(row) < columns for row in rows)
    assert solid("".join(rows)) == solid(text)
