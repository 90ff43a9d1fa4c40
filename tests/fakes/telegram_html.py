"""Reads Telegram's HTML as strictly as Telegram does: what it would refuse, this refuses."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

ALLOWED = {
    "b", "strong", "i", "em", "u", "ins", "s", "strike", "del", "tg-spoiler", "span", "a", "code", "pre", "blockquote",
}  # fmt: skip
_ENTITY = re.compile(r"&(?!(?:lt|gt|amp|quot|#\d+|#x[0-9a-fA-F]+);)")


class BadMarkup(Exception):
    """Telegram would answer 400."""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.open: list[str] = []
        self.entities: list[tuple[str, str, str]] = []
        self._begun: list[int] = []
        self._values: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ALLOWED:
            raise BadMarkup(f'Unsupported start tag "{tag}"')
        given = dict(attrs)
        if tag == "span" and given.get("class") != "tg-spoiler":
            raise BadMarkup('Tag "span" must have class "tg-spoiler"')
        if "code" in self.open or (self.open and self.open[-1] == "pre" and tag != "code"):
            raise BadMarkup(f'Tag "{tag}" must not stand in code')
        if tag in ("code", "pre") and set(self.open) - {"pre", "blockquote"}:
            raise BadMarkup(f'Tag "{tag}" must not stand in "{self.open[-1]}"')
        if tag in self.open and tag in ("a", "blockquote"):
            raise BadMarkup(f'Tag "{tag}" must not be nested')
        self.open.append(tag)
        self._begun.append(len(self.text))
        self._values.append(given.get("href") or given.get("class") or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raise BadMarkup(f'Unsupported start tag "{tag}/"')

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            raise BadMarkup(f'Unmatched end tag "{tag}"')
        self.open.pop()
        self.entities.append((tag, "".join(self.text[self._begun.pop() :]), self._values.pop()))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise BadMarkup("Unsupported start tag")

    def handle_decl(self, decl: str) -> None:
        raise BadMarkup("Unsupported start tag")

    def handle_pi(self, data: str) -> None:
        raise BadMarkup("Unsupported start tag")


def read_html(text: str) -> tuple[str, list[tuple[str, str, str]]]:
    """Return the visible text and the entities as (tag, text, address or class).

    Raises:
        BadMarkup: Telegram would refuse it.
    """
    if _ENTITY.search(text):
        raise BadMarkup("Unsupported entity")
    if re.search(r"<(?![a-z/])", text):
        raise BadMarkup('Unsupported start tag ""')
    reader = _Reader()
    reader.feed(text)
    reader.close()
    if reader.open:
        raise BadMarkup(f'Can\'t find end tag corresponding to start tag "{reader.open[-1]}"')
    return "".join(reader.text), reader.entities


def utf16(text: str) -> int:
    """Return the length of a text as Telegram counts it."""
    return len(text.encode("utf-16-le")) // 2


def unescaped(text: str) -> str:
    """Return the text that plain, escaped HTML shows."""
    return html.unescape(text)
