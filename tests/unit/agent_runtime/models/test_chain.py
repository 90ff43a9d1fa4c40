"""The fallback chain: who is asked, who is left alone, and for how long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from tidegate.agent_runtime.messages import Message, Role
from tidegate.agent_runtime.models.base import ModelReply, ModelRequest, OnText
from tidegate.agent_runtime.models.chain import Candidate, MemoryCooldowns, ModelChain, cooldown_seconds
from tidegate.agent_runtime.models.scripted import ScriptedModel, Step, say
from tidegate.clock import ManualClock
from tidegate.errors import ContextTooLong, ModelError, ModelRefused, ModelUnavailable

REQUEST = ModelRequest("asked", ("", ""), (Message(Role.USER, "hi"),))


def unavailable(kind: str, retry_after: float | None = None) -> ModelUnavailable:
    return ModelUnavailable("no", kind, retry_after)


class World:
    """A clock, cool-downs that outlive chains, and a sleep that moves the clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.cooldowns = MemoryCooldowns()
        self.pauses: list[float] = []
        self.models: dict[str, ScriptedModel] = {}

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.advance(seconds)

    def ask(self, on_text: OnText = lambda text: None, **scripts: list[Step]) -> ModelReply:
        """Ask a chain of `a`, `a2` (a second key of a), `b`, ... with these scripts."""
        self.models = {name: ScriptedModel(steps) for name, steps in scripts.items()}
        candidates = [Candidate(f"p/{name[0]}", name[0], model, key_id=name) for name, model in self.models.items()]
        chain = ModelChain(candidates, self.cooldowns, self.clock, self.sleep, random.Random(1))
        return asyncio.run(chain.complete(REQUEST, on_text))

    def asked(self) -> dict[str, int]:
        return {name: len(model.requests) for name, model in self.models.items()}


def test_the_primary_answers_and_nothing_is_said_about_a_fallback() -> None:
    reply = World().ask(a=[say("yes")], b=[])
    assert (reply.model, reply.fallback_from) == ("p/a", "")


def test_each_candidate_is_asked_for_its_own_model() -> None:
    world = World()
    world.ask(a=[unavailable("rate_limit")], b=[say("yes")])
    assert world.models["b"].requests[0].model == "b"


def test_a_fallback_says_who_was_asked_first() -> None:
    reply = World().ask(a=[unavailable("rate_limit")], b=[say("yes")])
    assert (reply.model, reply.fallback_from) == ("p/b", "p/a")


def test_the_next_key_comes_before_the_next_model() -> None:
    world = World()
    reply = world.ask(a=[ModelRefused("key", "auth")], a2=[say("yes")], b=[])
    assert (reply.model, reply.fallback_from, world.asked()["b"]) == ("p/a", "", 0)


def test_a_rate_limit_of_one_key_does_not_block_the_provider() -> None:
    world = World()
    world.ask(a=[unavailable("rate_limit")], a2=[say("yes")])
    assert world.ask(a=[], a2=[say("again")]).message.text == "again"


def test_a_cooling_model_is_left_alone_until_its_time_has_come() -> None:
    world = World()
    world.ask(a=[unavailable("rate_limit", 40)], b=[say("1")])
    world.clock.advance(39)
    world.ask(a=[], b=[say("2")])
    world.clock.advance(2)
    assert world.ask(a=[say("back")], b=[]).model == "p/a"
    assert asyncio.run(world.cooldowns.get_many(["p/a#a"])) == {}


@pytest.mark.parametrize("error", [ContextTooLong("long"), ModelRefused("no", "refused")])
def test_what_another_model_cannot_cure_is_raised_at_once(error: ModelError) -> None:
    world = World()
    with pytest.raises(type(error)):
        world.ask(a=[error], b=[])
    assert world.asked()["b"] == 0
    assert world.pauses == []


def test_an_unknown_model_is_not_asked_again_with_another_key() -> None:
    world = World()
    world.ask(a=[ModelRefused("?", "not_found")], a2=[], b=[say("yes")])
    assert world.asked() == {"a": 1, "a2": 0, "b": 1}


def test_a_passing_failure_is_tried_once_more_after_a_short_pause() -> None:
    world = World()
    assert world.ask(a=[unavailable("network"), say("yes")], b=[]).model == "p/a"
    assert 0.5 <= world.pauses[0] <= 1.5


def test_a_single_rate_limited_model_is_waited_for_as_long_as_it_asks() -> None:
    world = World()
    assert world.ask(a=[unavailable("rate_limit", 12), say("yes")]).message.text == "yes"
    assert world.pauses == [12]


def test_a_wait_longer_than_anyone_waits_is_an_error_that_names_it() -> None:
    world = World()
    with pytest.raises(ModelUnavailable) as caught:
        world.ask(a=[unavailable("rate_limit", 3600)])
    assert (caught.value.kind, caught.value.retry_after, world.pauses) == ("rate_limit", 3600, [])
    with pytest.raises(ModelUnavailable) as caught:
        world.ask(a=[])
    assert caught.value.retry_after == pytest.approx(3600)


def test_a_model_whose_key_was_repaired_is_asked_although_it_is_cooling() -> None:
    world = World()
    with pytest.raises(ModelRefused):
        world.ask(a=[ModelRefused("key", "auth")])
    assert world.ask(a=[say("fixed")]).message.text == "fixed"


def test_the_first_failure_is_the_one_that_is_raised() -> None:
    world = World()
    with pytest.raises(ModelRefused) as caught:
        world.ask(a=[ModelRefused("key", "auth")], b=[ModelRefused("?", "not_found")])
    assert caught.value.kind == "auth"


def test_trouble_without_end_ends_within_the_budget() -> None:
    world = World()
    began = world.clock.monotonic()
    with pytest.raises(ModelUnavailable):
        world.ask(a=[unavailable("server") for _ in range(20)], b=[unavailable("network") for _ in range(20)])
    assert world.clock.monotonic() - began <= 120


def test_text_of_a_second_attempt_is_not_shown_after_the_first_ones() -> None:
    class Breaks:
        async def complete(self, request: ModelRequest, on_text: OnText) -> ModelReply:
            on_text("half an ")
            raise unavailable("network")

    world = World()
    shown: list[str] = []
    fine = ScriptedModel([say("whole")])
    candidates = [Candidate("p/a", "a", Breaks()), Candidate("p/b", "b", fine)]
    chain = ModelChain(candidates, world.cooldowns, world.clock, world.sleep)
    reply = asyncio.run(chain.complete(REQUEST, shown.append))
    assert (shown, reply.message.text) == (["half an "], "whole")


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        ("rate_limit", [30, 60, 300, 300]),
        ("billing", [600, 1200, 2400]),
        ("auth", [600, 1200, 2400, 3600, 3600]),
    ],
)
def test_cool_downs_grow(kind: str, seconds: list[float]) -> None:
    make: Callable[[str], ModelError] = unavailable if kind == "rate_limit" else lambda k: ModelRefused("", k)
    assert [cooldown_seconds(make(kind), number + 1) for number in range(len(seconds))] == seconds


def test_a_chain_needs_a_model() -> None:
    with pytest.raises(ValueError, match="needs a model"):
        ModelChain([], MemoryCooldowns(), ManualClock())
