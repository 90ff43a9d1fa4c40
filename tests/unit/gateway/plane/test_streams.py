"""Facts about runs become the events that clients draw."""

from __future__ import annotations

import asyncio
from typing import Any

from fakes.event_loop import on_loop
from tidegate.adapters.base import Outbound, TextPart
from tidegate.adapters.webchat.adapter import address_of
from tidegate.clock import ManualClock
from tidegate.gateway.bus import EventBus, Fact
from tidegate.gateway.plane.contract import PlaneEvent
from tidegate.gateway.plane.hub import Hub
from tidegate.gateway.plane.runs import RunKind, Runs, RunState
from tidegate.gateway.plane.streams import TEXT_SECONDS, Streams

KEY = "agent:main:main"


class Ear:
    """What a connection is to streams: something that hears everything."""

    id = "c1"
    watches_sessions = False
    subscriptions: frozenset[str] = frozenset()

    class caller:
        caps = frozenset({"tool-events"})


class Listening(Hub):
    """A hub that keeps what is published."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.heard: list[PlaneEvent] = []
        self.is_watched = True

    @property
    def connections(self) -> Any:
        """Return one listener, unless nobody is there."""
        return (Ear(),) if self.is_watched else ()

    def publish(self, event: PlaneEvent) -> None:
        """Keep an event."""
        self.heard.append(event)


class Scene:
    """Streams that hear a bus."""

    def __init__(self) -> None:
        self.hub, self.runs, self.bus = Listening(), Runs(), EventBus()
        self.streams = Streams(self.hub, self.runs, ManualClock(), self._row)
        self.bus.listen(self.streams.take)

    async def _row(self, key: str) -> dict[str, Any] | None:
        return {"key": key}

    def tell(self, name: str, **data: Any) -> None:
        self.bus.publish(Fact(name, KEY, {"run": "t1", **data}))

    def start(self, *messages: str, channel: str = "webchat", turn: str = "t1") -> None:
        about = {"agent": "main", "conversation": "c", "channel": channel, "messages": list(messages)}
        self.tell("turn.started", **{**about, "run": turn})

    def chats(self) -> list[dict[str, Any]]:
        return [event.payload for event in self.hub.heard if event.name == "chat"]


@on_loop
async def test_text_that_comes_quickly_is_told_together() -> None:
    scene = Scene()
    scene.start("r1")
    for piece in ("a", "b", "c"):
        scene.tell("run.text", text=piece)
    assert [chat["deltaText"] for chat in scene.chats()] == ["a"]
    await asyncio.sleep(TEXT_SECONDS * 1.5)
    assert [chat["deltaText"] for chat in scene.chats()] == ["a", "bc"]
    scene.tell("run.text", text="d")
    scene.tell("turn.done", state="answered", text="abcd")
    said = [chat.get("deltaText") for chat in scene.chats()]
    assert said == ["a", "bc", "d", None]
    assert scene.chats()[-1]["message"]["content"][0]["text"] == "abcd"


@on_loop
async def test_text_that_another_model_begins_anew_replaces_what_was_shown() -> None:
    scene = Scene()
    scene.start("r1")
    scene.tell("run.message", number=1)
    scene.tell("run.text", text="half an ans")
    scene.tell("run.message", number=1)
    scene.tell("run.text", text="Other")
    await asyncio.sleep(TEXT_SECONDS * 1.5)
    last = scene.chats()[-1]
    assert (last["replace"], last["deltaText"]) == (True, "Other")


@on_loop
async def test_a_message_that_the_queue_left_out_gets_a_bare_final() -> None:
    scene = Scene()
    left = scene.runs.add("old", KEY, "main", RunKind.CHAT, 0)
    scene.runs.add("new", KEY, "main", RunKind.CHAT, 0)
    scene.start("new")
    assert (left.state, left.text) == (RunState.ENDED, "")
    assert next((chat["runId"], chat["state"]) for chat in scene.chats()) == ("old", "final")


@on_loop
async def test_requests_of_one_turn_share_its_end() -> None:
    scene = Scene()
    first = scene.runs.add("one", KEY, "main", RunKind.AGENT, 0)
    scene.runs.add("two", KEY, "main", RunKind.AGENT, 0)
    scene.start("one", "two")
    assert first.state is RunState.WAITING
    scene.tell("turn.done", state="answered", text="both")
    assert (first.status, first.text) == ("ok", "both")
    finals = [chat for chat in scene.chats() if chat["state"] == "final"]
    assert [(chat["runId"], "message" in chat) for chat in finals] == [("two", True), ("one", False)]


@on_loop
async def test_a_stopped_turn_is_told_once_and_then_settled() -> None:
    scene = Scene()
    scene.start("r1")
    run = scene.runs.get(KEY, "r1")
    assert run is not None
    scene.tell("run.text", text="so far")
    scene.streams.abort(run, "rpc")
    scene.tell("turn.cut_off")
    scene.tell("turn.done", state="answered", text="never")
    assert [chat["state"] for chat in scene.chats()] == ["delta", "aborted"]
    last = scene.hub.heard[-1].payload
    assert (last["stream"], last["data"]["phase"], last["data"]["executionSettled"]) == ("lifecycle", "error", True)


@on_loop
async def test_a_run_of_another_channel_has_the_turns_id() -> None:
    scene = Scene()
    scene.start("77", channel="telegram")
    assert scene.runs.get(KEY, "77") is None
    scene.tell("turn.done", state="answered", text="hi")
    assert [chat["runId"] for chat in scene.chats()] == ["t1"]


@on_loop
async def test_runs_of_other_channels_that_nobody_watches_take_no_memory() -> None:
    scene = Scene()
    scene.hub.is_watched = False
    scene.tell("turn.started", run="t1", agent="main", conversation="c", channel="telegram", messages=["9"])
    assert scene.runs.active(KEY) == ["t1"], "a client that comes now sees it"
    scene.tell("turn.done", run="t1", state="answered", text="hello")
    assert scene.runs.get(KEY, "t1") is None


@on_loop
async def test_a_delivery_is_shown_unless_the_end_of_its_run_was() -> None:
    scene = Scene()
    part = Outbound(address_of(KEY), "tok", TextPart("hi", "hi"), reply_to="r1")
    scene.start("r1")
    scene.tell("turn.done", state="answered", text="hi")
    told = len(scene.chats())
    scene.streams.show(part)
    assert len(scene.chats()) == told
    after_restart = Scene()
    after_restart.streams.show(part)
    assert [(chat["runId"], chat["state"]) for chat in after_restart.chats()] == [("r1", "final")]


@on_loop
async def test_a_listener_that_breaks_does_not_break_the_others() -> None:
    bus, heard = EventBus(), []

    def broken(_: Fact) -> None:
        raise ZeroDivisionError

    bus.listen(broken)
    bus.listen(heard.append)
    bus.publish(Fact("x"))
    assert [fact.name for fact in heard] == ["x"]
