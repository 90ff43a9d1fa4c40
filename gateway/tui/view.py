"""How it looks: rows of text with colours, as wide as the terminal. What others wrote can do nothing but be read."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from tidegate.gateway.cli.markdown import render
from tidegate.gateway.cli.terminal import Style, fold, printable, width
from tidegate.gateway.tui.entries import Entry, Kind, Row, Step
from tidegate.gateway.tui.model import Model

_PIECES = re.compile(r"\x1b\[[0-9;]*m|.", re.DOTALL)
MAX_KEPT = 4_000
"""Entries whose rows are kept."""
MAX_GROWING = 20_000
"""Characters that are drawn of an answer that still grows: its end."""
LIST_COLUMNS = 24
LEAST_FOR_LIST = 70
"""Columns of a terminal that has room for the list of sessions beside the chat."""
_FATES = {
    Step.UNSENT: "not sent yet",
    Step.WAITING: "waits",
    Step.FAILED: "not sent",
    Step.ASIDE: "not answered: the stop set it aside",
}
HELP = (
    ("Enter", "send"),
    ("Alt-Enter, Ctrl-J", "a new line"),
    ("Esc", "stop the running answer"),
    ("Ctrl-C", "stop it; else clear what is typed; twice: leave"),
    ("Ctrl-D", "leave, on an empty line"),
    ("PgUp PgDn", "scroll; at the top older messages are loaded"),
    ("Ctrl-End", "back to the newest"),
    ("Alt-↓ Alt-↑", "next, previous session (also Ctrl-N, Ctrl-P)"),
    ("Ctrl-T", "a new session"),
    ("Ctrl-L", "draw the screen anew"),
    ("F1", "this help; F1 or Esc closes it"),
    ("F2", "list the sessions of API calls, or leave them out"),
    ("/help", "commands of the gateway: /new /stop /status /queue …"),
)


def shortened(text: str, room: int) -> str:
    """Return a plain text on one row of at most `room` columns."""
    line = " ".join(printable(text).split())
    if width(line) <= room:
        return line
    while line and width(line) > room - 1:
        line = line[:-1]
    return line + "…" if room > 0 else ""


def padded(text: str, room: int) -> str:
    """Return a row filled up with blanks."""
    return text + " " * max(0, room - width(text))


def clipped(row: str, room: int) -> str:
    """Return a row with its colours, cut where the terminal ends."""
    if width(row) <= room:
        return row
    found, used = "", 0
    for piece in _PIECES.findall(row):
        if not piece.startswith("\x1b"):
            used += width(piece)
            if used > room:
                continue
        found += piece
    return found


def session_name(key: str) -> str:
    """Return what people call a session that has no title."""
    parts = key.split(":", 2)
    rest = parts[2] if len(parts) == 3 and parts[0] == "agent" else key
    if rest.startswith("dashboard:"):
        return f"new {rest[-6:]}"
    return rest if len(parts) < 3 or parts[1] == "main" else f"{parts[1]}: {rest}"


def session_names(rows: Sequence[Row]) -> dict[str, tuple[str, str]]:
    """Return what each session is called, and a mark: `main`, and what tells those apart that are called the same."""
    called: dict[str, list[Row]] = {}
    for row in rows:
        called.setdefault(row.title or session_name(row.key), []).append(row)
    found = {}
    for name, alike in called.items():
        for row, mark in zip(alike, _marks(alike), strict=True):
            is_said = len(alike) == 1 and name == session_name(row.key)
            found[row.key] = (name, ("" if is_said else "main") if row.is_main else mark)
    return found


def _marks(alike: Sequence[Row]) -> list[str]:
    if len(alike) == 1:
        return [""]
    for form in ("%H:%M", "%d %b"):
        marks = [time.strftime(form, time.localtime(row.began / 1000)) for row in alike]
        if len(set(marks)) == len(marks):
            return marks
    return [row.key[-4:] for row in alike]


def lasted(milliseconds: int) -> str:
    """Return a duration for people."""
    seconds = max(0, milliseconds) / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class Painter:
    """Draws entries, and keeps what it drew while neither they nor the terminal change."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._kept: dict[int, tuple[Entry, tuple[int, int, Step], list[str]]] = {}

    def chat(self, model: Model, room: int, now: int) -> list[str]:
        """Return all rows of the open session."""
        rows: list[str] = []
        if model.older is not None:
            rows.append(self._style.dim("  ↑ PgUp loads older messages"))
        before: Kind | None = None
        for entry in model.entries:
            if before is not None and not (entry.kind is Kind.TOOL and before is Kind.TOOL):
                rows.append("")
            rows += self._entry(entry, room, now)
            before = entry.kind
        return rows

    def _entry(self, entry: Entry, room: int, now: int) -> list[str]:
        if entry.kind is Kind.TOOL:
            return [self._tool(entry, room, now)]
        name = (entry.version, room, entry.step)
        kept = self._kept.get(id(entry))
        # The number of an entry that is gone may be another one's now.
        if kept is not None and kept[0] is entry and kept[1] == name:
            return kept[2]
        rows = self._text(entry, room)
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[id(entry)] = (entry, name, rows)
        return rows

    def _text(self, entry: Entry, room: int) -> list[str]:
        style, inner = self._style, max(8, room - 2)
        if entry.kind is Kind.ASSISTANT:
            text = entry.text.strip()
            if entry.step is Step.RUNNING and len(text) > MAX_GROWING:
                # It is drawn anew for every piece that comes; the whole is there when it has ended.
                text = "…\n" + text[-MAX_GROWING:]
            return [f"  {row}" for row in self._rows(render(text, style, inner), inner)]
        if entry.kind is Kind.NOTE:
            return [style.dim(f"  {row}") for row in self._rows(printable(entry.text), inner)]
        if entry.kind is Kind.ERROR:
            told = self._rows(printable(entry.text), inner)
            return [style.paint(f"{' ' if at else '✗'} {row}", "red") for at, row in enumerate(told)]
        rows = self._rows(printable(entry.text), inner)
        marks = [style.paint("› ", "bold", "blue"), *["  "] * (len(rows) - 1)]
        fate = _FATES.get(entry.step, "")
        lines = [mark + style.bold(row) for mark, row in zip(marks, rows, strict=True)]
        return [*lines, *(style.dim(f"  {row}") for row in fold(f"({fate})", inner))] if fate else lines

    @staticmethod
    def _rows(text: str, room: int) -> list[str]:
        """Return rows that fit; code is broken too, because there is no way to look beyond the edge."""
        return fold(text.expandtabs(4), room)

    def _tool(self, entry: Entry, room: int, now: int) -> str:
        style = self._style
        mark, colour = {Step.RUNNING: ("◐", "yellow"), Step.FAILED: ("✗", "red")}.get(entry.step, ("✓", "green"))
        ended = entry.ended or (now if entry.step is Step.RUNNING else 0)
        time = f" {lasted(ended - entry.began)}" if entry.began and ended >= entry.began else ""
        name = shortened(entry.text, 24)
        about = shortened(entry.about, max(0, room - width(name) - width(time) - 8))
        state = " failed" if entry.step is Step.FAILED and width(name) + width(about) + width(time) + 13 < room else ""
        row = f"  {style.paint(mark, colour)} {style.paint(name, 'cyan')} {style.dim(about + state + time)}"
        return clipped(row.rstrip(), room)

    def sessions(self, model: Model, room: int, height: int) -> list[str]:
        """Return the list of sessions, with the open one in view."""
        at = next((index for index, row in enumerate(model.rows) if row.key == model.session), 0)
        first = max(0, min(at - height // 2, len(model.rows) - height))
        names = session_names(model.rows)
        return [self._session(row, model, names[row.key], room) for row in model.rows[first : first + height]]

    def _session(self, row: Row, model: Model, called: tuple[str, str], room: int) -> str:
        style, is_open = self._style, row.key == model.session
        if row.is_running:
            mark = style.paint("●", "green")
        elif row.is_unread:
            mark = style.paint("●", "yellow")
        else:
            mark = " "
        queued = f" {printable(called[1])}" if called[1] else ""
        queued += f" +{row.queued}" if row.queued else ""
        name = shortened(called[0], room - 4 - width(queued))
        name = style.bold(name) if is_open or row.is_unread else name
        return padded(f"{style.paint('▸', 'blue') if is_open else ' '}{mark} {name}{style.dim(queued)}", room)

    def top(self, model: Model, room: int, where: str) -> str:
        """Return the first row: where we are, and how the line is."""
        style = self._style
        mark, colour = {"connected": ("●", "green"), "connecting": ("○", "yellow")}.get(model.state, ("○", "red"))
        told = {"connected": "connected", "connecting": "connecting", "pairing": "waits to be let in"}
        state = told.get(model.state, "away, trying again")
        name, told_apart = session_names(model.rows).get(model.session, (session_name(model.session), ""))
        title = shortened(f"{name} · {told_apart}" if told_apart else name, max(8, room // 2))
        left = f" {style.bold('Tidegate')} {style.dim(shortened(where, max(0, room - width(title) - len(state) - 16)))}"
        right = f"{title}  {style.paint(mark, colour)} {state} "
        return clipped(padded(left, room - width(right)) + right, room)

    def bottom(self, model: Model, room: int, now: int, scrolled: int) -> str:
        """Return the row above what is typed: what runs, what waits, what can be done."""
        style, told = self._style, []
        if model.runs:
            began = min(model.runs.values())
            told.append(style.paint(f"◐ answering {lasted(now - began)}", "yellow"))
        if model.queued:
            told.append(f"{model.queued} waiting")
        if scrolled:
            told.append(f"↓ {scrolled} rows below")
        keys = "Esc stops · F1 help" if model.runs else "Enter sends · Ctrl-T new · Alt-↓ next · F1 help"
        if model.notice:
            told.append(style.paint(shortened(model.notice, room - 4), "yellow"))
            keys = ""
        left = f" {' · '.join(told)}"
        if width(left) + width(keys) + 3 > room:
            keys = "F1 help" if width(left) + 10 <= room else ""
        return clipped(padded(left, room - width(keys) - 1) + style.dim(keys), room)

    def trouble(self, model: Model, room: int) -> list[str]:
        """Return the rows that say why there is no connection, and what to do."""
        if model.state in ("connected", "connecting") or not model.reason:
            return []
        return [self._style.paint(row, "yellow") for row in fold(f" {printable(model.reason)}", max(8, room - 1))]

    def help(self, room: int, height: int) -> list[str]:
        """Return the overlay with the keys, centred."""
        style = self._style
        wide = max(len(keys) for keys, _ in HELP)
        lines = [style.bold("Keys"), ""]
        for keys, text in HELP:
            lines.append(f"{style.paint(padded(keys, wide), 'cyan')}  {shortened(text, max(0, room - wide - 8))}")
        box = min(room - 2, max(width(line) for line in lines) + 4)
        top = f"╭{'─' * (box - 2)}╮"
        rows = [top, *(f"│ {padded(line, box - 4)} │" for line in lines[: max(0, height - 2)]), f"╰{'─' * (box - 2)}╯"]
        indent = " " * max(0, (room - box) // 2)
        return [""] * max(0, (height - len(rows)) // 2) + [clipped(indent + row, room) for row in rows]


def visible(rows: Sequence[str], height: int, scrolled: int) -> tuple[list[str], int]:
    """Return the rows in view, and how many are really hidden below; few rows stand at the bottom."""
    scrolled = max(0, min(scrolled, len(rows) - height))
    end = len(rows) - scrolled
    shown = list(rows[max(0, end - height) : end])
    return [""] * (height - len(shown)) + shown, scrolled
