"""The terminal of the full-screen chat: the one module that knows prompt_toolkit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Float,
    FloatContainer,
    HSplit,
    Layout,
    UIContent,
    UIControl,
    VSplit,
    Window,
)
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.output import ColorDepth, Output

from tidegate.clock import SystemClock
from tidegate.gateway.cli.terminal import Style
from tidegate.gateway.client.dial import Door
from tidegate.gateway.tui.feed import Feed
from tidegate.gateway.tui.model import Model
from tidegate.gateway.tui.view import LEAST_FOR_LIST, LIST_COLUMNS, Painter, visible

FRAMES_SECONDS = 0.05
"""Least time between two drawings."""
CLOCK_SECONDS = 0.5
"""How often running times are drawn anew."""
KEY_SECONDS = 0.08
"""How long an Esc may be the beginning of another key."""
MAX_INPUT_ROWS = 6
LEAVE_WORDS = frozenset({"/quit", "/exit"})

Rows = Callable[[int, int], list[str]]


class _Rows(UIControl):
    """A part of the screen that is made of whole rows, for the size that it has now."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def create_content(self, width: int, height: int) -> UIContent:
        """Return what is to be drawn."""
        lines = [_fragments(row) for row in self._rows(width, height)[:height]]
        return UIContent(lambda number: lines[number], line_count=len(lines), show_cursor=False)


def _fragments(row: str) -> StyleAndTextTuples:
    return to_formatted_text(ANSI(row))


