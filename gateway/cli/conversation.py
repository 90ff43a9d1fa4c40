"""The chat in a terminal: typing below, answers above, both at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import Any

from tidegate.gateway.cli.editor import Key, LineEditor
from tidegate.gateway.cli.link import ChatLink
from tidegate.gateway.cli.markdown import render
from tidegate.gateway.cli.screen import PROMPT, Screen
from tidegate.gateway.cli.terminal import Style, printable
from tidegate.gateway.site import Site

LEAVE_WORDS = frozenset({"/quit", "/exit"})
FRAME_SECONDS = 0.03
"""Least time between two drawings of a preview."""
MAX_PREVIEW = 20_000
"""Characters of a preview that are kept; the reply itself is never cut."""
READ_BYTES = 65_536
MAX_TOOL_LINE = 110

GREETING = "You are talking to your agent. /quit leaves, /help lists commands, /stop ends a running answer."


class Conversation:
    """One open chat."""

    def __init__(self, site: Site, style: Style) -> None:
        self._style = style
        self._editor = LineEditor()
        self._screen = Screen(style, self._editor, sys.stdout, sys.stdin.fileno())
        self._link = ChatLink(site)
        self._session = ""
        self._partial = ""
        self._is_dirty = False
        self._is_connected: bool | None = None
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
                with contextlib.suppress(asyncio.QueueFull):
                    typed.put_nowait(item)
        self._screen.draw()

    def _echo(self, text: str) -> None:
        mark = self._style.paint(PROMPT, "bold", "blue")
        self._screen.say(mark + printable(text).replace("\n", "\n  "))

    async def _send(self, typed: asyncio.Queue[str]) -> None:
        while True:
            text = await typed.get()
            if not await self._link.send(text):
                self._screen.say(self._style.paint("not sent: too many messages wait for the gateway", "red"))

    async def _read(self) -> None:
        async for frame in self._link.frames():
            match frame["type"]:
                case "hello":
                    self._connected(frame)
                case "lost":
                    self._lost()
                case "refused" | "error":
                    self._screen.say(self._style.paint(f"not sent: {printable(str(frame.get('text', '')))}", "red"))
                case "reply":
                    self._reply(frame)
                case "fact":
                    self._fact(frame)
                case _:
                    pass

    def _connected(self, frame: dict[str, Any]) -> None:
        self._session = str(frame.get("session", ""))
        if self._is_connected is False:
            self._screen.note("")
            self._screen.say(self._style.dim("The gateway is back."))
        self._is_connected = True

    def _lost(self) -> None:
        self._partial = ""
        self._screen.preview("")
        if self._is_connected is not False:
            text = (
                "The gateway is away; what you type is sent when it is back."
                if self._is_connected
                else ("Waiting for the gateway. If it does not run: `tidegate up`.")
            )
            self._screen.note(text)
        self._is_connected = False

    def _reply(self, frame: dict[str, Any]) -> None:
        """Print what was really said; the preview was only a foretaste."""
        self._partial = ""
        self._screen.preview("")
        text = render(str(frame.get("text", "")), self._style)
        if frame.get("file"):
            text = f"{text}\n{file_line(frame, self._style)}" if text.strip() else file_line(frame, self._style)
        self._screen.say(text)

    def _fact(self, frame: dict[str, Any]) -> None:
        if self._session and frame.get("session") != self._session:
            return
        data = frame.get("data") or {}
        match frame.get("name"):
            case "turn.started":
                self._partial = ""
                self._screen.note("…")
            case "run.text":
                self._screen.note("")
                self._partial = (self._partial + str(data.get("text", "")))[-MAX_PREVIEW:]
                self._draw_soon()
            case "tool.started":
                self._partial = ""
                self._screen.preview("")
                self._screen.say(self._style.dim(tool_line(data)))
            case "tool.ended" if data.get("is_error"):
                self._screen.say(self._style.paint(f"  ⚙ {printable(str(data.get('tool', '')))} failed", "dim", "red"))
            case "turn.ended":
                self._partial = ""
                self._screen.note("")
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
            self._screen.preview(self._partial)


def tool_line(data: dict[str, Any]) -> str:
    """Return the one line that says which tool runs."""
    name, summary = printable(str(data.get("tool", ""))), " ".join(printable(str(data.get("summary", ""))).split())
    told = summary if summary.split(" ", 1)[0] == name else f"{name} {summary}".rstrip()
    return f"  ⚙ {told[:MAX_TOOL_LINE]}"


def file_line(frame: dict[str, Any], style: Style) -> str:
    """Return the line that stands for a file."""
    name = printable(str(frame.get("file_name") or "file"))
    return style.dim(f"[{name}: {printable(str(frame.get('file', '')))}]")
