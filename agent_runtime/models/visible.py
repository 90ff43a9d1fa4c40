"""Holds back text that a person must not see: inline reasoning, and tool calls written as text."""

from __future__ import annotations

from tidegate.agent_runtime.models.base import OnText

_THINK, _THINK_END = "<think>", "</think>"
_CALL_STARTS = ("<tool_call>", "<function=", "[TOOL_CALLS]", '{"name"', "{", "```json\n{", "```\n{")


class VisibleText:
    """Collects the text of one message and passes on what may be shown while it arrives.

    Args:
        hold_calls: Hold back a message that begins like a tool call until it is whole.
    """

    def __init__(self, on_text: OnText, *, hold_calls: bool) -> None:
        self._on_text = on_text
        self._starts = (_THINK, *_CALL_STARTS) if hold_calls else (_THINK,)
        self._held = ""
        self._shown: list[str] = []
        self._open = False
        self._thinking = False

    def add(self, piece: str) -> None:
        """Take more text."""
        if self._open:
            self._shown.append(piece)
            self._on_text(piece)
            return
        self._held += piece
        if self._thinking and not self._skip_thinking():
            return
        text = self._held.lstrip()
        if not text or any(start.startswith(text) for start in self._starts):
            return
        if text.startswith(_THINK):
            self._thinking = True
            self._held = text
            if self._skip_thinking():
                self.add("")
            return
        if not text.startswith(self._starts):
            self._let_go(text)

    def _skip_thinking(self) -> bool:
        """Drop the reasoning if its end has come."""
        _, end, after = self._held.partition(_THINK_END)
        if not end:
            return False
        self._thinking = False
        self._held = after
        return True

    def _let_go(self, text: str) -> None:
        self._open = True
        self._held = ""
        if text:
            self._shown.append(text)
            self._on_text(text)

    def held(self) -> str:
        """Return what is still held back; reasoning without an end is nothing."""
        return "" if self._thinking else self._held

    def release(self) -> None:
        """Show what was held back after all."""
        held = self.held().lstrip()
        if held and not self._open:
            self._let_go(held)

    def text(self) -> str:
        """Return everything that was shown."""
        return "".join(self._shown)
