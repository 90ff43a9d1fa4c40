from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.json5 import MAX_DEPTH, MAX_FILE_BYTES, Json5Error, Node, parse, to_plain

FILE = Path("tidegate.json")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.none() | st.booleans() | st.integers(-(10**18), 10**18) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
blanks = st.sampled_from(["", " ", "\n", "\t", "// note ,:{}\n", "/* a * b ]} */", "\r\n", "\ufeff", "\u2028"])


def plain(text: str) -> object:
    return to_plain(parse(text, FILE).root)


@st.composite
def spelled(draw: st.DrawFn, value: Any) -> str:
    """The value in one of the many ways JSON5 allows."""

    def blank() -> str:
        return draw(blanks)

    def text(content: str) -> str:
        quoted = json.dumps(content, ensure_ascii=draw(st.booleans()))
        if draw(st.booleans()):
            return quoted
        return "'" + quoted[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"

    def write(item: Any) -> str:
        if isinstance(item, dict):
            members = [f"{blank()}{text(key)}{blank()}:{blank()}{write(inner)}{blank()}" for key, inner in item.items()]
            comma = "," + blank() if members and draw(st.booleans()) else ""
            return "{" + (",".join(members) or blank()) + comma + "}"
        if isinstance(item, list):
            items = [f"{blank()}{write(inner)}{blank()}" for inner in item]
            comma = "," + blank() if items and draw(st.booleans()) else ""
            return "[" + (",".join(items) or blank()) + comma + "]"
        if isinstance(item, bool) or item is None:
            return json.dumps(item)
        if isinstance(item, int):
            forms = [str(item), hex(item), f"+{item}" if item >= 0 else str(item)]
            return draw(st.sampled_from(forms))
        return text(item)

    return blank() + write(value) + blank()


@given(st.data(), values)
def test_every_spelling_of_a_value_reads_as_that_value(data: st.DataObject, value: object) -> None:
    assert plain(data.draw(spelled(value))) == value


@given(st.data(), values)
def test_every_value_can_be_read_again_from_its_own_place(data: st.DataObject, value: object) -> None:
    text = data.draw(spelled(value))
    pending: list[Node] = [parse(text, FILE).root]
    while pending:
        node = pending.pop()
        again = plain(text[node.start : node.end])
        assert again == to_plain(node)
        assert type(again) is type(to_plain(node))
        if isinstance(node.value, dict):
            for key, slot in node.value.items():
                assert plain("{" + text[slot.start : slot.key_end] + ":1}") == {key: 1}
            pending.extend(slot.node for slot in node.value.values())
        elif isinstance(node.value, list):
            pending.extend(slot.node for slot in node.value)


def refusal(text: str) -> Json5Error | None:
    try:
        parse(text, FILE)
    except Json5Error as error:
        return error
    return None


@given(st.text(max_size=60) | st.text(alphabet="{}[]:,'\"/*\\ \n0x1eE.+-aubInfinity$", max_size=40))
def test_any_text_is_either_read_or_refused_with_a_place(text: str) -> None:
    error = refusal(text)
    if error is not None:
        assert error.message
        assert str(error).startswith(f"tidegate.json:{error.line}:{error.column}: ")
        assert 1 <= error.line <= len(text) + 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: 1, $b_2: 2, 'c-d': 3, ünï: 4}", {"a": 1, "$b_2": 2, "c-d": 3, "ünï": 4}),
        (r"{\u0061b: 1}", {"ab": 1}),
        ("[.5, 5., 1e3, -0x1F, +7]", [0.5, 5, 1000, -31, 7]),
        ("'a\\\nb'", "ab"),
        ("'\\x41\\u00e9\\0\\v\\q'", "Aé\0\vq"),
        (r"'\ud83c\udf0a'", "🌊"),
        (r"'\ud83c'", "\ufffd"),
        ("'\u2028'", "\u2028"),
        ("// only a comment behind\n1 // end", 1),
    ],
)
def test_json5_spellings(text: str, value: object) -> None:
    assert plain(text) == value


def test_infinity_and_nan_are_numbers() -> None:
    assert plain("-Infinity") == -math.inf
    assert math.isnan(float(str(plain("NaN"))))


@pytest.mark.parametrize(
    ("text", "line", "column", "part"),
    [
        ("{\n  a: 1\n  b: 2\n}", 3, 3, "expected ',' or '}', found 'b'"),
        ("{ a: { b: 1 }, // open", 1, 23, "close what was opened at 1:1"),
        ("{ a: [1, 2", 1, 11, "close what was opened at 1:6"),
        ("{ a 1 }", 1, 5, "expected ':' after the key 'a'"),
        ("{ a: local }", 1, 6, "text must be in quotes"),
        ("{ a: 'x\n }", 1, 6, "never closed with '"),
        ("{ /* a }", 1, 3, "never closed with */"),
        ("[1,,2]", 1, 4, "expected a value"),
        ("{} {}", 1, 4, "expected the end of the file"),
        ("", 1, 1, "expected a value, found the end of the file"),
        ("[012]", 1, 2, "is not a number"),
        ("[0x]", 1, 2, "is not a number"),
        ("[1a]", 1, 2, "is not a number"),
        (r"'\u12'", 1, 2, "4 hexadecimal digits"),
        (r"'\1'", 1, 2, "octal"),
        ("{'a':1,2:3}", 1, 8, "expected a key"),
    ],
)
def test_mistakes_are_told_with_their_place(text: str, line: int, column: int, part: str) -> None:
    with pytest.raises(Json5Error) as caught:
        parse(text, FILE)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert part in caught.value.message


def test_a_key_given_twice_is_noted_and_the_last_one_wins() -> None:
    document = parse("{a: 1, b: 2, a: 3}", FILE)
    assert to_plain(document.root) == {"a": 3, "b": 2}
    assert document.repeated == (("a", 13),)


def test_depth_size_and_digits_are_bounded() -> None:
    assert plain("[" * MAX_DEPTH + "]" * MAX_DEPTH) is not None
    with pytest.raises(Json5Error, match="levels of nesting"):
        parse("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), FILE)
    with pytest.raises(Json5Error, match="larger than"):
        parse(" " * (MAX_FILE_BYTES + 1), FILE)
    with pytest.raises(Json5Error, match="too many digits"):
        parse("1" * 5000, FILE)
