"""How a session is shown."""

from __future__ import annotations

from typing import Any

from tidegate.gateway.cli.sessions import _session
from tidegate.gateway.cli.terminal import Style

PLAIN = Style(colour=False)


def shown(*messages: dict[str, Any]) -> str:
    """Return a session with these messages as it is printed."""
    known = {"tools": [], "is_error": False}
    about = {"key": "agent:main:main", "agent": "main", "running": False, "waiting": 0}
    data = {**about, "conversation": "c", "conversations": [], "messages": [{**known, **row} for row in messages]}
    return "\n".join(_session(data, PLAIN))


def test_a_cut_answer_and_a_failure_do_not_look_like_whole_ones() -> None:
    text = shown(
        {"role": "user", "text": "one", "ended": "failed", "told": "No key.\x1b[31m"},
        {"role": "assistant", "text": "half an ans", "ended": "stopped", "told": ""},
    )
    assert text.index("one") < text.index("✗ no answer came: No key.") < text.index("half an ans")
    assert text.endswith("half an ans\n[stopped here]")
    assert "\x1b[31m" not in text


def test_what_an_older_gateway_tells_is_shown_as_it_is() -> None:
    assert shown({"role": "user", "text": "one"}).endswith("user\none")
