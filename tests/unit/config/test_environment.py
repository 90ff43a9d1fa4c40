from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.environment import layered, parse_dotenv, substitute, unresolved_names


@given(st.text(max_size=30))
def test_text_without_references_is_left_alone(text: str) -> None:
    clean = text.replace("${", "$ {")
    assert substitute(clean, {"A": "1"}) == (clean, ())


@given(st.text(max_size=10), st.text(min_size=1, max_size=10))
def test_a_filled_in_value_is_not_read_again(before: str, value: str) -> None:
    text, missing = substitute(before.replace("$", "") + "${NAME}", {"NAME": value, "B": "never"})
    assert text == before.replace("$", "") + value
    assert missing == ()


def test_each_missing_name_is_told_once_and_stays_in_the_text() -> None:
    text, missing = substitute("${A}-${B}-${A}", {"B": "b"})
    assert (text, missing) == ("${A}-b-${A}", ("A",))
    assert unresolved_names(text) == ("A",)


def test_dotenv_lines_as_other_tools_write_them() -> None:
    text = (
        "# comment\nexport A=1\nB = \"two\\nlines\" # why\nC='single $X'\nD=a#b\nE=plain # note\nbroken line\nF=\nA=2\n"
    )
    assert parse_dotenv(text) == {"A": "2", "B": "two\nlines", "C": "single $X", "D": "a#b", "E": "plain", "F": ""}


def test_an_empty_value_does_not_hide_a_weaker_source() -> None:
    assert dict(layered({"A": "", "B": "1"}, {"A": "2", "B": "2"})) == {"A": "2", "B": "1"}
