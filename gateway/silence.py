"""The two words by which a model says that it has nothing to say: `NO_REPLY` and `HEARTBEAT_OK`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

SILENT: Final = "NO_REPLY"
HEARTBEAT_ACK: Final = "HEARTBEAT_OK"

_EDGE: Final = r"[\s*_~\"'“”‘’.,;!?()\[\]{}<>«»…]"
_ALONE: Final = re.compile(rf"{_EDGE}*{SILENT}(?:{_EDGE}+{SILENT})*{_EDGE}*", re.IGNORECASE)
_LEADING: Final = re.compile(rf"\A\s*{SILENT}(?:\s+{SILENT})*(?:[ \t]*[\r\n]\s*|(?=[^\W_]))", re.IGNORECASE)
_THOUGHT: Final = re.compile(r"<(think(?:ing)?|thought)\b[^>]*>.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_MARKUP: Final = "*`~_"
_TAG: Final = re.compile(r"<[^>]*>|&nbsp;", re.IGNORECASE)
_ACK_AT_END: Final = re.compile(rf"{HEARTBEAT_ACK}\W{{0,4}}$")
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_EMPTY_LINE: Final = re.compile(r"#{1,6}(?:\s.*)?|[-*+]\s*(?:\[[ xX]?\])?\s*|`{3,}\w*|~{3,}\w*|")


def is_silent_text(text: str) -> bool:
    """Return whether a text is nothing but the silent word, perhaps in markup or several times.

    In backticks it is talked about, not said.
    """
    return _ALONE.fullmatch(text) is not None


def is_silent_payload(text: str) -> bool:
    """Return whether a whole reply means silence: the word itself, after hidden thoughts, or as an action object."""
    if SILENT not in text.upper():
        return False
    spoken = _THOUGHT.sub("", text)
    return is_silent_text(spoken) or _is_silent_action(spoken)


def _is_silent_action(text: str) -> bool:
    stripped = text.strip()
    if not stripped.startswith("{") or len(stripped) > 200:
        return False
    try:
        said = json.loads(stripped)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and set(said) == {"action"} and is_action_silent(said["action"])


def is_action_silent(action: object) -> bool:
    """Return whether an action's name is the silent word."""
    return isinstance(action, str) and action.strip().upper() == SILENT


def is_rule_only(text: str) -> bool:
    """Return whether a text consists of box-drawing lines, a decoration that models leave behind."""
    drawn = "".join(text.split())
    return bool(drawn) and all("\u2500" <= sign <= "\u257f" for sign in drawn)


def is_silent_prefix(text: str) -> bool:
    """Return whether a reply that is still being written may turn out to be the silent word.

    Only capitals: `no` is the beginning of many answers.
    """
    begun = text.lstrip()
    return len(begun) >= 2 and SILENT.startswith(begun)


def strip_silent(text: str) -> str:
    """Return a reply without the silent word at its beginning (on a line of its own or glued on) or end."""
    rest = _LEADING.sub("", text, count=1).strip()
    if not rest.upper().endswith(SILENT):
        return rest
    head = rest[: -len(SILENT)]
    if head and not head[-1].isspace() and head[-1] != "*":
        return rest
    return head.rstrip().rstrip("*").rstrip()


@dataclass(frozen=True, slots=True)
class HeartbeatStrip:
    """A reply without the heartbeat word.

    Attributes:
        is_silent: Nothing worth sending is left.
        was_stripped: The word was there.
    """

    text: str
    is_silent: bool
    was_stripped: bool


def strip_heartbeat(text: str, max_ack_chars: int | None = None) -> HeartbeatStrip:
    """Return a reply without the heartbeat word at its edges; inside a sentence it stays.

    Args:
        max_ack_chars: In a heartbeat run, up to how many characters beside the word still count as nothing;
            None outside heartbeat runs.
    """
    trimmed = text.strip()
    if not trimmed:
        return HeartbeatStrip("", True, False)
    rest = _strip_edges(trimmed)
    if not rest:
        plain = _TAG.sub(" ", trimmed).strip().strip(_MARKUP).strip()
        rest = _strip_edges(plain) if rest is None and plain != trimmed else rest
    if rest is not None and not rest.strip(_MARKUP + " "):
        rest = ""
    if rest is None:
        return HeartbeatStrip(trimmed, False, False)
    if not rest or (max_ack_chars is not None and len(rest) <= max_ack_chars):
        return HeartbeatStrip("", True, True)
    return HeartbeatStrip(rest, False, True)


def _strip_edges(text: str) -> str | None:
    """Return `text` without the word at either end, or None when it is at neither."""
    rest, found = text, False
    while True:
        if rest.startswith(HEARTBEAT_ACK):
            rest, found = rest[len(HEARTBEAT_ACK) :].lstrip(), True
        elif (end := _ACK_AT_END.search(rest)) is not None:
            after = rest[end.start() + len(HEARTBEAT_ACK) :].strip()
            rest, found = f"{rest[: end.start()].rstrip()}{after}", True
        else:
            return rest if found else None


def is_scratch_empty(content: str | None) -> bool:
    """Return whether a heartbeat file asks for nothing: headings, comments, fences and empty list items only."""
    if content is None:
        return False
    lines = _COMMENT.sub("", content).splitlines()
    return all(_EMPTY_LINE.fullmatch(line.strip()) is not None for line in lines)