class TerminalApp:
    """The whole screen."""

    def __init__(
        self,
        door: Door,
        *,
        session: str = "",
        colour: bool = True,
        keys: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self.model = Model()
        self._feed = Feed(door, self.model, SystemClock(), self._changed, session)
        self._painter = Painter(Style(colour, markup=True))
        self._where = door.name
        self._scrolled = 0
        self._rows_before = 0
        self._page = 10
        self._shows_help = False
        self._is_leaving = False
        self._buffer = Buffer(multiline=True, history=InMemoryHistory())
        self.app: Application[None] = Application(
            layout=Layout(self._container(), focused_element=self._buffer),
            key_bindings=self._bindings(),
            full_screen=True,
            color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
            min_redraw_interval=FRAMES_SECONDS,
            refresh_interval=CLOCK_SECONDS,
            input=keys,
            output=output,
        )
        self.app.timeoutlen = self.app.ttimeoutlen = KEY_SECONDS

    async def run(self) -> None:
        """Show the screen until somebody leaves.

        Raises:
            ClientError: The gateway does not let us in; only a person can help.
        """
        async with asyncio.TaskGroup() as group:
            feeding = group.create_task(self._feed.run(), name="tui.feed")
            try:
                await self.app.run_async(handle_sigint=False)
            finally:
                feeding.cancel()

    def _changed(self) -> None:
        self.app.invalidate()

    def _container(self) -> FloatContainer:
        def part(rows: Rows, **more: Any) -> Window:
            return Window(_Rows(rows), wrap_lines=False, always_hide_cursor=True, **more)

        has_list = Condition(lambda: self.app.output.get_size().columns >= LEAST_FOR_LIST)
        sessions = VSplit(
            [part(self._draw_list, width=LIST_COLUMNS), Window(char="│", width=1, style="class:line")],
        )
        typed = VSplit(
            [
                Window(_Rows(lambda *_: ["› "]), width=2, style="bold"),
                Window(BufferControl(self._buffer), wrap_lines=True, dont_extend_height=True),
            ],
            height=self._input_height,
        )
        body = HSplit(
            [
                part(lambda room, _: [self._painter.top(self.model, room, self._where)], height=1, style="reverse"),
                VSplit([ConditionalContainer(sessions, has_list), part(self._draw_chat)]),
                part(lambda room, _: self._painter.trouble(self.model, room), height=self._trouble_height),
                part(self._draw_bottom, height=1),
                typed,
            ]
        )
        is_helping = Condition(lambda: self._shows_help)
        overlay = ConditionalContainer(part(self._painter.help), is_helping)
        return FloatContainer(body, [Float(overlay, left=0, right=0, top=1, bottom=2)])

    def _trouble_height(self) -> Dimension:
        columns = self.app.output.get_size().columns
        return Dimension.exact(min(3, len(self._painter.trouble(self.model, columns))))

    def _input_height(self) -> Dimension:
        size = self.app.output.get_size()
        room = max(8, size.columns - 2)
        rows = sum(1 + len(line) // room for line in self._buffer.text.split("\n"))
        return Dimension.exact(max(1, min(rows, MAX_INPUT_ROWS, size.rows // 3)))

    def _draw_list(self, room: int, height: int) -> list[str]:
        return self._painter.sessions(self.model, room, height)

    def _draw_chat(self, room: int, height: int) -> list[str]:
        rows = self._painter.chat(self.model, room, self._feed.now())
        if self._scrolled and len(rows) > self._rows_before:
            # What is being read stays where it is while something comes below or above it.
            self._scrolled += len(rows) - self._rows_before
        self._rows_before, self._page = len(rows), max(1, height - 2)
        shown, self._scrolled = visible(rows, height, self._scrolled)
        return shown

    def _draw_bottom(self, room: int, _: int) -> list[str]:
        return [self._painter.bottom(self.model, room, self._feed.now(), self._scrolled)]

    def _scroll(self, rows: int) -> None:
        wanted = self._scrolled + rows
        if wanted > self._rows_before - self._page:
            self._feed.load_older()
        self._scrolled = max(0, wanted)

    def _go(self, step: int) -> None:
        self._scrolled = 0
        self._feed.move(step)

    def _send(self) -> None:
        text = self._buffer.text.strip()
        if not text:
            return
        if text in LEAVE_WORDS:
            self.app.exit()
            return
        if self.model.session and self._feed.say(text):
            self._buffer.append_to_history()
            self._buffer.reset()
            self._scrolled = 0

    def _interrupt(self) -> None:
        """Stop, clear, or leave: what Ctrl-C means most likely."""
        if self.model.runs:
            self._feed.stop()
        elif self._buffer.text:
            self._buffer.reset()
        elif self._is_leaving:
            self.app.exit()
        else:
            self._is_leaving = True
            self.model.notice = "Ctrl-C once more leaves"

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()

        def on(*keys: str, eager: bool = False) -> Callable[[Callable[[], None]], None]:
            def bind(action: Callable[[], None]) -> None:
                @bindings.add(*keys, eager=eager)
                def _(event: KeyPressEvent) -> None:
                    if keys != ("c-c",):
                        self._is_leaving = False
                        self.model.notice = ""
                    action()

            return bind

        on("enter")(self._send)
        on("escape", "enter")(lambda: self._buffer.insert_text("\n"))
        on("c-j")(lambda: self._buffer.insert_text("\n"))
        on("escape")(self._escape)
        on("c-c")(self._interrupt)
        on("<sigint>")(self._interrupt)
        on("c-d")(self._delete_or_leave)
        on("pageup")(lambda: self._scroll(self._page))
        on("pagedown")(lambda: self._scroll(-self._page))
        on("c-end")(lambda: self._scroll(-self._rows_before))
        on("escape", "down")(lambda: self._go(1))
        on("escape", "up")(lambda: self._go(-1))
        on("c-n")(lambda: self._go(1))
        on("c-p")(lambda: self._go(-1))
        on("c-t")(self._feed.create)
        on("c-l")(self.app_clear)
        on("f1")(self._toggle_help)
        on("f2")(self._feed.toggle_api)
        return bindings

    def _escape(self) -> None:
        if self._shows_help:
            self._shows_help = False
        elif self.model.runs:
            self._feed.stop()

    def _delete_or_leave(self) -> None:
        if self._buffer.text:
            self._buffer.delete()
        else:
            self.app.exit()

    def _toggle_help(self) -> None:
        self._shows_help = not self._shows_help

    def app_clear(self) -> None:
        """Draw the whole screen anew."""
        self.app.renderer.clear()
