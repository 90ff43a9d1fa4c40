"""Patterns that mention an agent: regular expressions from the config, made safe to run on anybody's text.

A config is trusted, the text it is matched against is not: one careless pattern would let any group member stop
the gateway with a long message. So repetition inside repetition is refused, each repetition is bounded (`.*` covers
32 characters), and only the beginning of a text is looked at.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

MAX_PATTERN: Final = 200
MAX_TEXT: Final = 4000
MAX_COST: Final = 8192
MAX_COUNT: Final = 64
REPEAT_BOUND: Final = 32

_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe0e\ufe0f\ufeff]"
)
_TOKEN: Final = re.compile(
    r"(?P<escape>\\.)|(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<open>\((?:\?(?:[:=!]|<[=!]|P?<\w+>))?)|(?P<close>\))"
    r"|(?P<repeat>[*+]|\{(?P<low>\d*)(?P<comma>,?)(?P<high>\d*)\})(?P<lazy>\??)|(?P<optional>\?\??)|(?P<other>.)",
    re.DOTALL,
)


class UnsafePattern(ValueError):
    """A pattern is not run, and why."""


@dataclass(frozen=True, slots=True)
class MentionPatterns:
    """The patterns of one agent.

    Attributes:
        rejected: Patterns that are not used, with the reason, for a warning when the config is loaded.
    """

    compiled: tuple[re.Pattern[str], ...] = ()
    rejected: tuple[tuple[str, str], ...] = field(default=())

    def __bool__(self) -> bool:
        return bool(self.compiled)

    def match(self, text: str) -> bool:
        """Return whether a text mentions the agent."""
        visible = visible_text(text)
        return any(pattern.search(visible) for pattern in self.compiled)


def visible_text(text: str) -> str:
    """Return the beginning of a text without characters that nobody sees and that would hide a name."""
    return _INVISIBLE.sub("", text[: 2 * MAX_TEXT])[:MAX_TEXT]


def compile_patterns(patterns: Sequence[str]) -> MentionPatterns:
    """Compile what can be run safely; an empty list means that no pattern mentions the agent."""
    compiled, rejected = [], []
    for pattern in patterns:
        try:
            compiled.append(compile_pattern(pattern))
        except UnsafePattern as error:
            rejected.append((pattern, str(error)))
    return MentionPatterns(tuple(compiled), tuple(rejected))


def patterns_of(configured: Sequence[str] | None, name: str = "", emoji: str = "") -> MentionPatterns:
    """Return an agent's patterns: the configured ones, or those that follow from its name and emoji."""
    return compile_patterns(configured) if configured is not None else identity_patterns(name, emoji)


def identity_patterns(name: str, emoji: str = "") -> MentionPatterns:
    """Return patterns for an agent's name (a whole word, perhaps after `@`) and its emoji."""
    found = []
    words = [re.escape(word) for word in visible_text(name).split()]
    if words:
        found.append(re.compile(r"(?<!\w)@?" + r"\s{1,8}".join(words) + r"(?!\w)", re.IGNORECASE))
    if visible_text(emoji).strip():
        found.append(re.compile(re.escape(visible_text(emoji).strip())))
    return MentionPatterns(tuple(found))


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return a pattern in a form whose cost is bounded.

    Raises:
        UnsafePattern: It is not a regular expression, or it could take very long.
    """
    if len(pattern) > MAX_PATTERN:
        raise UnsafePattern(f"longer than {MAX_PATTERN} characters")
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            re.compile(pattern)
            return re.compile(_bounded(pattern), re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as error:
        raise UnsafePattern(f"not a regular expression: {error}") from error


@dataclass(slots=True)
class _Group:
    is_plain: bool = True
    branches: int = 1


def _bounded(pattern: str) -> str:
    """Return `pattern` with every repetition bounded, or raise UnsafePattern.

    The ways in which parts can match multiply; their product bounds what one position of the text can cost.
    """
    written: list[str] = []
    groups = [_Group()]
    closed: _Group | None = None
    is_repeat, cost = False, 1
    for token in _TOKEN.finditer(pattern):
        text, last, closed = token.group(), closed, None
        was_repeat, is_repeat = is_repeat, bool(token["repeat"] or token["optional"])
        if token["escape"] and text[1] in "123456789":
            raise UnsafePattern("refers back to a group")
        if token["open"]:
            groups.append(_Group())
        elif token["close"] and len(groups) > 1:
            closed = groups.pop()
            groups[-1].is_plain &= closed.is_plain and closed.branches == 1
            cost *= closed.branches
        elif text == "|":
            groups[-1].branches += 1
        elif token["repeat"] and text != "{}":
            if was_repeat or (last is not None and not (last.is_plain and last.branches == 1)):
                raise UnsafePattern("repeats something that itself repeats or branches")
            low, high = _bounds(token)
            groups[-1].is_plain = False
            cost *= high - low + 1
            text = f"{{{low},{high}}}{token['lazy']}"
        elif token["optional"]:
            groups[-1].is_plain = False
            cost *= 2
        written.append(text)
    if cost > MAX_COST:
        raise UnsafePattern("has too many repetitions, optional parts or alternatives")
    return "".join(written)


def _bounds(token: re.Match[str]) -> tuple[int, int]:
    """Return how often a repetition may happen; an open end is closed at REPEAT_BOUND more."""
    sign = token.group("repeat")
    if sign in "*+":
        return (0 if sign == "*" else 1), REPEAT_BOUND
    low = int(token["low"] or 0)
    high = int(token["high"]) if token["high"] else (low + REPEAT_BOUND if token["comma"] else low)
    if high > MAX_COUNT:
        raise UnsafePattern(f"repeats more than {MAX_COUNT} times")
    return low, high
