"""Spelling rules for the names that routing compares: agents, accounts, channels and peers.

The rules are those of the `openclaw.json` format, so that a config keeps its meaning when it is moved here.
"""

from __future__ import annotations

import re
from typing import Final

DEFAULT_AGENT: Final = "main"
DEFAULT_ACCOUNT: Final = "default"
MAX_ID_LENGTH: Final = 64

_SPACE: Final = "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a" + (
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_PLAIN_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NOT_ID: Final = re.compile(r"[^a-z0-9_-]+")
_RESERVED_ACCOUNTS: Final = frozenset({"__proto__", "constructor", "prototype"})
_CHANNEL_ALIASES: Final = {
    "imsg": "imessage",
    "gchat": "googlechat",
    "google-chat": "googlechat",
    "teams": "msteams",
    "lark": "feishu",
    "internet-relay-chat": "irc",
}


def trim(text: str) -> str:
    """Return `text` without the white space that ECMAScript's `String.prototype.trim` takes away."""
    return text.strip(_SPACE)


def fold(text: str | None) -> str:
    """Return `text` trimmed and in lower case; None reads as blank."""
    return trim(text or "").lower()


def optional_agent_id(value: str | None) -> str | None:
    """Return the canonical form of an agent id, or None when nothing usable is left of it."""
    folded = fold(value)
    if _PLAIN_ID.fullmatch(folded):
        return folded
    # Stripping comes before cutting, so a cut id may end in a dash; configs in the field rely on it.
    return _NOT_ID.sub("-", folded).strip("-")[:MAX_ID_LENGTH] or None


def agent_id(value: str | None) -> str:
    """Return the canonical form of an agent id; `main` when nothing usable is left."""
    return optional_agent_id(value) or DEFAULT_AGENT


def optional_account_id(value: str | None) -> str | None:
    """Return the canonical form of an account id, or None when nothing usable is left of it."""
    account = optional_agent_id(value)
    return None if account in _RESERVED_ACCOUNTS else account


def account_id(value: str | None) -> str:
    """Return the canonical form of an account id; `default` when nothing usable is left."""
    return optional_account_id(value) or DEFAULT_ACCOUNT


def main_key(value: str | None) -> str:
    """Return the last part of an agent's main session key; `main` when blank."""
    return fold(value) or DEFAULT_AGENT


def message_channel(value: str | None) -> str | None:
    """Return a channel name with its spelling variants resolved, or None when blank.

    Routing itself does not use this: a binding names its channel exactly.
    """
    folded = fold(value)
    return _CHANNEL_ALIASES.get(folded, folded) or None


def peer_kind(value: str | None) -> str:
    """Return a peer kind in its canonical spelling; `dm` is the old name of `direct`."""
    folded = fold(value)
    return "direct" if folded == "dm" else folded
