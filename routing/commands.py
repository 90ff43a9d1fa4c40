"""Commands in chat: what counts as one, and what it says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tidegate.routing.command_table import ABORT_WORDS, BY_SPELLING, CommandSpec
from tidegate.routing.normalize import fold, trim

_COMMAND: Final = re.compile(r"/(?P<name>[^\s:@]+)(?:@(?P<bot>[^\s:]+))?(?::[ \t]*|(?=\s)|$)(?P<rest>.*)", re.DOTALL)
_INLINE: Final = re.compile(r"(?:^|\s)[/!][a-z]", re.IGNORECASE)
_ACTIVATION: Final = re.compile(r"/activation(?:\s+(?P<mode>[a-z]+))?\s*", re.IGNORECASE)
_TRAILING: Final = ".!?…,;:'\"’”)]}，。！？；：、 \t\r\n"


@dataclass(frozen=True, slots=True)
class Command:
    """A command that somebody sent.

    Attributes:
        name: Canonical, without the slash.
        argument: The text after it, trimmed, with its line breaks.
        is_supported: False for a command that we only recognise.
    """

    name: str
    argument: str = ""
    is_supported: bool = True


class Activation(StrEnum):
    """When an agent answers in a group."""

    MENTION = "mention"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class ActivationCommand:
    """An `/activation`; `mode` is None when it does not say which, or not one that exists."""

    mode: Activation | None


def _parse(text: str, bot_username: str | None) -> tuple[CommandSpec, str] | None:
    found = _COMMAND.fullmatch(trim(text))
    if found is None:
        return None
    # A command addressed to another bot is not ours; one with a name we cannot check is not either.
    if found["bot"] is not None and fold(found["bot"]) != fold(bot_username).removeprefix("@"):
        return None
    spec, rest = BY_SPELLING.get(found["name"].lower()), trim(found["rest"])
    if spec is None or (rest and not spec.takes_arguments):
        return None
    return spec, rest


def parse_command(text: str, bot_username: str | None = None) -> Command | None:
    """Return the command that a message is, or None when it is ordinary text.

    Args:
        bot_username: Our own name on the platform, so that `/status@ourbot` is understood.
    """
    parsed = _parse(text, bot_username)
    return None if parsed is None else Command(parsed[0].name, parsed[1], parsed[0].is_supported)


def normalize_command_body(text: str, bot_username: str | None = None) -> str:
    """Return a command in its canonical spelling, and any other text trimmed."""
    parsed = _parse(text, bot_username)
    if parsed is not None:
        spec, rest = parsed
        return f"/{spec.name} {rest}" if rest else f"/{spec.name}"
    return trim(text)


def has_control_command(text: str, bot_username: str | None = None) -> bool:
    """Return whether a message is a command of any kind."""
    return _parse(text, bot_username) is not None


def is_abort_request(text: str, bot_username: str | None = None) -> bool:
    """Return whether a whole message is one of the words that stop the agent, in any of several languages."""
    body = fold(normalize_command_body(text, bot_username)).replace("’", "'")
    return " ".join(body.rstrip(_TRAILING).split()) in ABORT_WORDS


def is_control_command_message(text: str, bot_username: str | None = None) -> bool:
    """Return whether a message steers the agent instead of talking to it."""
    return has_control_command(text, bot_username) or is_abort_request(text, bot_username)


def has_inline_command_tokens(text: str) -> bool:
    """Return whether anything in a text looks like a command; a cheap test before a closer look."""
    return _INLINE.search(text) is not None


def parse_activation(text: str, bot_username: str | None = None) -> ActivationCommand | None:
    """Return the `/activation` that a message is, or None."""
    found = _ACTIVATION.fullmatch(normalize_command_body(text, bot_username))
    if found is None:
        return None
    mode = (found["mode"] or "").lower()
    return ActivationCommand(Activation(mode) if mode in set(Activation) else None)
