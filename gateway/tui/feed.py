"""Where the screen's knowledge comes from: a connection that is made again and again, and what is asked over it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tidegate.clock import Clock
from tidegate.gateway.client.again import Patience
from tidegate.gateway.client.connection import Connection, Gap
from tidegate.gateway.client.dial import Door, Kind, connected
from tidegate.gateway.client.errors import ClientError, NotPaired, Refused, Unanswered, Unreachable
from tidegate.gateway.client.shape import fields, items
from tidegate.gateway.tui.entries import Entry, Step
from tidegate.gateway.tui.entries import Kind as EntryKind
from tidegate.gateway.tui.model import Model
from tidegate.ids import new_id

PAGE = 100
SESSIONS = 100
MAX_JOBS = 64
"""Things that were asked for by keys and are not done yet."""
MAX_UNSENT = 50
TRY_AGAIN = ", then try again"
"""What a refusal ends with, and what happens here by itself."""
KIND = Kind(("operator.read", "operator.write"), id="openclaw-tui", mode="ui", caps=("tool-events",))

Job = Callable[[Connection], Coroutine[Any, Any, None]]


class Feed:
    """Keeps a model true, and carries out what keys ask for.

    Args:
        changed: Called whenever there is something new to draw.
        session: Key of the session to begin with; empty for the main one.
    """

    def __init__(self, door: Door, model: Model, clock: Clock, changed: Callable[[], None], session: str = "") -> None:
        self.door = door
        self._model = model
        self._clock = clock
        self._changed = changed
        self._wanted = session
        self._jobs: asyncio.Queue[Job] = asyncio.Queue(MAX_JOBS)
        self._unsent: dict[str, tuple[str, Entry]] = {}
        self._is_loading = False

    def now(self) -> int:
        """Return the present, in milliseconds."""
        return self._clock.now() // 1000

    async def run(self) -> None:
        """Connect, again and again, until cancelled.

        Raises:
            ClientError: Only a person can help.
        """
        patience, model = Patience(waits_for_pairing=True), self._model
        while True:
            try:
                async with connected(self.door, KIND) as line:
                    patience.reset()
                    await self._serve(line)
            except ClientError as error:
                seconds = patience.seconds(error)
                if seconds is None:
                    raise
                model.state = "pairing" if isinstance(error, NotPaired) else "away"
                model.reason = str(error).removesuffix(TRY_AGAIN)
                model.runs.clear()
                self._changed()
                await asyncio.sleep(seconds)

    async def _serve(self, line: Connection) -> None:
        model = self._model
        if not model.session:
            model.open(await self._first(line))
        await line.call("sessions.subscribe")
        await self._load(line)
        model.state, model.reason = "connected", ""
        self._changed()
        async with asyncio.TaskGroup() as group:
            working = group.create_task(self._work(line), name="tui.work")
            failure: ClientError | None = None
            try:
                for key in list(self._unsent):
                    await self._put(line, key)
                await self._listen(line)
            except ClientError as error:
                failure = error
            finally:
                working.cancel()
        if failure is not None:
            raise failure

    async def _first(self, line: Connection) -> str:
        if self._wanted:
            found = fields(await line.call("sessions.resolve", {"key": self._wanted}))
            return str(found.get("key") or self._wanted)
        defaults = fields(fields(line.hello.get("snapshot")).get("sessionDefaults"))
        return str(defaults.get("mainSessionKey") or "main")

    async def _load(self, line: Connection) -> None:
        """Ask for the list and the open session anew."""
        model = self._model
        await self._list(line)
        await line.call("sessions.messages.subscribe", {"key": model.session})
        page = await line.call("chat.history", {"sessionKey": model.session, "limit": PAGE})
        model.load(fields(page), self.now())
        self._changed()

    async def _list(self, line: Connection) -> None:
        about: dict[str, Any] = {"limit": SESSIONS, "includeDerivedTitles": True}
        about |= {} if self._model.shows_api else {"excludeApi": True}
        listed = fields(await line.call("sessions.list", about))
        self._model.list_sessions(fields(session) for session in items(listed.get("sessions")))

    def toggle_api(self) -> None:
        """List sessions of single API requests, or leave them out again."""
        self._model.shows_api = not self._model.shows_api
        self._ask(self._list)

    async def _listen(self, line: Connection) -> None:
        async for event in line.events():
            if isinstance(event, Gap):
                await self._load(line)
                continue
            self._model.take(event.name, event.payload, self.now())
            self._changed()

    async def _work(self, line: Connection) -> None:
        """Do what keys ask for, one after the other."""
        while True:
            job = await self._jobs.get()
            try:
                await job(line)
            except Unreachable:
                # Whoever listens hears of the break too, and makes another connection.
                return
            except ClientError as error:
                self._model.notice = str(error)
            self._changed()

    def _ask(self, job: Job) -> None:
        try:
            self._jobs.put_nowait(job)
        except asyncio.QueueFull:
            self._model.notice = "the gateway does not keep up; try again"
        self._changed()

    def say(self, text: str) -> bool:
        """Send a message now, or when the gateway is back; False when too many wait."""
        if len(self._unsent) >= MAX_UNSENT:
            self._model.notice = "too many messages wait for the gateway"
            return False
        key = new_id()
        self._unsent[key] = (self._model.session, self._model.say(key, text))
        if self._model.state == "connected":
            self._ask(lambda line: self._put(line, key))
        return True

    async def _put(self, line: Connection, key: str) -> None:
        session, entry = self._unsent.get(key, ("", None))
        if entry is None:
            return
        params = {"sessionKey": session, "message": entry.text, "idempotencyKey": key, "deliver": False}
        try:
            answer = fields(await line.call("chat.send", params))
        except Unanswered:
            return
        except Refused as error:
            del self._unsent[key]
            self._model.step(entry, Step.FAILED)
            self._model.note(str(error), kind=EntryKind.ERROR)
            return
        self._unsent.pop(key, None)
        if entry.step is Step.UNSENT:
            is_over = "aborted" in answer or answer.get("status") == "ok"
            self._model.step(entry, Step.DONE if is_over or key in self._model.runs else Step.WAITING)

    def stop(self) -> None:
        """Stop what the open session does."""
        session = self._model.session

        async def job(line: Connection) -> None:
            done = fields(await line.call("chat.abort", {"sessionKey": session}))
            if not done.get("aborted"):
                self._model.notice = "nothing runs"

        self._ask(job)

    def open(self, key: str) -> None:
        """Go to another session."""
        if key == self._model.session:
            return
        before = self._model.session
        self._model.open(key)

        async def job(line: Connection) -> None:
            await line.call("sessions.messages.unsubscribe", {"key": before})
            await line.call("sessions.messages.subscribe", {"key": key})
            page = await line.call("chat.history", {"sessionKey": key, "limit": PAGE})
            if self._model.session == key:
                self._model.load(fields(page), self.now())

        self._ask(job)

    def move(self, step: int) -> None:
        """Go to the next session of the list, or the one before."""
        keys = [row.key for row in self._model.rows]
        if len(keys) > 1 and self._model.session in keys:
            self.open(keys[(keys.index(self._model.session) + step) % len(keys)])

    def create(self) -> None:
        """Make a session and go there."""

        async def job(line: Connection) -> None:
            made = fields(await line.call("sessions.create"))
            key = str(made.get("key") or self._model.session)
            self._model.change_session(key, fields(made.get("entry")) or {"key": key})
            self.open(key)

        self._ask(job)

    def load_older(self) -> None:
        """Load the page before what is shown."""
        model = self._model
        if model.older is None or self._is_loading or model.state != "connected":
            return
        self._is_loading, session, generation = True, model.session, model.generation

        async def job(line: Connection) -> None:
            try:
                asked = {"sessionKey": session, "limit": PAGE, "offset": model.older}
                page = await line.call("chat.history", asked)
                if (model.session, model.generation) == (session, generation):
                    model.load_older(fields(page))
            finally:
                self._is_loading = False

        self._ask(job)
