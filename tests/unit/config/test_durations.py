from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.durations import parse_duration, parse_duration_ms

SIZES = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@given(st.lists(st.tuples(st.integers(0, 1000), st.sampled_from(sorted(SIZES))), min_size=1, max_size=5))
def test_segments_add_up_in_any_order(segments: list[tuple[int, str]]) -> None:
    text = "".join(f"{amount}{unit}" for amount, unit in segments)
    assert parse_duration_ms(text) == sum(amount * SIZES[unit] for amount, unit in segments)


@given(st.text(max_size=80))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    refusal = ""
    milliseconds = 0
    try:
        milliseconds = parse_duration_ms(text)
    except ValueError as error:
        refusal = str(error)
    assert milliseconds >= 0
    assert not refusal or "duration" in refusal or "hundred years" in refusal


def test_numbers_count_in_the_callers_unit() -> None:
    assert parse_duration(1.5, "h") == timedelta(minutes=90)
    assert parse_duration("14d") == timedelta(days=14)


@pytest.mark.parametrize("text", ["999999999999999d", "9" * 70, "1w", "١s"])
def test_absurd_and_foreign_amounts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|hundred years"):
        parse_duration_ms(text)
