"""Holds back text that a person must not see: inline reasoning, and tool calls written as text."""

from __future__ import annotations

from enum import Enum

from tidegate.agent_runtime.models.base import OnText

_THINK, _THINK_END = "<think>", "</think>"
_CALL_STARTS = ("<tool_call>", "<function=", "[TOOL_CALLS]", "{", "```json\n{", "```\n{")


class _State(Enum):
    """What to do with the next piece."""

    UNDECIDED = "undecided"
    THINKING = "thinking"
    HOLDING = "holding"
    OPEN = "open"


class VisibleText:
    """Collects the text of one message and passes on what may be shown while it arrives.

    Args:
        hold_calls: Hold back a message that begins like a tool call until it is whole.
    """

    def __init__(self, on_text: OnText, *, hold_calls: bool) -> None:
        self._on_text = on_text
        self._starts = _CALL_STARTS if hold_calls else ()
        self._state = _State.UNDECIDED
        self._parts: list[str] = []

    def add(self, piece: str) -> None:
        """Take more text."""
        self._parts.append(piece)
        match self._state:
            case _State.OPEN:
                self._on_text(piece)
            case _State.THINKING:
                self._skip_thinking()
            case _State.UNDECIDED:
                self._decide()

    def _decide(self) -> None:
        """Look at how the message begins; it may take a few pieces to tell."""
        text = "".join(self._parts).lstrip()
        self._parts = [text]
        if text.startswith(_THINK):
            self._state = _State.THINKING
            self._skip_thinking()
        elif text.startswith(self._starts):
            self._state = _State.HOLDING
        elif text and not any(start.startswith(text) for start in (_THINK, *self._starts)):
            self._open()

    def _skip_thinking(self) -> None:
        """Drop reasoning; keep only what may be the beginning of its end."""
        text = "".join(self._parts)
        _, end, after = text.partition(_THINK_END)
        self._parts = [after if end else text[-len(_THINK_END) :]]
        if end:
            self._state = _State.UNDECIDED
            self._decide()

    def _open(self) -> None:
        self._state = _State.OPEN
        text = "".join(self._parts)
        self._parts = [text]
        self._on_text(text)

    def held(self) -> str:
        """Return what is held back; reasoning without an end is nothing."""
        return "".join(self._parts) if self._state in (_State.HOLDING, _State.UNDECIDED) else ""

    def release(self) -> None:
        """Show what was held back after all."""
        if self.held():
            self._open()

    def text(self) -> str:
        """Return everything that was shown."""
        return "".join(self._parts) if self._state is _State.OPEN else ""
