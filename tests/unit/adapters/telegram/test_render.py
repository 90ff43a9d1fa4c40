"""Replies become Telegram messages that Telegram takes, without losing a word."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.telegram_html import read_html, utf16
from tidegate.adapters.base import TextPart
from tidegate.adapters.telegram.render import render

MARKS = [
    *(
        "**",
        "*",
        "_",
        "__",
        "~~",
        "||",
        "`",
        "``",
        "```",
        "~~~",
        "\n```py\n",
        "\n````\n",
        "[",
        "](",
        ")",
        "<",
        ">",
        "&",
    ),
    *("](http://x.y/z)", "\n- ", "\n  - ", "\n1. ", "\n> ", "\n# ", "\n---\n", "|", "\n|a|b|\n|-|-|\n", "&amp;", "<b>"),
    *(
        "\\",
        "!",
        "\n",
        "\n\n",
        " ",
        "  ",
        "http://q.r/s_t_u",
        "好",
        "好，",
        "👍🏽",
        "👨‍👩‍👧",
        "🇩🇪",
        "é",
        "\u202e",
        "\x00",
    ),
]
TEXTS = st.lists(st.sampled_from(MARKS) | st.from_regex(r"w[0-9]{1,3}x, ", fullmatch=True), max_size=60).map("".join)
LIMITS = st.integers(40, 400)


def shown(parts: tuple[TextPart, ...]) -> list[str]:
    """Return what people see; fails where Telegram would refuse."""
    return [read_html(part.body)[0] for part in parts]


@given(TEXTS, LIMITS)
@settings(max_examples=300)
def test_whatever_is_written_telegram_takes_every_part(text: str, limit: int) -> None:
    for visible in shown(render(text, limit)):
        assert 0 < utf16(visible) <= limit
        assert visible.strip()


@given(TEXTS, LIMITS)
@settings(max_examples=300)
def test_no_word_is_lost_and_their_order_stays(text: str, limit: int) -> None:
    words = re.findall(r"w[0-9]{1,3}x", text)
    assert re.findall(r"w[0-9]{1,3}x", "\n".join(shown(render(text, limit)))) == words


@given(st.text(max_size=300), LIMITS)
def test_any_text_at_all_is_taken(text: str, limit: int) -> None:
    for visible in shown(render(text.encode("utf-8", "replace").decode(), limit)):
        assert utf16(visible) <= limit


@given(st.lists(st.sampled_from(["👨‍👩‍👧‍👦", "👍🏽", "🇩🇪", "é", "好", "각", "न्", "a"]), min_size=1, max_size=80))
def test_characters_are_never_cut_apart(signs: list[str]) -> None:
    visible = shown(render("".join(signs), 23))
    assert "".join(visible) == "".join(signs)
    at, cuts = 0, {0}
    for sign in signs:
        at += len(sign)
        cuts.add(at)
    length = 0
    for piece in visible:
        length += len(piece)
        assert length in cuts


def test_R082_angle_brackets_stay_what_they_are() -> None:
    text = "From: Ann Lee <ann@example.com> & <b>Bob"
    assert shown(render(text, 4000)) == [text]


def test_R083_the_plain_form_of_a_part_is_that_part_without_tags() -> None:
    text = "\n\n".join(f"**bold {n}** and `code {n}`\n```py\nif {n} < 1: pass\n```" for n in range(400))
    parts = render(text, 4000)
    assert len(parts) > 3
    assert [part.plain.strip() for part in parts] == [visible.strip() for visible in shown(parts)]


def test_R085_ticks_within_a_line_open_no_fence() -> None:
    _, entities = read_html(render("Use ``` to open a block, and ```x``` inline. **done**", 4000)[0].body)
    assert ("b", "done", "") in entities


@pytest.mark.parametrize("fence", ["```", "````", "~~~~~"])
def test_code_that_is_cut_goes_on_as_code_of_the_same_language(fence: str) -> None:
    code = "\n".join(f"    line{number} = ```{number}```" for number in range(40)).replace(
        "```", "" if fence == "```" else "```"
    )
    parts = render(f"before\n{fence}python\n{code}\n{fence}\nafter", 200)
    assert len(parts) > 3
    lines = []
    for part in parts:
        visible, entities = read_html(part.body)
        inside = [text for tag, text, _ in entities if tag == "pre"]
        assert all(value == "language-python" for tag, _, value in entities if tag == "code")
        assert visible.replace("before", "").replace("after", "").strip("\n") == "".join(inside)
        lines += "".join(inside).split("\n")
    assert lines == code.split("\n")


def test_styles_go_on_in_the_next_part() -> None:
    parts = render("**" + "word " * 100 + "end**", 100)
    assert all(part.body.startswith("<b>") and part.body.endswith("</b>") for part in parts)


def test_texts_are_cut_between_paragraphs_then_lines_then_sentences_then_words() -> None:
    paragraphs = "\n\n".join(f"{name} " * 15 for name in ("aaa", "bbb", "ccc"))
    assert [part.plain for part in render(paragraphs, 100)] == [
        ("aaa " * 15).strip(),
        ("bbb " * 15).strip(),
        ("ccc " * 15).strip(),
    ]
    sentences = "First one here is this. " * 10
    assert all(part.plain.endswith(".") for part in render(sentences, 100))


def test_newline_mode_cuts_at_paragraphs_even_if_parts_stay_short() -> None:
    text = "short\n\n" + "long words " * 12
    assert render(text, 130, at_paragraphs=True)[0].plain == "short"


TABLE = "| Name | Age |\n|:--|--:|\n| Ann `x` | 41 |\n| 你好 | 7 |"


def test_a_table_is_aligned_code() -> None:
    visible, entities = read_html(render(TABLE, 4000, "block")[0].body)
    assert visible == "Name  | Age\n------+----\nAnn x |  41\n你好  |   7"
    assert entities == [("pre", visible, "")]


def test_a_table_can_be_a_list() -> None:
    body = render(TABLE + "\n| Bob | |", 4000, "bullets")[0].body
    assert body == "<b>Ann </b><code>x</code>\n• Age: 41\n\n<b>你好</b>\n• Age: 7\n\n<b>Bob</b>"


def test_a_table_can_stay_as_it_is() -> None:
    assert render(TABLE, 4000, "off")[0].body == TABLE


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("**b** *i* ~~s~~ ||p|| `c`", "<b>b</b> <i>i</i> <s>s</s> <tg-spoiler>p</tg-spoiler> <code>c</code>"),
        ("***both***", "<i><b>both</b></i>"),
        ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4"),
        ("**注意：**这里", "<b>注意：</b>这里"),
        ("# Head\ntext", "<b>Head</b>\ntext"),
        ("> a\n> b\nc", "<blockquote>a\nb</blockquote>\nc"),
        ("[x](https://y.z/?a=1&b=2)", '<a href="https://y.z/?a=1&amp;b=2">x</a>'),
        ("[x](src/a.py)", "x (src/a.py)"),
        ("see https://y.z/a_b_c!", "see https://y.z/a_b_c!"),
        ("- a\n  - b\n- [x] c", "• a\n  ◦ b\n☑ c"),
        ("3) a\n4) b", "3) a\n4) b"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("**open `tick [link](", "**open `tick [link]("),
        ("one\ntwo  \nthree\\\nfour", "one\ntwo\nthree\nfour"),
        ("a<br>b", "a\nb"),
        ("**`x`**", "<code>x</code>"),
        (r"\*not\* &lt;b&gt;", "*not* &lt;b&gt;"),
        ("plain answer", "plain answer"),
    ],
)  # fmt: skip
def test_markdown_looks_as_meant(text: str, body: str) -> None:
    assert [part.body for part in render(text, 4000)] == [body]


def test_the_plain_form_keeps_where_links_lead() -> None:
    assert render("[x](https://y.z) end", 4000)[0].plain == "x (https://y.z) end"


def test_what_shows_nothing_is_sent_as_it_was_written() -> None:
    assert [part.plain for part in render("```\n```", 4000)] == ["```\n```"]


EVIL = {
    "bold": "**a** " * 16_000,
    "openers": "*a " * 33_000,
    "brackets": "[" * 100_000,
    "links": "[a](" * 25_000,
    "titles": '[a](b "' * 14_000,
    "ticks": "`a``b```c" * 11_000,
    "blank": " " * 100_000 + "x|",
    "head": "# " + " " * 100_000 + "b",
    "quotes": ">" * 100_000,
    "bullets": "- " * 50_000,
    "bars": "|a" * 50_000,
    "fences": "```\n" * 25_000,
    "info": "```" + " " * 100_000 + "x",
    "under": "_a" * 50_000,
    "signs": "&" * 100_000,
    "tables": "| a | b |\n|---|---|\n" * 5_000,
    "marks": "a" + "\u0301" * 100_000,
    "escapes": "\\" * 100_000,
    "urls": "http://" * 14_000,
    "words": "lorem ipsum " * 8_300,
}


@pytest.mark.parametrize("text", EVIL.values(), ids=EVIL.keys())
def test_the_time_for_a_long_text_is_bounded(text: str) -> None:
    began = time.process_time()
    parts = render(text, 4000)
    assert time.process_time() - began < 5
    assert all(len(part.body) <= 16_000 for part in parts)


def test_a_body_with_much_markup_is_cut_smaller() -> None:
    parts = render(("[a](https://example.org/" + "z" * 900 + ") ") * 60, 4000)
    assert len(parts) > 3
    assert all(len(part.body) <= 16_000 for part in parts)
    assert "".join(shown(parts)).replace(" ", "") == "a" * 60
