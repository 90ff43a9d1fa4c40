"""Reads what stands within lines: emphasis, code, links.

A subset of CommonMark 0.31 (https://spec.commonmark.org), with `~~strike~~` and `||spoiler||`. Markers that are not
closed stay as text, line breaks are kept, and the time needed grows with the length of the text only.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from dataclasses import dataclass, field

from tidegate.adapters.markdown.tree import Code, Inline, Link, Mark, Marked, Text

MAX_OPEN = 24
"""Most markers open at once; the oldest ones become text."""
MAX_NESTED_LINKS = 3

_SPECIAL = re.compile(r"[\\`*_~|\[!<&]|https?://")
_RUN = re.compile(r"\*+|_+|~+|\|+")
_TICKS = re.compile(r"`+")
_BRACKETS = re.compile(r"\\.|[\[\]]", re.DOTALL)
_DESTINATION = re.compile(
    r"""\([ \t]*(?:<(?P<angled>[^<>\n]*)>|(?P<bare>(?:[^\s()<>\\]|\\.|\((?:[^\s()\\]|\\.)*\))*))"""
    r"""(?:[ \t\n]+(?:"[^"]*"|'[^']*'))?[ \t]*\)"""
)
_URL = re.compile(r"https?://[^\s<>*`|\"\[\]]+")
_ANGLED = re.compile(r"<(https?://[^\s<>]+)>|<br[ ]?/?>", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_PAIRS = {"~": Mark.STRIKE, "|": Mark.SPOILER}


@dataclass(slots=True)
class _Opener:
    """A marker that may yet be closed, and what was read since."""

    sign: str
    count: int
    can_close: bool
    children: list[Inline] = field(default_factory=list)


def parse_inline(text: str) -> tuple[Inline, ...]:
    """Return the inline nodes of a text."""
    if not _SPECIAL.search(text):
        return (Text(text),) if text else ()
    return _Parser(text).parse(0, len(text), 0)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._ticks: dict[int, list[int]] = {}
        for run in _TICKS.finditer(text):
            self._ticks.setdefault(len(run[0]), []).append(run.start())
        self._closing = _matching_brackets(text) if "[" in text else {}

    def parse(self, at: int, end: int, depth: int) -> tuple[Inline, ...]:
        text = self._text
        state = _Stack()
        while at < end:
            special = _SPECIAL.search(text, at, end)
            if special is None:
                state.add_text(text[at:end])
                break
            state.add_text(text[at : special.start()])
            at = self._special(special.start(), end, depth, state)
        return state.close()

    def _special(self, at: int, end: int, depth: int, state: _Stack) -> int:
        """Read one special sign; returns where to go on."""
        text = self._text
        sign = text[at]
        if sign == "\\":
            return self._escape(at, end, state)
        if sign == "`":
            return self._code(at, end, state)
        if sign in "*_~|":
            run = _RUN.match(text, at, end)
            assert run is not None
            state.delimiter(sign, len(run[0]), *_flanks(text, at, run.end(), sign))
            return run.end()
        if sign in "[!":
            return self._link(at, end, depth, state)
        if sign == "h":
            url = _URL.match(text, at, end)
            stop = at + len(url[0].rstrip("_~.,;:!?'")) if url else at + 1
            state.add_text(text[at:stop])
            return stop
        if sign == "<":
            angled = _ANGLED.match(text, at, end)
            if angled:
                state.add_text(angled[1] or "\n")
                return angled.end()
        elif entity := _ENTITY.match(text, at, end):
            state.add_text(html.unescape(entity[0]))
            return entity.end()
        state.add_text(sign)
        return at + 1

    def _escape(self, at: int, end: int, state: _Stack) -> int:
        following = self._text[at + 1 : at + 2] if at + 1 < end else ""
        if following == "\n":
            state.add_text("\n")
            return at + 2
        if following and following in _PUNCTUATION:
            state.add_text(following)
            return at + 2
        state.add_text("\\")
        return at + 1

    def _code(self, at: int, end: int, state: _Stack) -> int:
        run = _TICKS.match(self._text, at, end)
        assert run is not None
        size = len(run[0])
        places = self._ticks.get(size, [])
        index = bisect_right(places, at)
        if index >= len(places) or places[index] + size > end:
            state.add_text(run[0])
            return run.end()
        closing = places[index]
        inside = self._text[run.end() : closing].replace("\n", " ")
        if len(inside) > 2 and inside[0] == inside[-1] == " " and inside.strip():
            inside = inside[1:-1]
        if inside.strip():
            state.add(Code(inside))
        else:
            state.add_text(self._text[at : closing + size])
        return closing + size

    def _link(self, at: int, end: int, depth: int, state: _Stack) -> int:
        text = self._text
        opening = at + 1 if text[at] == "!" else at
        closing = self._closing.get(opening)
        if text[opening : opening + 1] != "[" or closing is None or closing >= end or depth >= MAX_NESTED_LINKS:
            state.add_text(text[at])
            return at + 1
        target = _DESTINATION.match(text, closing + 1, end)
        if target is None:
            state.add_text(text[at])
            return at + 1
        url = target["angled"] if target["angled"] is not None else target["bare"]
        url = html.unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", url))
        label = self.parse(opening + 1, closing, depth + 1)
        if not label and not url:
            state.add_text(text[at : target.end()])
        else:
            state.add(Link(url, label or (Text(url),)))
        return target.end()


class _Stack:
    """Markers that are open, innermost last. The first entry is the text itself."""

    def __init__(self) -> None:
        self._open = [_Opener("", 0, False)]

    def add(self, node: Inline) -> None:
        self._open[-1].children.append(node)

    def add_text(self, text: str) -> None:
        if text:
            self._open[-1].children.append(Text(text))

    def delimiter(self, sign: str, count: int, can_open: bool, can_close: bool) -> None:
        """Take a run of equal markers, closing what it can and opening what is left."""
        if sign in _PAIRS and count != 2:
            self.add_text(sign * count)
            return
        both = can_open and can_close
        while can_close and count:
            index = self._opener_of(sign, count, both)
            if index is None:
                break
            self._flatten_above(index)
            opener = self._open.pop()
            used = 2 if sign in _PAIRS or (count >= 2 and opener.count >= 2) else 1
            mark = _PAIRS.get(sign) or (Mark.BOLD if used == 2 else Mark.ITALIC)
            node: list[Inline] = [Marked(mark, _merged(opener.children))] if opener.children else []
            count -= used
            if opener.count > used:
                opener.count -= used
                opener.children = node
                self._open.append(opener)
            else:
                self._open[-1].children.extend(node)
        if not count:
            return
        if can_open:
            self._open.append(_Opener(sign, count, can_close))
            if len(self._open) > MAX_OPEN:
                self._give_up_oldest()
        else:
            self.add_text(sign * count)

    def close(self) -> tuple[Inline, ...]:
        self._flatten_above(0)
        return _merged(self._open[0].children)

    def _opener_of(self, sign: str, count: int, both: bool) -> int | None:
        for index in range(len(self._open) - 1, 0, -1):
            opener = self._open[index]
            if opener.sign != sign or not (opener.children or index < len(self._open) - 1):
                continue
            if sign in "*_" and (both or opener.can_close):
                total = opener.count + count
                if total % 3 == 0 and (opener.count % 3 or count % 3):
                    continue
            return index
        return None

    def _give_up_oldest(self) -> None:
        oldest = self._open.pop(1)
        self._open[0].children += [Text(oldest.sign * oldest.count), *oldest.children]

    def _flatten_above(self, index: int) -> None:
        """Turn markers that stay open into the text they are."""
        while len(self._open) - 1 > index:
            unclosed = self._open.pop()
            self.add_text(unclosed.sign * unclosed.count)
            self._open[-1].children.extend(unclosed.children)


def _merged(nodes: list[Inline]) -> tuple[Inline, ...]:
    merged: list[Inline] = []
    texts: list[str] = []
    for node in nodes:
        if isinstance(node, Text):
            texts.append(node.text)
            continue
        if texts:
            merged.append(Text("".join(texts)))
            texts = []
        merged.append(node)
    if texts:
        merged.append(Text("".join(texts)))
    return tuple(merged)


def _flanks(text: str, start: int, end: int, sign: str) -> tuple[bool, bool]:
    """Return whether a run of markers may open and may close."""
    before = text[start - 1] if start else " "
    after = text[end] if end < len(text) else " "
    left = not after.isspace() and (not _is_punctuation(after) or before.isspace() or _is_punctuation(before))
    right = not before.isspace() and (not _is_punctuation(before) or after.isspace() or _is_punctuation(after))
    # Scripts that put no spaces between words touch markers with full stops and brackets of their own.
    left = left or (not after.isspace() and _is_wide(before))
    right = right or (not before.isspace() and _is_wide(after))
    if sign == "_":
        return left and (not right or _is_punctuation(before)), right and (not left or _is_punctuation(after))
    return left, right


def _is_punctuation(sign: str) -> bool:
    return sign in _PUNCTUATION if sign.isascii() else not sign.isalnum() and not sign.isspace()


def _is_wide(sign: str) -> bool:
    return "\u2e80" <= sign <= "\ud7ff" or "\uf900" <= sign <= "\ufaff" or sign >= "\U00020000"


def _matching_brackets(text: str) -> dict[int, int]:
    closing: dict[int, int] = {}
    opened: list[int] = []
    for found in _BRACKETS.finditer(text):
        if found[0] == "[":
            opened.append(found.start())
        elif found[0] == "]" and opened:
            closing[opened.pop()] = found.start()
    return closing
