from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.paths import format_path, parse_path

keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)


@given(keys, st.lists(keys | st.integers(0, 99), max_size=5))
def test_a_path_survives_being_written_and_read(first: str, rest: list[str | int]) -> None:
    path = (first, *rest)
    assert parse_path(format_path(path)) == path


def test_paths_look_as_people_type_them() -> None:
    assert format_path(("agents", "entries", "A B", "model")) == 'agents.entries["A B"].model'
    assert format_path(("broadcast", "telegram:-100", 0)) == "broadcast.telegram:-100[0]"
    assert parse_path("channels.telegram.groups.-100.topics.7") == (
        "channels",
        "telegram",
        "groups",
        "-100",
        "topics",
        "7",
    )


@pytest.mark.parametrize("text", ["", ".", "a..b", ".a", "a.", "a[x]", 'a["b', "a]b"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="path"):
        parse_path(text)
