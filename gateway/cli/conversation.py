"""The chat in a terminal: typing below, answers above, both at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections import deque
from typing import Any

from tidegate.gateway.cli.editor import Key, LineEditor
from tidegate.gateway.cli.link import ChatLink, Link
from tidegate.gateway.cli.markdown import render
from tidegate.gateway.cli.screen import PROMPT, Screen
from tidegate.gateway.cli.status import NEEDS_A_PERSON, asking_lines, connection_line
from tidegate.gateway.cli.terminal import Style, printable
from tidegate.gateway.program import hint
from tidegate.gateway.site import Site

LEAVE_WORDS = frozenset({"/quit", "/exit"})
FRAME_SECONDS = 0.05
"""Least time between two drawings of a preview."""
MAX_PARTIAL = 200_000
"""Characters of an unfinished answer that are kept, to be left on the screen when it is stopped."""
PREVIEW_CHARS, PREVIEW_STEP = 4_000, 2_000
"""Of these only the last are drawn; where they begin moves in steps, so that the rows do not dance."""
MAX_TYPED = 1_000
"""Messages of other windows that are remembered, so that none is shown twice."""
READ_BYTES = 65_536
MAX_TOOL_LINE = 110
MAX_REASON = 500

STOPPED = "[stopped here]"
GOES_ON = "[cut off; it goes on when the gateway is back]"
"""A turn that no stop ended is taken up again by the next start."""
KEYS_HELP = (
    "In this terminal also: /quit or Ctrl-C leaves, Ctrl-L clears the screen, ↑ and ↓ bring back what you typed."
)
GREETING = "You are talking to your agent. /quit leaves, /help lists commands, /stop ends a running answer."


class Conversation:
    """One open chat."""

    def __init__(self, site: Site, style: Style, link: Link | None = None) -> None:
        self._style = style
        self._editor = LineEditor()
        self._screen = Screen(style, self._editor, sys.stdout, sys.stdin.fileno())
        self._link: Link = link or ChatLink(site)
        self._session = ""
        self._partial = ""
        self._is_dirty = False
        self._is_waiting = False
        self._is_connected: bool | None = None
        self._told: set[str] = set()
        self._typed_elsewhere: deque[str] = deque(maxlen=MAX_TYPED)
        self._ended = asyncio.Event()

    async def run(self, greeting: str = GREETING) -> None:
        """Chat until somebody leaves."""
        loop = asyncio.get_running_loop()
        typed: asyncio.Queue[str] = asyncio.Queue(1_000)
        with self._screen:
            self._screen.say(self._style.dim(greeting))
            loop.add_reader(sys.stdin.fileno(), self._on_keys, typed)
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [
                        group.create_task(self._read(), name="chat.read"),
                        group.create_task(self._send(typed), name="chat.send"),
                    ]
                    await self._ended.wait()
                    for task in tasks:
                        task.cancel()
            finally:
                loop.remove_reader(sys.stdin.fileno())

    def leave(self) -> None:
        """End the chat."""
        self._ended.set()

    def _on_keys(self, typed: asyncio.Queue[str]) -> None:
        try:
            data = os.read(sys.stdin.fileno(), READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.leave()
            return
        for item in self._editor.feed(data):
            if item is Key.LEAVE or (isinstance(item, str) and item.strip() in LEAVE_WORDS):
                self.leave()
                return
            if item is Key.REDRAW:
                self._screen.clear()
            elif isinstance(item, str) and item.strip():
                self._echo(item)
                if item.strip() == "/help":
                    self._screen.say(self._style.dim(KEYS_HELP))
                with contextlib.suppress(asyncio.QueueFull):
                    typed.put_nowait(item)
        self._screen.draw()

    def _echo(self, text: str) -> None:
        mark = self._style.paint(PROMPT, "bold", "blue")
        self._screen.say(mark + printable(text).replace("\n", "\n  "))

    async def _send(self, typed: asyncio.Queue[str]) -> None:
        while True:
            text = await typed.get()
            if reason := await self._link.send(text):
                self._screen.say(self._style.paint(f"not sent: {printable(reason)}", "red"))

    async def _read(self) -> None:
        async with contextlib.aclosing(self._link.frames()) as frames:
            async for frame in frames:
                match frame["type"]:
                    case "hello":
                        self._connected(frame)
                    case "lost":
                        self._lost(str(frame.get("reason", "")))
                    case "refused" | "error":
                        self._screen.say(self._style.paint(f"not sent: {printable(str(frame.get('text', '')))}", "red"))
                    case "reply":
                        self._reply(frame)
                    case "fact":
                        self._fact(frame)
                    case "typed":
                        self._typed(frame)
                    case _:
                        pass

    def _connected(self, frame: dict[str, Any]) -> None:
        self._session = str(frame.get("session", ""))
        if self._is_connected is False:
            self._screen.note("")
            self._screen.say(self._style.dim("The gateway is back."))
        self._is_connected = True
        concerns = frame.get("concerns") or {}
        down = map(connection_line, concerns.get("connections", ()))
        self._concern([*map(str, concerns.get("notes", ())), *down, *asking_lines(concerns.get("asking", ()))])

    def _concern(self, lines: list[str]) -> None:
        """Say what needs a person, each thing once until it is over."""
        for line in lines:
            if line not in self._told:
                self._told.add(line)
                self._screen.say(self._style.paint(f"! {printable(line)}", "yellow"))

    def _typed(self, frame: dict[str, Any]) -> None:
        """Show what somebody said in another window; after a reconnection it may be told again."""
        number = str(frame.get("id", ""))
        if number not in self._typed_elsewhere:
            self._typed_elsewhere.append(number)
            text = printable(str(frame.get("text", ""))).replace("\n", "\n  ")
            self._screen.say(self._style.dim(f"(from another window) {text}"))

    def _lost(self, reason: str) -> None:
        self._leave_partial(GOES_ON)
        if self._is_connected is not False:
            text = (
                "The gateway is away; what you type is sent when it is back."
                if self._is_connected
                else (reason or f"Waiting for the gateway. If it does not run: {hint('up')}.")
            )
            self._screen.note(text)
        self._is_connected = False

    def _reply(self, frame: dict[str, Any]) -> None:
        """Print what was really said; the preview was only a foretaste."""
        said = str(frame.get("text", ""))
        if said.strip().startswith(self._partial.strip()[:40]):
            self._partial = ""
            self._screen.preview("")
        self._wait(False)
        text = render(said, self._style, self._screen.columns - 1)
        if frame.get("file"):
            text = f"{text}\n{file_line(frame, self._style)}" if text.strip() else file_line(frame, self._style)
        self._screen.say(text, is_folded=True)

    def _leave_partial(self, mark: str) -> None:
        """Keep an unfinished answer on the screen and say what becomes of it."""
        partial, self._partial = self._partial, ""
        self._wait(False)
        self._screen.preview("")
        if partial.strip():
            told = render(partial.strip(), self._style, self._screen.columns - 1)
            self._screen.say(f"{told} {self._style.paint(mark, 'yellow')}", is_folded=True)

    def _wait(self, is_waiting: bool) -> None:
        """Show whether an answer is awaited; draws only when that changed."""
        if is_waiting != self._is_waiting:
            self._is_waiting = is_waiting
            self._screen.note("…" if is_waiting else "")

    def _fact(self, frame: dict[str, Any]) -> None:
        data = frame.get("data") or {}
        name = str(frame.get("name"))
        if name.startswith("config."):
            self._config(name, data)
        elif name.startswith("connection."):
            self._connection(name.removeprefix("connection."), data)
        elif not self._session or frame.get("session", self._session) == self._session:
            self._turn(name, data)

    def _config(self, name: str, data: dict[str, Any]) -> None:
        notes = [str(note) for note in data.get("notes", ())]
        was_broken = any(line.startswith("the configuration is broken") for line in self._told)
        if name == "config.reloaded" and was_broken:
            self._told.clear()
            self._screen.say(self._style.dim("The configuration is in order again and in force."))
        self._concern(notes)

    def _connection(self, state: str, data: dict[str, Any]) -> None:
        account = f"{data.get('channel')}/{data.get('account')}:"
        if state in NEEDS_A_PERSON:
            self._concern([connection_line({**data, "state": state})])
        elif state == "up" and (over := {line for line in self._told if line.startswith(account)}):
            self._told -= over
            self._screen.say(self._style.dim(printable(f"{account} connected again")))

    def _turn(self, name: str, data: dict[str, Any]) -> None:
        match name:
            case "turn.started":
                self._partial = ""
                self._wait(True)
            case "run.text":
                self._wait(False)
                self._partial = (self._partial + str(data.get("text", "")))[-MAX_PARTIAL:]
                self._draw_soon()
            case "turn.cut_off":
                self._leave_partial(STOPPED)
            case "turn.failed":
                self._screen.say(self._style.paint(failure_line(data), "dim", "red"))
            case "tool.started":
                self._partial = ""
                self._screen.preview("")
                self._screen.say(self._style.dim(tool_line(data)))
            case "tool.ended" if data.get("is_error"):
                self._screen.say(self._style.paint(f"  ⚙ {printable(str(data.get('tool', '')))} failed", "dim", "red"))
            case "turn.ended":
                self._partial = ""
                self._wait(False)
                self._screen.preview("")
            case _:
                pass

    def _draw_soon(self) -> None:
        if not self._is_dirty:
            self._is_dirty = True
            asyncio.get_running_loop().call_later(FRAME_SECONDS, self._draw_preview)

    def _draw_preview(self) -> None:
        self._is_dirty = False
        if not self._ended.is_set():
            self._screen.preview(tail(self._partial))


def tail(text: str) -> str:
    """Return the end of a text, which begins with a word and at the same place while the text grows a little."""
    if len(text) <= PREVIEW_CHARS + PREVIEW_STEP:
        return text
    start = (len(text) - PREVIEW_CHARS) // PREVIEW_STEP * PREVIEW_STEP
    gap = re.compile(r"\s").search(text, start, start + PREVIEW_STEP)
    return text[gap.end() if gap else start :]


def failure_line(data: dict[str, Any]) -> str:
    """Return what the owner may know about a turn that failed: the model, and the reason or else the kind."""
    reason = " ".join(str(data.get("reason", "")).split()) or str(data.get("kind", ""))
    told = ": ".join(part for part in (str(data.get("model") or ""), reason) if part)
    return printable(f"  ✗ {told}"[:MAX_REASON])


def tool_line(data: dict[str, Any]) -> str:
    """Return the one line that says which tool runs."""
    name, summary = printable(str(data.get("tool", ""))), " ".join(printable(str(data.get("summary", ""))).split())
    told = summary if summary.split(" ", 1)[0] == name else f"{name} {summary}".rstrip()
    return f"  ⚙ {told[:MAX_TOOL_LINE]}"


def file_line(frame: dict[str, Any], style: Style) -> str:
    """Return the line that stands for a file."""
    name = printable(str(frame.get("file_name") or "file"))
    return style.dim(f"[{name}: {printable(str(frame.get('file', '')))}]")
