"""Markdown becomes HTML in which nothing runs, loads, or leads anywhere by itself – whatever the text is."""

from __future__ import annotations

import time
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tidegate.gateway.web.html import ALLOWED, is_safe_url, to_html

VOID = {"br", "hr"}
CLASSES = {"table", "spoiler", "left", "right", "center"}
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](https://evil.example/pixel.png)",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:msgbox(1))",
    "[x](//evil.example)",
    "[x](/relative)",
    '[x](https://e.example/"onmouseover="alert(1))',
    "[x](https://e.example/' onclick='alert(1))",
    "[x](<https://e.example/ onclick=alert(1)>)",
    "https://e.example/<script>",
    'https://e.example/"onmouseover="alert(1)',
    '```"><script>alert(1)</script>\nx\n```',
    "```py onload=alert(1)\nx\n```",
    "| <b>a</b> | b |\n|---|---|\n| <script> | [x](javascript:1) |",
    "<svg/onload=alert(1)>",
    "<a href='javascript:alert(1)'>x</a>",
    "# <iframe src=//evil>",
    "> <style>*{display:none}</style>",
    "1. <meta http-equiv=refresh content=0;url=//evil>",
    "||<script>alert(1)</script>||",
    "[a [b](https://in.example) c](https://out.example)",
    "[https://in.example](https://out.example)",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "\u202e<script>\u202d",
    "<br/onclick=x>",
]


class Reader(HTMLParser):
    """Reads HTML the way a page would, and refuses all that is not allowed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag
        assert "a" not in self.open or tag != "a", "a link in a link"
        for name, value in attrs:
            assert name in ALLOWED[tag], (tag, name)
            self._check(name, value or "")
        if tag not in VOID:
            self.open.append(tag)

    def _check(self, name: str, value: str) -> None:
        if name == "href":
            assert is_safe_url(value), value
            self.links.append(value)
        elif name == "class":
            assert value in CLASSES
        elif name == "start":
            assert value.isdecimal()
        elif name == "data-language":
            assert set(value) <= set("abcdefghijklmnopqrstuvwxyz0123456789+#.-")
        else:
            assert value in ("auto", "_blank", "noopener noreferrer nofollow") or is_safe_url(value)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    handle_decl = handle_pi = unknown_decl = handle_comment  # type: ignore[assignment]


def read(markdown: str) -> Reader:
    """Render a text and read it with all checks."""
    reader = Reader()
    reader.feed(to_html(markdown))
    reader.close()
    assert not reader.open
    return reader


@pytest.mark.parametrize("text", HOSTILE)
def test_what_would_harm_is_shown_as_words(text: str) -> None:
    reader = read(text)
    assert all(link.startswith(("https://", "http://", "mailto:", "tel:")) for link in reader.links)


_PIECES = st.sampled_from(
    [
        *HOSTILE,
        *"*_~`|[]()<>!#-+>&\"'\\\n\t:/ ",
        "**",
        "```",
        "~~~",
        "1. ",
        "- ",
        "https://",
        "javascript:",
        "\x00",
        "ä",
    ]
)
_MARKDOWN = st.lists(st.one_of(_PIECES, st.text(max_size=12)), max_size=30).map("".join)


@given(_MARKDOWN)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example("[x](https://e.example/\x00a)")
@example("`" * 300 + "<b>")
@example("> " * 60 + "<script>")
def test_no_text_makes_a_tag_an_attribute_or_a_link_that_is_not_allowed(text: str) -> None:
    read(text)


@given(st.text(alphabet="<>&\"'abc \n", max_size=60))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_word_is_lost_by_escaping(text: str) -> None:
    shown = "".join("".join(read("`a" + text.replace("\n", " ") + "b`").text).split())
    assert shown == "".join(f"a{text}b".split())


def test_everyday_markdown_has_the_tags_that_people_expect() -> None:
    assert to_html("# Title") == '<h3 dir="auto">Title</h3>'
    assert to_html("###### Small") == '<h6 dir="auto">Small</h6>'
    assert to_html("a **b** *c* ~~d~~ `e`") == (
        '<p dir="auto">a <strong>b</strong> <em>c</em> <s>d</s> <code>e</code></p>'
    )
    assert to_html("- a\n- b") == '<ul><li dir="auto">a</li><li dir="auto">b</li></ul>'
    assert to_html("3. a\n4. b") == '<ol start="3"><li dir="auto">a</li><li dir="auto">b</li></ol>'
    assert to_html("- a\n  1. b") == '<ul><li dir="auto">a<ol><li dir="auto">b</li></ol></li></ul>'
    assert to_html("```Python\nx < 1\n```") == '<pre data-language="python"><code>x &lt; 1</code></pre>'
    assert to_html("> a\n\n---") == '<blockquote dir="auto"><p dir="auto">a</p></blockquote><hr>'
    assert to_html("a\nb") == '<p dir="auto">a<br>b</p>'
    assert to_html("") == ""


def test_a_table_keeps_its_sides() -> None:
    html = to_html("| a | b | c |\n|:--|:-:|--:|\n| 1 | 2 | 3 |")
    assert [part for part in ("left", "center", "right") if f'<td class="{part}"' in html] == [
        "left",
        "center",
        "right",
    ]
    assert html.startswith('<div class="table"><table><thead><tr><th')


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("see https://a.example/x_(y).", "https://a.example/x_(y)"),
        ("(https://a.example/x)", "https://a.example/x"),
        ("https://a.example/?q=1&r=2, and", "https://a.example/?q=1&r=2"),
        ("[mail](mailto:a@b.example)", "mailto:a@b.example"),
        ("[call](tel:+123)", "tel:+123"),
        ("![a picture](https://a.example/p.png)", "https://a.example/p.png"),
    ],
)
def test_addresses_become_links_and_pictures_are_not_loaded(text: str, link: str) -> None:
    assert read(text).links == [link]


def test_where_a_refused_link_would_have_led_stays_readable() -> None:
    assert "".join(read("[click](javascript:alert(1))").text) == "click (javascript:alert(1))"


@pytest.mark.parametrize(
    "url", ["https://a b", "https://", "http:x", "ftp://a", "https://a\\b", "https://" + "a" * 3000]
)
def test_an_address_that_is_not_whole_is_none(url: str) -> None:
    assert not is_safe_url(url)


def test_a_long_text_costs_time_in_proportion_to_its_length() -> None:
    def seconds(text: str) -> float:
        began = time.perf_counter()
        to_html(text)
        return time.perf_counter() - began

    for piece in ("https://a.example/(((", "https://a.example/x)", ")", "[](", "**a", "| a ", "> ", "- "):
        seconds(piece * 1_000)
        assert seconds(piece * 8_000) < 40 * seconds(piece * 1_000) + 0.5, piece
