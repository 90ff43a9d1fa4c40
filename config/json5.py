"""A JSON5 reader that remembers where every key and value stands.

The grammar is the one of https://spec.json5.org/. Two things differ on purpose: a key given twice is
noted (the last one wins), and lone surrogates written as escapes become U+FFFD so that every text in a
configuration can be encoded.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path

MAX_FILE_BYTES = 2 * 1024 * 1024
MAX_DEPTH = 100
_MAX_NUMBER_CHARS = 400

Scalar = str | int | float | bool | None

_BLANK = re.compile(
    "(?:[\t\v\f\n\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"
    "|//[^\n\r\u2028\u2029]*|/\\*(?:[^*]|\\*(?!/))*\\*/)*"
)
_PLAIN_STRING = re.compile(r""""([^"\\\n\r]*)"|'([^'\\\n\r]*)'""")
_IDENTIFIER = re.compile(r"(?:[^\W\d]|[$_]|\\u[0-9a-fA-F]{4})(?:[\w$\u200c\u200d]|\\u[0-9a-fA-F]{4})*")
_NUMBER = re.compile(
    r"[+-]?(?:Infinity|NaN|0[xX][0-9a-fA-F]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?"
    r"|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
)
_WORDS: dict[str, Scalar] = {"true": True, "false": False, "null": None}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_LINE_END = re.compile("\r\n|[\n\r\u2028\u2029]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One file's text; turns an offset into a place a person can go to."""

    file: Path
    text: str
    _line_starts: list[int] = field(default_factory=list, repr=False)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, both from 1."""
        if not self._line_starts:
            self._line_starts.append(0)
            self._line_starts.extend(match.end() for match in _LINE_END.finditer(self.text))
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A value and the characters `[start, end)` that spell it."""

    value: Scalar | dict[str, Slot] | list[Slot]
    source: Source
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A member of an object or an item of an array.

    `start` is where the key begins (for an item: the value); `key_end` is where the key ends; `comma` is
    the offset of the comma behind the value, -1 without one.
    """

    node: Node
    start: int
    key_end: int
    comma: int


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: its root value and the offsets of keys that were given twice."""

    root: Node
    source: Source
    repeated: tuple[tuple[str, int], ...] = ()


class Json5Error(ValueError):
    """The text is not JSON5.

    Attributes:
        message: What was expected and what stands there instead.
        line: From 1.
        column: From 1.
    """

    def __init__(self, message: str, source: Source, offset: int) -> None:
        self.message = message
        self.line, self.column = source.position(offset)
        super().__init__(f"{source.file}:{self.line}:{self.column}: {message}")


def parse(text: str, file: Path) -> Document:
    """Read one JSON5 text; `file` is used in places only.

    Raises:
        Json5Error: The text is not JSON5, is deeper than 100 levels, or larger than 2 MB.
    """
    source = Source(file, text)
    if len(text) > MAX_FILE_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_FILE_BYTES:
        raise Json5Error(f"the file is larger than {MAX_FILE_BYTES} bytes", source, 0)
    return _Reader(source).document()


def to_plain(node: Node) -> object:
    """The value without its places."""
    if isinstance(node.value, dict):
        return {key: to_plain(slot.node) for key, slot in node.value.items()}
    if isinstance(node.value, list):
        return [to_plain(slot.node) for slot in node.value]
    return node.value


def join_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates with U+FFFD."""
    if not _SURROGATE.search(text):
        return text
    paired = _SURROGATE_PAIR.sub(lambda m: m[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _SURROGATE.sub("\ufffd", paired)


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._text = source.text
        self._repeated: list[tuple[str, int]] = []

    def document(self) -> Document:
        start = self._skip(0)
        root, after = self._value(start, 1)
        after = self._skip(after)
        if after < len(self._text):
            raise self._unexpected("the end of the file", after)
        return Document(root, self._source, tuple(self._repeated))

    def _skip(self, position: int) -> int:
        match = _BLANK.match(self._text, position)
        end = match.end() if match else position
        if self._text.startswith("/*", end):
            raise Json5Error("this comment is never closed with */", self._source, end)
        return end

    def _value(self, position: int, depth: int) -> tuple[Node, int]:
        char = self._text[position : position + 1]
        if char in ('"', "'"):
            value, end = self._string(position)
            return Node(value, self._source, position, end), end
        if char == "{" or char == "[":
            if depth > MAX_DEPTH:
                raise Json5Error(f"more than {MAX_DEPTH} levels of nesting", self._source, position)
            return self._object(position, depth) if char == "{" else self._array(position, depth)
        number = _NUMBER.match(self._text, position)
        if number:
            return self._number(position, number[0])
        word = _IDENTIFIER.match(self._text, position)
        if word and word[0] in _WORDS:
            return Node(_WORDS[word[0]], self._source, position, word.end()), word.end()
        if word:
            message = f"expected a value, found {word[0]!r}; text must be in quotes"
            raise Json5Error(message, self._source, position)
        raise self._unexpected("a value", position)

    def _object(self, start: int, depth: int) -> tuple[Node, int]:
        members: dict[str, Slot] = {}
        position = self._skip(start + 1)
        while not self._text.startswith("}", position):
            key_start = position
            key, key_end = self._key(position, start)
            position = self._skip(key_end)
            if not self._text.startswith(":", position):
                raise self._unexpected(f"':' after the key {key!r}", position)
            node, position = self._value(self._skip(position + 1), depth + 1)
            comma, position = self._separator(position, "}", start)
            if key in members:
                self._repeated.append((key, key_start))
                del members[key]
            members[key] = Slot(node, key_start, key_end, comma)
        return Node(members, self._source, start, position + 1), position + 1

    def _array(self, start: int, depth: int) -> tuple[Node, int]:
        items: list[Slot] = []
        position = self._skip(start + 1)
        while not self._text.startswith("]", position):
            if position >= len(self._text):
                raise self._unclosed("]", start, position)
            node, position = self._value(position, depth + 1)
            comma, position = self._separator(position, "]", start)
            items.append(Slot(node, node.start, node.start, comma))
        return Node(items, self._source, start, position + 1), position + 1

    def _separator(self, position: int, closer: str, opened: int) -> tuple[int, int]:
        position = self._skip(position)
        if self._text.startswith(",", position):
            return position, self._skip(position + 1)
        if self._text.startswith(closer, position):
            return -1, position
        if position >= len(self._text):
            raise self._unclosed(closer, opened, position)
        raise self._unexpected(f"',' or '{closer}'", position)

    def _key(self, position: int, opened: int) -> tuple[str, int]:
        if position >= len(self._text):
            raise self._unclosed("}", opened, position)
        if self._text[position] in "\"'":
            return self._string(position)
        match = _IDENTIFIER.match(self._text, position)
        if match is None:
            raise self._unexpected("a key or '}'", position)
        name = match[0]
        if "\\" in name:
            name = re.sub(r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m[1], 16)), name)
        return join_surrogates(name), match.end()

    def _string(self, start: int) -> tuple[str, int]:
        match = _PLAIN_STRING.match(self._text, start)
        if match:
            return join_surrogates(match[1] if match[1] is not None else match[2]), match.end()
        quote, position, parts = self._text[start], start + 1, []
        stop = re.compile(rf"[{quote}\\\n\r]")
        while True:
            found = stop.search(self._text, position)
            if found is None or found[0] in "\n\r":
                raise Json5Error(f"this text is never closed with {quote}", self._source, start)
            parts.append(self._text[position : found.start()])
            if found[0] == quote:
                return join_surrogates("".join(parts)), found.end()
            piece, position = self._escape(found.start())
            parts.append(piece)

    def _escape(self, position: int) -> tuple[str, int]:
        char = self._text[position + 1 : position + 2]
        if char in ("x", "u"):
            width = 2 if char == "x" else 4
            digits = self._text[position + 2 : position + 2 + width]
            if not re.fullmatch(rf"[0-9a-fA-F]{{{width}}}", digits):
                raise Json5Error(f"expected {width} hexadecimal digits after \\{char}", self._source, position)
            return chr(int(digits, 16)), position + 2 + width
        line_end = _LINE_END.match(self._text, position + 1)
        if line_end:
            return "", line_end.end()
        if char.isascii() and char.isdecimal():
            following = self._text[position + 2 : position + 3]
            if char != "0" or (following.isascii() and following.isdecimal()):
                raise Json5Error("octal escapes are not allowed", self._source, position)
        return _ESCAPES.get(char, char), position + 2

    def _number(self, position: int, spelled: str) -> tuple[Node, int]:
        end = position + len(spelled)
        if _IDENTIFIER.match(self._text, end) or self._text[end : end + 1].isdecimal():
            raise Json5Error(f"{self._text[position : end + 1]!r} is not a number", self._source, position)
        if len(spelled) > _MAX_NUMBER_CHARS:
            raise Json5Error("this number has too many digits", self._source, position)
        return Node(_number(spelled), self._source, position, end), end

    def _unexpected(self, wanted: str, position: int) -> Json5Error:
        found = self._text[position : position + 1]
        seen = f"{found!r}" if found else "the end of the file"
        return Json5Error(f"expected {wanted}, found {seen}", self._source, position)

    def _unclosed(self, closer: str, opened: int, position: int) -> Json5Error:
        line, column = self._source.position(opened)
        message = f"expected '{closer}' to close what was opened at {line}:{column}, found the end of the file"
        return Json5Error(message, self._source, position)


def _number(spelled: str) -> int | float:
    body = spelled.lstrip("+-")
    sign = -1 if spelled.startswith("-") else 1
    if body[:2] in ("0x", "0X"):
        return sign * int(body, 16)
    if body in ("Infinity", "NaN"):
        return sign * float(body)
    if body.isdecimal():
        return sign * int(body)
    value = sign * float(body)
    # `1e3` and `5.` are whole numbers to the person who wrote them.
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
