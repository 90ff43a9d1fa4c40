"""A gateway may say anything: our side draws, drops or refuses it, and stays as it is."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import aiohttp
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.clock import SystemClock
from tidegate.gateway.cli.plane_link import PlaneLink
from tidegate.gateway.client.connection import MAX_EVENTS, Connection, Event, Gap
from tidegate.gateway.client.dial import Door
from tidegate.gateway.client.errors import ClientError
from tidegate.gateway.tui.feed import Feed
from tidegate.gateway.tui.model import Model

KEY = "agent:main:main"
NAMES = (
    *("type", "id", "ok", "payload", "error", "event", "seq", "sessionKey", "runId", "state", "stream", "data"),
    *("message", "phase", "content", "role", "text", "deltaText", "errorDetail", "__openclaw", "messages", "sessions"),
    *(
        "key",
        "entry",
        "inFlightRun",
        "hasMore",
        "nextOffset",
        "toolCallId",
        "name",
        "args",
        "status",
        "details",
        "code",
    ),
)
WORDS = (
    "res",
    "event",
    "chat",
    "agent",
    "final",
    "delta",
    "error",
    "aborted",
    "tool",
    "lifecycle",
    "start",
    "user",
    "1",
    KEY,
)
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-3, 9), st.sampled_from(WORDS), st.text(max_size=4))
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=6)),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=8)
EVENTS = st.builds(lambda name, data: Event(name, {"sessionKey": KEY, **data}), st.sampled_from(WORDS), OBJECTS)


def unused() -> aiohttp.ClientWebSocketResponse:
    """The socket of a connection that only hears."""
    return cast("aiohttp.ClientWebSocketResponse", None)


@settings(max_examples=60)
@given(OBJECTS, st.lists(st.one_of(VALUES.map(json.dumps), st.text(max_size=20)), max_size=20))
def test_any_frame_is_heard_and_memory_is_bounded(hello: dict[str, Any], frames: list[str]):
    async def run() -> None:
        line = Connection(unused(), hello, "x")
        for text in frames:
            line._take(text)
        assert len(line._events) <= MAX_EVENTS
        assert all(isinstance(item, Event | Gap) for item in line._events)
        assert isinstance(line.scopes, tuple)

    asyncio.run(run())


@settings(max_examples=60)
@given(st.lists(EVENTS, max_size=12))
def test_any_event_is_drawn_by_the_chat_or_dropped(events: list[Event]):
    link = PlaneLink(Door())
    link._session = KEY
    for event in events:
        for frame in link._drawn(event):
            assert isinstance(frame["type"], str)
            assert isinstance(frame.get("text", ""), str)


class AnythingLine:
    """A connection whose answers are given."""

    def __init__(self, answers: list[Any]) -> None:
        self.hello: dict[str, Any] = {}
        self._answers = answers

    async def call(self, *_: Any, **__: Any) -> Any:
        """Return the next answer; a text is a refusal."""
        answer = self._answers.pop(0) if self._answers else {}
        if isinstance(answer, str):
            raise ClientError(answer)
        return answer


@settings(max_examples=60)
@given(st.lists(VALUES, max_size=12), st.lists(EVENTS, max_size=6))
def test_any_answer_is_taken_by_the_screen(answers: list[Any], events: list[Event]):
    async def run() -> None:
        model = Model()
        feed = Feed(Door(), model, SystemClock(), lambda: None)
        line = cast("Connection", AnythingLine(answers))
        model.open(await feed._first(line))
        for step in (feed.create, feed.load_older, feed.stop, lambda: feed.move(1), lambda: feed.say("hello")):
            step()
        try:
            await feed._load(line)
            while not feed._jobs.empty():
                await feed._jobs.get_nowait()(line)
        except ClientError:
            pass
        for event in events:
            model.take(event.name, event.payload, 1)

    asyncio.run(run())
