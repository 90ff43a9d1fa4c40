"""One line of typing: a pure editor that turns the bytes of a terminal in raw mode into finished lines.

Written here, not taken from `readline`, because that one blocks a thread and cannot share the screen with an
answer that arrives meanwhile.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from enum import Enum

MAX_HISTORY = 500
MAX_LINE = 1_000_000

_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O[A-Za-z]|[^\[O])")
_PASTE_BEGIN, _PASTE_END = "\x1b[200~", "\x1b[201~"
_KEYS = {
    "\x1b[D": "left",
    "\x1bOD": "left",
    "\x1b[C": "right",
    "\x1bOC": "right",
    "\x1b[A": "older",
    "\x1bOA": "older",
    "\x1b[B": "newer",
    "\x1bOB": "newer",
    "\x1b[H": "home",
    "\x1bOH": "home",
    "\x1b[1~": "home",
    "\x1b[F": "end",
    "\x1bOF": "end",
    "\x1b[4~": "end",
    "\x1b[3~": "delete",
    "\x1bb": "word_left",
    "\x1b[1;5D": "word_left",
    "\x1bf": "word_right",
    "\x1b[1;5C": "word_right",
    "\x01": "home",
    "\x02": "left",
    "\x05": "end",
    "\x06": "right",
    "\x08": "erase",
    "\x0b": "cut_rest",
    "\x0e": "newer",
    "\x10": "older",
    "\x15": "cut_all",
    "\x17": "cut_word",
    "\x7f": "erase",
}


class Key(Enum):
    """What a terminal says besides text."""

    LEAVE = "leave"
    """Ctrl-C, or Ctrl-D on an empty line."""
    REDRAW = "redraw"
    """Ctrl-L."""


class LineEditor:
    """Keeps the line, the place in it and the history.

    Attributes:
        text: What is typed so far; a pasted text may hold line breaks.
        at: Where in `text` the next character goes.
    """

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self._history: list[str] = []
        self._shown = 0
        self._draft = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._pasting = False

    def feed(self, data: bytes) -> Iterator[str | Key]:
        """Take what the terminal sent; yields finished lines and special keys, in order."""
        self._pending += self._decoder.decode(data)
        while self._pending:
            if self._pasting:
                if not self._paste():
                    return
                continue
            token = self._token()
            if token is None:
                return
            if (result := self._take(token)) is not None:
                yield result

    def _paste(self) -> bool:
        """Take pasted text up to its end; False while the end is still to come."""
        body, found, rest = self._pending.partition(_PASTE_END)
        if not found:
            # The end mark itself may be cut in two; what could be its beginning stays.
            keep = next((n for n in range(len(_PASTE_END) - 1, 0, -1) if body.endswith(_PASTE_END[:n])), 0)
            body, rest = body[: len(body) - keep], body[len(body) - keep :]
        self._insert(body.replace("\r\n", "\n").replace("\r", "\n"))
        self._pending, self._pasting = rest, not found
        return bool(found)

    def _token(self) -> str | None:
        """Take one character or one escape sequence off the front; None when a sequence is incomplete."""
        if self._pending[0] != "\x1b":
            token, self._pending = self._pending[0], self._pending[1:]
            return token
        match = _SEQUENCE.match(self._pending)
        if match is None:
            if len(self._pending) > 32:
                self._pending = self._pending[1:]
                return ""
            return None
        self._pending = self._pending[match.end() :]
        return match.group()

    def _take(self, token: str) -> str | Key | None:
        if token == _PASTE_BEGIN:
            self._pasting = True
            return None
        if token in ("\r", "\n"):
            return self._finish()
        if token == "\x03" or (token == "\x04" and not self.text):
            return Key.LEAVE
        if token == "\x04":
            self._delete()
        elif token == "\x0c":
            return Key.REDRAW
        elif token in _KEYS:
            self._actions()[_KEYS[token]]()
        elif token == "\t" or (token and token.isprintable()):
            self._insert(token)
        return None

    def _actions(self) -> dict[str, Callable[[], None]]:
        return {
            "left": lambda: self._move(self.at - 1),
            "right": lambda: self._move(self.at + 1),
            "home": lambda: self._move(0),
            "end": lambda: self._move(len(self.text)),
            "word_left": lambda: self._move(self._word_start()),
            "word_right": lambda: self._move(self._word_end()),
            "older": lambda: self._recall(-1),
            "newer": lambda: self._recall(1),
            "erase": lambda: self._cut(self.at - 1, self.at),
            "delete": self._delete,
            "cut_rest": lambda: self._cut(self.at, len(self.text)),
            "cut_all": lambda: self._cut(0, self.at),
            "cut_word": lambda: self._cut(self._word_start(), self.at),
        }

    def _move(self, to: int) -> None:
        self.at = max(0, min(to, len(self.text)))

    def _insert(self, text: str) -> None:
        text = text[: MAX_LINE - len(self.text)]
        self.text = self.text[: self.at] + text + self.text[self.at :]
        self.at += len(text)

    def _cut(self, start: int, end: int) -> None:
        start = max(0, start)
        self.text = self.text[:start] + self.text[end:]
        self.at = start

    def _delete(self) -> None:
        self.text = self.text[: self.at] + self.text[self.at + 1 :]

    def _word_start(self) -> int:
        at = len(self.text[: self.at].rstrip())
        return max(self.text.rfind(" ", 0, at), self.text.rfind("\n", 0, at)) + 1

    def _word_end(self) -> int:
        match = re.compile(r"\s*\S*").match(self.text, self.at)
        return match.end() if match else self.at

    def _recall(self, step: int) -> None:
        to = self._shown + step
        if not 0 <= to <= len(self._history):
            return
        if self._shown == len(self._history):
            self._draft = self.text
        self._shown = to
        self.text = self._draft if to == len(self._history) else self._history[to]
        self.at = len(self.text)

    def _finish(self) -> str:
        line = self.text
        if line.strip() and (not self._history or self._history[-1] != line):
            self._history = [*self._history, line][-MAX_HISTORY:]
        self._shown, self._draft, self.text, self.at = len(self._history), "", "", 0
        return line
