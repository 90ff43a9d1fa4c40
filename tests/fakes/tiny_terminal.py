"""A terminal emulator that knows just what the chat's screen uses; anything else is an error."""

from __future__ import annotations

import io
import re
import unicodedata

_SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


class TinyTerminal(io.StringIO):
    """Keeps rows of text as a person would see them, without colours; a row never wraps by itself."""

    def __init__(self, columns: int = 80) -> None:
        super().__init__()
        self.columns = columns
        self._rows: list[list[str]] = [[]]
        self._row = self._column = 0

    @property
    def rows(self) -> list[str]:
        return ["".join(row).rstrip() for row in self._rows]

    @property
    def text(self) -> str:
        return "\n".join(self.rows).rstrip("\n")

    def write(self, text: str) -> int:
        at = 0
        while at < len(text):
            match = _SEQUENCE.match(text, at)
            if match is not None:
                self._control(match[1], match[2])
                at = match.end()
                continue
            self._put(text[at])
            at += 1
        return len(text)

    def _put(self, char: str) -> None:
        if char == "\n":
            self._row, self._column = self._row + 1, 0
            while len(self._rows) <= self._row:
                self._rows.append([])
        elif char == "\r":
            self._column = 0
        else:
            assert unicodedata.category(char) not in ("Cc", "Cs"), f"the screen wrote {char!r}"
            row = self._rows[self._row]
            row.extend(" " * (self._column + 1 - len(row)))
            row[self._column] = char
            self._column += 1

    def _control(self, parameters: str, command: str) -> None:
        if command == "A":
            self._row -= int(parameters)
            assert self._row >= 0, "the screen moved above its first row"
        elif command == "D":
            self._column -= int(parameters)
            assert self._column >= 0
        elif command == "J" and parameters == "":
            self._rows[self._row] = self._rows[self._row][: self._column]
            del self._rows[self._row + 1 :]
        else:
            assert command == "m" or parameters in ("?2004", "?2004")
