"""Markdown as HTML that is safe by construction.

Tags and attributes are written here, never taken from a text; every word of a text passes `escape`. A page may
therefore put the result into its document. The tags and attributes that can occur are named in `ALLOWED`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from html import escape
from itertools import groupby

from tidegate.adapters.markdown.blocks import parse
from tidegate.adapters.markdown.tree import (
    Block,
    Code,
    CodeBlock,
    Heading,
    Inline,
    Item,
    Link,
    Listing,
    Mark,
    Marked,
    Paragraph,
    Quote,
    Rule,
    Table,
    Text,
    plain,
)

_LINK: frozenset[str] = frozenset({"href", "rel", "target", "title"})
_DIRECTED: frozenset[str] = frozenset({"dir"})
_NONE: frozenset[str] = frozenset()
ALLOWED: Mapping[str, frozenset[str]] = {
    "a": _LINK,
    "blockquote": _DIRECTED,
    "br": _NONE,
    "code": _NONE,
    "div": frozenset({"class"}),
    "em": _NONE,
    "h3": _DIRECTED,
    "h4": _DIRECTED,
    "h5": _DIRECTED,
    "h6": _DIRECTED,
    "hr": _NONE,
    "li": _DIRECTED,
    "ol": frozenset({"start"}),
    "p": _DIRECTED,
    "pre": frozenset({"data-language"}),
    "s": _NONE,
    "span": frozenset({"class"}),
    "strong": _NONE,
    "table": _NONE,
    "tbody": _NONE,
    "td": frozenset({"class", "dir"}),
    "th": frozenset({"class", "dir"}),
    "thead": _NONE,
    "tr": _NONE,
    "ul": _NONE,
}
"""Every tag that is ever written, with its attributes."""

TOP_HEADING = 3
"""Level of a first-level heading: the page and its parts have the levels above."""
MAX_URL = 2_048
_SAFE_URL = re.compile(r"(?:https?://|mailto:|tel:)[^\s\x00-\x20\x7f<>\"'`\\]+", re.IGNORECASE)
_BARE_URL = re.compile(r"https?://[^\s<>\"'`\\|\[\]\x00-\x20\x7f]+", re.IGNORECASE)
_TRAILING = "_~*.,;:!?'"
_LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+#.-]{0,19}")
# What no document may hold (https://html.spec.whatwg.org/#preprocessing-the-input-stream) and lone surrogates.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_MARKS = {Mark.BOLD: "strong", Mark.ITALIC: "em", Mark.STRIKE: "s"}


def to_html(markdown: str) -> str:
    """Return a text as HTML. Takes any text; what is not understood stays text."""
    return _blocks(parse(_UNPRINTABLE.sub("\ufffd", markdown)))


def is_safe_url(url: str) -> bool:
    """Return whether a page may lead there: a whole web address, mail or phone; nothing that runs."""
    return len(url) <= MAX_URL and _SAFE_URL.fullmatch(url) is not None


def _blocks(blocks: Iterable[Block]) -> str:
    return "".join(_block(block) for block in blocks)


def _block(block: Block) -> str:
    match block:
        case Paragraph(children):
            return f'<p dir="auto">{_inline(children)}</p>'
        case Heading(level, children):
            tag = f"h{min(level + TOP_HEADING - 1, 6)}"
            return f'<{tag} dir="auto">{_inline(children)}</{tag}>'
        case CodeBlock(text, info):
            language = _LANGUAGE.match(info)
            about = f' data-language="{language[0].lower()}"' if language else ""
            return f"<pre{about}><code>{escape(text)}</code></pre>"
        case Quote(children):
            return f'<blockquote dir="auto">{_blocks(children)}</blockquote>'
        case Listing(items):
            return _listing(items)
        case Table():
            return _table(block)
        case Rule():
            return "<hr>"


def _listing(items: Iterable[Item]) -> str:
    """Return a list; where bullets and numbers mix, one list for each stretch of the same kind."""
    return "".join(_stretch(list(group), ordered) for ordered, group in groupby(items, lambda item: bool(item.marker)))


def _stretch(items: list[Item], ordered: bool) -> str:
    inside = "".join(f'<li dir="auto">{_item(item)}</li>' for item in items)
    if not ordered:
        return f"<ul>{inside}</ul>"
    digits = items[0].marker[:-1]
    start = f' start="{int(digits)}"' if digits.isascii() and digits.isdecimal() and int(digits) != 1 else ""
    return f"<ol{start}>{inside}</ol>"


def _item(item: Item) -> str:
    """Return what an item holds; the words of a short one stand without a paragraph of their own."""
    first, rest = item.children[:1], item.children[1:]
    if first and isinstance(first[0], Paragraph) and all(isinstance(block, Listing) for block in rest):
        return _inline(first[0].children) + _blocks(rest)
    return _blocks(item.children)


def _table(table: Table) -> str:
    def row(cells: tuple[tuple[Inline, ...], ...], tag: str) -> str:
        sides = zip(cells, table.aligned, strict=False)
        return "".join(f'<{tag} class="{_side(side)}" dir="auto">{_inline(cell)}</{tag}>' for cell, side in sides)

    head = f"<thead><tr>{row(table.rows[0], 'th')}</tr></thead>"
    body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in table.rows[1:])
    return f'<div class="table"><table>{head}<tbody>{body}</tbody></table></div>'


def _side(aligned: str) -> str:
    return aligned if aligned in ("right", "center") else "left"


def _inline(children: Iterable[Inline], *, in_link: bool = False) -> str:
    return "".join(_node(node, in_link=in_link) for node in children)


def _node(node: Inline, *, in_link: bool) -> str:
    match node:
        case Text(text):
            return _words(text) if in_link else _with_links(text)
        case Code(text):
            return f"<code>{escape(text)}</code>"
        case Marked(Mark.SPOILER, children):
            return f'<span class="spoiler">{_inline(children, in_link=in_link)}</span>'
        case Marked(mark, children):
            tag = _MARKS[mark]
            return f"<{tag}>{_inline(children, in_link=in_link)}</{tag}>"
        case Link(url, children):
            label = _inline(children, in_link=True)
            if in_link:
                # Links do not stand in links.
                return label
            if is_safe_url(url):
                return _anchor(url, label)
            told = "" if plain(children) == url or not url else f" ({_words(url)})"
            return label + told


def _anchor(url: str, label: str) -> str:
    target = escape(url)
    return f'<a href="{target}" title="{target}" target="_blank" rel="noopener noreferrer nofollow">{label}</a>'


def _words(text: str) -> str:
    return escape(text).replace("\n", "<br>")


def _with_links(text: str) -> str:
    """Return words in which whole web addresses are links."""
    return _replaced(_BARE_URL, text, _bare_link) if "://" in text else _words(text)


def _replaced(pattern: re.Pattern[str], text: str, replace: Callable[[str], str]) -> str:
    found, at = [], 0
    for match in pattern.finditer(text):
        found += [_words(text[at : match.start()]), replace(match[0])]
        at = match.end()
    return "".join([*found, _words(text[at:])])


def _bare_link(found: str) -> str:
    if len(found) > MAX_URL:
        return _words(found)
    url = found.rstrip(_TRAILING)
    while url.endswith(")") and url.count(")") > url.count("("):
        url = url[:-1].rstrip(_TRAILING)
    rest = _words(found[len(url) :])
    return _anchor(url, _words(url)) + rest if is_safe_url(url) else _words(url) + rest
