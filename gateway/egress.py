"""The one filter that every reply passes before it may reach a platform.

It takes away what was not meant for people (thoughts, wrapper tags), turns the words for silence into silence,
and adds the configured prefix. Streams pass `visible_so_far`, which never shows what the whole reply would not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tidegate.gateway.silence import (
    HEARTBEAT_ACK,
    SILENT,
    is_rule_only,
    is_silent_payload,
    strip_heartbeat,
    strip_silent,
)

_CODE: Final = re.compile(r"(?P<fence>```|~~~).*?(?:(?P=fence)|\Z)|`[^`\n]*`", re.DOTALL)
_THINK: Final = r"(?:antml:)?(?:think(?:ing)?|thought|reasoning)"
_TAG: Final = re.compile(rf"<\s*(?P<close>/?)\s*(?:(?P<think>{_THINK})|final)\b[^<>]*>", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"\{([a-z.]+)\}", re.IGNORECASE)
_DATE_OR_LATEST: Final = re.compile(r"-(?:\d{8}|latest)$")
_LONGEST_TAG: Final = 64
_OPENING: Final = "*_(\"'"


class SuppressReason(StrEnum):
    """Why a reply is not sent."""

    EMPTY = "empty"
    SILENT = "silent"
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True, slots=True)
class Deliver:
    """What is sent; `text` may be empty when there are media."""

    text: str


@dataclass(frozen=True, slots=True)
class Suppress:
    """Nothing is sent."""

    reason: SuppressReason


@dataclass(frozen=True, slots=True)
class EgressRules:
    """What one reply is subject to.

    Attributes:
        prefix: Put before the text unless it already begins with it; empty for none.
        is_heartbeat: The reply ends a heartbeat run.
        max_ack_chars: In a heartbeat run, how much text beside the acknowledgement still counts as nothing.
        has_media: Files go with the text.
    """

    prefix: str = ""
    is_heartbeat: bool = False
    max_ack_chars: int = 0
    has_media: bool = False


def filter_reply(text: str, rules: EgressRules | None = None) -> Deliver | Suppress:
    """Return what of a finished reply is sent."""
    return normalize_reply(strip_thoughts(text), rules)


def visible(text: str) -> str:
    """Return what of a finished reply people see."""
    outcome = filter_reply(text)
    return outcome.text if isinstance(outcome, Deliver) else ""


def normalize_reply(text: str, rules: EgressRules | None = None) -> Deliver | Suppress:
    """Return what of a reply is sent once its thoughts are gone: silence stays silence, the rest gets the prefix."""
    asked = rules or EgressRules()
    if not text.strip():
        return _nothing(SuppressReason.EMPTY, asked)
    if is_silent_payload(text):
        return _nothing(SuppressReason.SILENT, asked)
    if is_rule_only(text):
        return Deliver(text) if asked.has_media else Suppress(SuppressReason.SILENT)
    spoken, was_acknowledged = _without_words(text)
    if not spoken:
        return _nothing(SuppressReason.HEARTBEAT if was_acknowledged else SuppressReason.SILENT, asked)
    # A full stop beside the word says nothing either.
    says_nothing = len(spoken) <= asked.max_ack_chars or not any(map(str.isalnum, spoken))
    if was_acknowledged and asked.is_heartbeat and says_nothing:
        return _nothing(SuppressReason.HEARTBEAT, asked)
    return Deliver(with_prefix(spoken, asked.prefix))


def _without_words(text: str) -> tuple[str, bool]:
    """Return a text without the silent words at its edges, however they are nested, and whether one was the ack."""
    was_acknowledged = False
    while True:
        rest = strip_silent(text) if SILENT in text.upper() else text
        if HEARTBEAT_ACK in rest:
            stripped = strip_heartbeat(rest)
            rest, was_acknowledged = stripped.text, was_acknowledged or stripped.was_stripped
        if rest == text:
            return text, was_acknowledged
        text = "" if is_silent_payload(rest) else rest


def _nothing(reason: SuppressReason, rules: EgressRules) -> Deliver | Suppress:
    return Deliver("") if rules.has_media else Suppress(reason)


def strip_thoughts(text: str) -> str:
    """Return a reply without thinking blocks and without the tags around its final part.

    Tags in code are content. A block that is never closed is a thought unless there is nothing else: a reply that
    consists of one open tag was mislabelled, and losing it would be worse than showing it.
    """
    if "<" not in text:
        return text
    spoken, is_open = _spoken(text)
    if is_open and not spoken.strip():
        return _TAG.sub("", text).strip()
    return spoken.strip() if spoken != text else text


def _spoken(text: str) -> tuple[str, bool]:
    """Return the text outside thinking blocks, and whether the last block is still open."""
    code = [found.span() for found in _CODE.finditer(text)]
    kept: list[str] = []
    at, depth = 0, 0
    for tag in _TAG.finditer(text):
        if any(start <= tag.start() < end for start, end in code):
            continue
        if depth == 0:
            kept.append(text[at : tag.start()])
        at = tag.end()
        if tag["think"]:
            depth = max(0, depth - 1) if tag["close"] else depth + 1
    if depth == 0:
        kept.append(text[at:])
    return "".join(kept), depth > 0


def visible_so_far(text: str) -> str:
    """Return what of a reply that is still being written may be shown.

    Held back: open thoughts, a tag that has only begun, and an end that may become one of the silent words. What
    was shown once is not taken back by later text, except that a reply may still turn out longer.
    """
    spoken, _ = _spoken(text)
    begun = spoken.rfind("<")
    if begun >= 0 and ">" not in spoken[begun:] and len(spoken) - begun <= _LONGEST_TAG:
        spoken = spoken[:begun]
    if is_silent_payload(spoken) or is_rule_only(spoken):
        return ""
    shown, before = spoken.strip(), None
    while shown != before:
        before, shown = shown, _hold_back(_without_words(shown)[0])
    # "NO_REPLY: nothing to add" is delivered in the end, but nobody can know that yet.
    return "" if shown.lstrip(_OPENING).startswith(SILENT) else shown


def _hold_back(text: str) -> str:
    """Return `text` without an end that is a proper beginning of a silent word, or a silent word with its edges."""
    bare = text.rstrip("*_.)\"' ")
    for word in (SILENT, HEARTBEAT_ACK):
        for length in range(len(word), 1, -1):
            begin = len(bare) - length
            is_word_start = begin == 0 or not (bare[begin - 1 : begin].isalnum() or bare[begin - 1 : begin] == "_")
            if begin >= 0 and bare.endswith(word[:length]) and is_word_start:
                return bare[:begin].rstrip().rstrip(_OPENING).rstrip()
    return text


def with_prefix(text: str, prefix: str) -> str:
    """Return a text with its prefix before it, once, joined by a space."""
    if not prefix or not text or text.startswith(prefix):
        return text
    return f"{prefix} {text}"


@dataclass(frozen=True, slots=True)
class PrefixContext:
    """What a prefix may name; None where it is not known, which leaves the variable as it is written."""

    model: str | None = None
    model_full: str | None = None
    provider: str | None = None
    thinking_level: str | None = None
    identity_name: str | None = None


def resolve_prefix(template: str, context: PrefixContext) -> str:
    """Return a prefix with its variables filled in; unknown variables stay as they are."""
    values = {
        "model": context.model,
        "modelfull": context.model_full,
        "provider": context.provider,
        "thinkinglevel": context.thinking_level,
        "think": context.thinking_level,
        "identity.name": context.identity_name,
        "identityname": context.identity_name,
    }
    return _VARIABLE.sub(lambda found: values.get(found[1].lower()) or found[0], template)


def prefix_template(*layers: str | None, identity_name: str | None = None) -> str:
    """Return the template in force: the first of account, channel and messages that is set; `""` ends the search.

    `auto` stands for the agent's name in brackets.
    """
    chosen = next((layer for layer in layers if layer is not None), "")
    if chosen != "auto":
        return chosen
    return f"[{identity_name}]" if identity_name else ""


def short_model_name(model: str) -> str:
    """Return a model's name without its provider and without a trailing date or `-latest`."""
    return _DATE_OR_LATEST.sub("", model.rsplit("/", 1)[-1])
