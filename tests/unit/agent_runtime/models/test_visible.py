"""What may be shown while a message arrives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.agent_runtime.models.visible import VisibleText


def feed(pieces: list[str], *, hold_calls: bool = True) -> tuple[VisibleText, list[str]]:
    shown: list[str] = []
    visible = VisibleText(shown.append, hold_calls=hold_calls)
    for piece in pieces:
        visible.add(piece)
    return visible, shown


def test_plain_text_is_shown_as_it_comes() -> None:
    assert feed(["Hel", "lo"])[1] == ["Hel", "lo"]


def test_reasoning_without_an_end_is_nothing() -> None:
    visible, shown = feed(["<thi", "nk>so", " far"])
    visible.release()
    assert (visible.text(), shown) == ("", [])


def test_what_looks_like_a_call_is_held_until_it_is_released() -> None:
    visible, shown = feed(['{"na', 'me": 1}'])
    assert shown == []
    assert visible.held() == '{"name": 1}'
    visible.release()
    assert shown == ['{"name": 1}']


@given(st.text(max_size=40), st.lists(st.integers(1, 5), max_size=20), st.booleans())
def test_no_text_is_lost_however_it_is_cut(text: str, cuts: list[int], hold: bool) -> None:
    pieces, start = [], 0
    for cut in cuts:
        pieces.append(text[start : start + cut])
        start += cut
    pieces.append(text[start:])
    visible, shown = feed(pieces, hold_calls=hold)
    visible.release()
    assert visible.text() == "".join(shown)
    if "<think>" not in text:
        assert visible.text() == text.lstrip()


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_reasoning_is_dropped_however_it_is_cut(size: int) -> None:
    text = "\n<think>a < b, so\n</think>\n\n{ok}"
    visible, _ = feed([text[start : start + size] for start in range(0, len(text), size)])
    visible.release()
    assert visible.text() == "{ok}"
