"""The chat's screen: what was said stays and scrolls; below it a preview of the answer and the line being typed."""

from __future__ import annotations

import os
import termios
import tty
from types import TracebackType
from typing import Any, Self, TextIO

from tidegate.gateway.cli.editor import LineEditor
from tidegate.gateway.cli.terminal import Style, fold, printable, width

PROMPT = "› "
_ERASE_BELOW = "\r\x1b[J"
_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


class Screen:
    """Owns the terminal while the chat is open; leaving gives it back as it was.

    Args:
        keys: Descriptor of the terminal that is typed at; None when there is none to be set up.
    """

    def __init__(self, style: Style, editor: LineEditor, output: TextIO, keys: int | None) -> None:
        self._style = style
        self._editor = editor
        self._output = output
        self._keys = keys
        self._saved: list[Any] | None = None
        self._is_open = False
        self._live = ""
        self._note = ""
        self._rows_above = 0

    def __enter__(self) -> Self:
        """Take single keys from the terminal."""
        if self._keys is not None:
            self._saved = termios.tcgetattr(self._keys)
            tty.setraw(self._keys, termios.TCSADRAIN)
            # Raw output would need a carriage return a line; only the input side is meant to be raw.
            mode = termios.tcgetattr(self._keys)
            mode[1] = self._saved[1]
            termios.tcsetattr(self._keys, termios.TCSADRAIN, mode)
        self._is_open = True
        self._write(_PASTE_ON)
        self.draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the terminal back."""
        self._live = self._note = ""
        self._write(self._up() + _ERASE_BELOW + _PASTE_OFF)
        self._rows_above = 0
        self._is_open = False
        if self._keys is not None and self._saved is not None:
            termios.tcsetattr(self._keys, termios.TCSADRAIN, self._saved)

    @property
    def columns(self) -> int:
        """How many columns there are now."""
        return self._size()[0]

    def say(self, text: str, *, is_folded: bool = False) -> None:
        """Print something that stays; long lines are broken between words unless the text has its rows already."""
        if not is_folded:
            text = "\n".join(fold(text, self.columns - 1, split=False))
        self._write(self._up() + _ERASE_BELOW + text + "\n")
        self._rows_above = 0
        self.draw()

    def preview(self, text: str) -> None:
        """Show the last lines of an answer that is still being written; empty takes them away."""
        self._live = printable(text).expandtabs(4)
        self.draw()

    def note(self, text: str) -> None:
        """Show one dim line above the prompt, such as what is being waited for; empty takes it away."""
        self._note = printable(text).expandtabs(4)
        self.draw()

    def clear(self) -> None:
        """Empty the screen, as Ctrl-L does."""
        self._write("\x1b[H\x1b[2J")
        self._rows_above = 0
        self.draw()

    def draw(self) -> None:
        """Draw what is below the lines that stay."""
        if not self._is_open:
            return
        columns, rows = self._size()
        above = fold(self._live, columns - 1)[-max(1, rows - 3) :] if self._live else []
        if self._note:
            above.append(self._style.dim(fold(self._note, columns - 1)[0]))
        prompt, cursor = self._prompt(columns)
        text = self._up() + _ERASE_BELOW + "".join(f"{row}\n" for row in above) + prompt
        back = width(prompt) - cursor
        self._write(text + (f"\x1b[{back}D" if back > 0 else ""))
        self._rows_above = len(above)

    def _prompt(self, columns: int) -> tuple[str, int]:
        """Return the row being typed and the cursor's column; a long line is shown around the cursor."""
        before = printable(self._editor.text[: self._editor.at]).replace("\n", "⏎").replace("\t", " ")
        after = printable(self._editor.text[self._editor.at :]).replace("\n", "⏎").replace("\t", " ")
        room = max(8, columns - width(PROMPT) - 1)
        while width(before) > room:
            before = before[max(1, len(before) - room) :]
        while after and width(before) + width(after) > room:
            after = after[: max(0, min(len(after) - 1, room - width(before)))]
        return self._style.paint(PROMPT, "bold", "blue") + before + after, width(PROMPT) + width(before)

    def _up(self) -> str:
        return f"\x1b[{self._rows_above}A" if self._rows_above else ""

    def _size(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(self._output.fileno())
        except OSError:
            return 80, 24
        return max(20, size.columns), max(4, size.lines)

    def _write(self, text: str) -> None:
        self._output.write(text)
        self._output.flush()
