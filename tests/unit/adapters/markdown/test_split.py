"""Styled text is cut where it hurts least, and nothing of it is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.adapters.markdown.layout import Run, Style, StyleKind
from tidegate.adapters.markdown.split import code_points, split, utf16, visible

BOLD = Style(StyleKind.BOLD)
CODE = Style(StyleKind.BLOCK, "py", "```", 1)
RUNS = st.lists(
    st.builds(
        Run,
        st.text(st.sampled_from("ab \n.😀é\u0301好\u200d"), min_size=1, max_size=30),
        st.sampled_from([(), (BOLD,), (CODE,)]),
    ),
    max_size=12,
)


def solid(text: str) -> str:
    return "".join(text.split())


@given(RUNS, st.integers(2, 40))
def test_every_piece_fits_and_all_text_is_there_in_order(runs: list[Run], limit: int) -> None:
    pieces = split(runs, limit)
    assert all(0 < utf16(visible(piece)) <= limit for piece in pieces)
    assert solid("".join(visible(piece) for piece in pieces)) == solid("".join(run.text for run in runs))


@given(RUNS, st.integers(2, 40))
def test_every_sign_keeps_its_style(runs: list[Run], limit: int) -> None:
    def styled(all_runs: list[Run]) -> list[tuple[str, object]]:
        return [(sign, run.styles) for run in all_runs for sign in run.text if not sign.isspace()]

    assert styled([run for piece in split(runs, limit) for run in piece]) == styled(runs)


def test_a_pair_of_units_is_never_cut() -> None:
    assert [visible(piece) for piece in split([Run("😀😀😀")], 3)] == ["😀", "😀", "😀"]
    assert [visible(piece) for piece in split([Run("😀😀😀")], 3, code_points)] == ["😀😀😀"]


def test_a_character_longer_than_a_piece_is_cut_between_code_points() -> None:
    assert "".join(visible(piece) for piece in split([Run("e" + "\u0301" * 50)], 10)) == "e" + "\u0301" * 50


def test_the_indent_of_code_is_kept_where_a_piece_begins() -> None:
    pieces = split([Run("if a:\n    one()\n    two()", (CODE,))], 16)
    assert [visible(piece) for piece in pieces] == ["if a:\n    one()", "    two()"]


def test_empty_lines_between_pieces_are_dropped() -> None:
    assert [visible(piece) for piece in split([Run("aaaa\n\n\n\nbbbb")], 6)] == ["aaaa", "bbbb"]


def test_nothing_comes_of_nothing() -> None:
    assert split([], 10) == []
    assert split([Run(" \n ")], 10) == []
