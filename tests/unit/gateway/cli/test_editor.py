"""The line editor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.cli.editor import Key, LineEditor


def typed(*chunks: bytes) -> tuple[LineEditor, list[str | Key]]:
    editor = LineEditor()
    return editor, [item for chunk in chunks for item in editor.feed(chunk)]


def test_enter_ends_a_line():
    editor, items = typed(b"hello\rwor")
    assert items == ["hello"]
    assert editor.text == "wor"


def test_the_cursor_moves_and_text_goes_in_where_it_stands():
    _, items = typed(b"wold\x1b[D\x1b[Dr\r")
    assert items == ["world"]


def test_a_letter_or_a_key_cut_in_two_by_the_terminal_is_read_whole():
    _, items = typed("é".encode()[:1], "é".encode()[1:], b"x\x1b", b"[Dy\r")
    assert items == ["éyx"]


def test_a_pasted_text_with_several_lines_is_one_message():
    _, items = typed(b"\x1b[200~one\r\ntwo\x1b[20", b"1~!\r")
    assert items == ["one\ntwo!"]


def test_earlier_lines_come_back_and_the_draft_is_kept():
    editor, _ = typed(b"first\rsecond\rdraft\x1b[A\x1b[A")
    assert editor.text == "first"
    list(editor.feed(b"\x1b[B\x1b[B"))
    assert editor.text == "draft"


def test_ctrl_c_leaves_and_ctrl_d_leaves_an_empty_line_only():
    assert typed(b"x\x03")[1] == [Key.LEAVE]
    assert typed(b"\x04")[1] == [Key.LEAVE]
    editor, items = typed(b"ab\x01\x04")
    assert (items, editor.text) == ([], "b")


def test_words_and_the_whole_line_can_be_cut():
    assert typed(b"one two\x17")[0].text == "one "
    assert typed(b"one two\x15")[0].text == ""
    assert typed(b"one two\x01\x0b")[0].text == ""


@given(st.lists(st.binary(max_size=12), max_size=12))
def test_whatever_a_terminal_sends_the_editor_stays_in_order(chunks: list[bytes]):
    editor, items = typed(*chunks)
    assert 0 <= editor.at <= len(editor.text)
    assert all(isinstance(item, str | Key) for item in items)
    assert "\x1b" not in editor.text


@given(st.text(alphabet=st.characters(exclude_categories=("C", "Z")), max_size=30), st.data())
def test_plain_text_arrives_as_it_was_typed_however_it_is_cut(text: str, data: st.DataObject):
    raw = text.encode()
    at = data.draw(st.integers(0, len(raw)))
    _, items = typed(raw[:at], raw[at:], b"\r")
    assert items == [text]
