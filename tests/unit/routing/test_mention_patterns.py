"""Mention patterns find names and cannot be made to run for long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.routing.mention_patterns import (
    MAX_TEXT,
    UnsafePattern,
    compile_pattern,
    compile_patterns,
    identity_patterns,
    patterns_of,
)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a*)*b",
        "(?:a|aa)+$",
        "(a|a)*b",
        "((ab?)*c)+",
        "(.*)(.*)(.*)x",
        ".*.*.*x",
        "a?" * 20 + "a" * 20,
        "(x+x+)+y",
        r"(a)\1+",
        "a{1000}",
        "(a{2,50}){2,50}",
        "[bad",
        "x" * 201,
        "(?P<n>a+)+",
        "([)+])+(a+)+",
        "((a|aa))+$",
        "(a?b?)+$",
        "a{,}b{,}c{,}d",
        "(a|a)" * 20,
        "1?+",
    ],
)
def test_patterns_that_could_run_for_long_are_refused(pattern: str) -> None:
    with pytest.raises(UnsafePattern):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"\btidy\b", "hey TIDY!"),
        ("@?open[-_ ]?tide", "ask open-tide"),
        (r"^hey\s+tide", "hey   tide"),
        ("(?:tide|pool)gate", "poolgate"),
        ("[+*]tidy", "*tidy"),
        (r"tidy\?{1,2}", "tidy??"),
        ("(tidy)?bot", "bot"),
        ("ti{1}dy", "tidy"),
        ("a{x}", "a{x}"),
    ],
)
def test_ordinary_patterns_work(pattern: str, text: str) -> None:
    assert compile_pattern(pattern).search(text)


@given(st.text(alphabet="ab()|[]*+?{}1,\\.^$", max_size=12))
def test_any_pattern_is_compiled_or_refused_and_means_the_same_on_short_texts(pattern: str) -> None:
    found = compile_patterns([pattern])
    assert len(found.compiled) + len(found.rejected) == 1
    for compiled in found.compiled:
        # Texts are shorter than the bound that replaces an open end.
        original = re.compile(pattern, re.IGNORECASE)
        for text in ("", "a", "ab", "aabb", "b" * 10, "ab1,"):
            assert bool(compiled.search(text)) == bool(original.search(text))


def test_a_bad_pattern_does_not_take_the_good_ones_with_it() -> None:
    found = compile_patterns(["(a+)+", "ok"])
    assert found.match("ok")
    assert [pattern for pattern, _ in found.rejected] == ["(a+)+"]


def test_an_empty_list_silences_the_name_too() -> None:
    assert not patterns_of([], "Tide Pool").match("tide pool, help")
    assert patterns_of(None, "Tide Pool").match("@tide   pool, help")


def test_a_name_is_a_whole_word_in_any_script_and_signs_in_it_are_only_signs() -> None:
    assert identity_patterns("Tide (v2)").match("hi tide (v2)!")
    assert not identity_patterns("прилив").match("приливы")
    assert identity_patterns("прилив").match("Прилив, привет")
    assert identity_patterns("", "🌊").match("hey 🌊")
    assert not identity_patterns(" ", " ")


def test_invisible_characters_do_not_hide_a_name_and_only_the_beginning_is_read() -> None:
    pattern = identity_patterns("tidy")
    assert pattern.match("t\u200bi\u2060dy")
    assert not pattern.match(" " * (2 * MAX_TEXT + 1) + "tidy")
