"""Cuts styled text into pieces that each fit one message, at the best place there is."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from tidegate.adapters.markdown.layout import Run, StyleKind

LOOK_BACK = 64
"""Code points of the longest cluster that is kept whole; longer ones are cut between code points."""

_SENTENCE = re.compile(r"[.!?…][\"')\]»”’]*(?=\s)|[。！？]")

Piece = list[Run]


def utf16(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def code_points(text: str) -> int:
    """Return the length of a text in code points."""
    return len(text)


def split(
    runs: Sequence[Run], limit: int, measure: Callable[[str], int] = utf16, *, at_paragraphs: bool = False
) -> list[Piece]:
    """Return pieces of runs. Every piece repeats the styles it begins within, so each stands for itself.

    Args:
        limit: Longest visible text of a piece, as `measure` counts it; at least 2.
        at_paragraphs: Cut between paragraphs wherever there is one, rather than fill pieces well.
    """
    text = "".join(run.text for run in runs)
    starts = list(accumulate((len(run.text) for run in runs), initial=0))
    pieces = []
    for start, end in _ranges(text, limit, measure, at_paragraphs):
        piece = _between(runs, starts, start, end)
        if piece:
            pieces.append(piece)
    return pieces


def visible(piece: Sequence[Run]) -> str:
    """Return the text of a piece without its styles."""
    return "".join(run.text for run in piece)


def _ranges(text: str, limit: int, measure: Callable[[str], int], at_paragraphs: bool) -> Iterator[tuple[int, int]]:
    start, total = 0, len(text)
    while start < total:
        start = _skip_blank_lines(text, start)
        if start == total:
            return
        end = _reach(text, start, limit, measure)
        if end < total:
            end = _best_cut(text, start, end, at_paragraphs)
        stop = end
        while stop > start and text[stop - 1].isspace():
            stop -= 1
        if stop > start:
            yield start, stop
        start = end
        while start < total and text[start] in " \t":
            start += 1


def _skip_blank_lines(text: str, start: int) -> int:
    """Pass over blank lines; the indent of the line after them is kept."""
    at = start
    while at < len(text) and text[at].isspace():
        at += 1
        if text[at - 1] == "\n":
            start = at
    return at if at == len(text) else start


def _reach(text: str, start: int, limit: int, measure: Callable[[str], int]) -> int:
    """Return the furthest end of a piece that begins at `start`."""
    end = min(len(text), start + limit)
    excess = measure(text[start:end]) - limit
    while excess > 0:
        # A code point is at most two units, so half of the excess is never too much to drop.
        end -= max(1, excess // 2)
        excess = measure(text[start:end]) - limit
    return max(end, start + 1)


def _best_cut(text: str, start: int, end: int, at_paragraphs: bool) -> int:
    size = end - start
    paragraph = text.rfind("\n\n", start + 1, end + 2)
    if paragraph > start and (at_paragraphs or paragraph - start > size // 2):
        return paragraph
    line = text.rfind("\n", start + 1, end + 1)
    if line - start > size // 3:
        return line
    sentence = 0
    for found in _SENTENCE.finditer(text, start + size // 2, end):
        sentence = found.end()
    if sentence:
        return sentence
    for at in range(end, start + size // 4, -1):
        if text[at].isspace():
            return at
    if line > start:
        return line
    for at in range(start + size // 4, start, -1):
        if text[at].isspace():
            return at
    return _whole_cluster(text, start, end)


def _whole_cluster(text: str, start: int, end: int) -> int:
    """Return the last place up to `end` that lies between two characters as people see them."""
    for at in range(end, max(start, end - LOOK_BACK), -1):
        if not _is_joined(text, at):
            return at
    return end


def _is_joined(text: str, at: int) -> bool:
    """Tell whether the code points on both sides of `at` make one character (after Unicode's UAX 29)."""
    before, after = text[at - 1], text[at]
    if before.isascii() and after.isascii():
        return before == "\r" and after == "\n"
    if before == "\u200d" or after == "\u200d" or "\U0001f3fb" <= after <= "\U0001f3ff":
        return True
    if unicodedata.category(after) in ("Mn", "Mc", "Me") or "\U000e0020" <= after <= "\U000e007f":
        return True
    if _is_flag_half(before) and _is_flag_half(after):
        first = at
        while first > 0 and at - first < LOOK_BACK and _is_flag_half(text[first - 1]):
            first -= 1
        return (at - first) % 2 == 1
    return _is_hangul_joined(before, after)


def _is_flag_half(sign: str) -> bool:
    return "\U0001f1e6" <= sign <= "\U0001f1ff"


def _is_hangul_joined(before: str, after: str) -> bool:
    if "\u1100" <= before <= "\u115f":
        return "\u1100" <= after <= "\u11a7" or "\uac00" <= after <= "\ud7a3"
    return ("\u1160" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3") and "\u1160" <= after <= "\u11ff"


def _between(runs: Sequence[Run], starts: Sequence[int], start: int, end: int) -> Piece:
    piece: Piece = []
    index = bisect_right(starts, start) - 1
    while index < len(runs) and starts[index] < end:
        run, at = runs[index], starts[index]
        text = run.text[max(0, start - at) : end - at]
        if text and not (not piece and _is_blank_outside_code(text, run)):
            piece.append(Run(text, run.styles))
        index += 1
    return piece


def _is_blank_outside_code(text: str, run: Run) -> bool:
    return not text.strip() and not any(style.kind is StyleKind.BLOCK for style in run.styles)
