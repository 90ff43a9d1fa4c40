"""An `agent` run through a crash: a repeat of its key answers with what was said, and nothing runs twice."""

from __future__ import annotations

from pathlib import Path

import aiohttp

from fakes.event_loop import on_loop
from harness.brain import Ask, Error
from harness.stage import stage
from plane.talking import Talk

ASK = {"message": "hello", "idempotencyKey": "a1", "agentId": "main", "sessionKey": "agent:main:main"}


@on_loop
async def test_a_run_cut_off_by_a_crash_is_answered_with_its_payloads_when_its_key_comes_again(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, aiohttp.ClientSession() as http:
        gate = place.brain.hold("hello")
        async with place.gateway(drain=False) as gateway:
            talk = Talk(place, gateway, http, None)  # type: ignore[arg-type]
            talk.client = await talk.connect()
            assert (await talk.ok("agent", **ASK))["status"] == "accepted"
            await place.platform.until(lambda: place.brain.asks)
        gate.set()
        async with place.gateway():
            await place.platform.until(lambda: place.rows("SELECT state FROM turns WHERE state = 'answered'"))
        asked = len(place.brain.asks)
        async with place.gateway() as gateway:
            talk = Talk(place, gateway, http, None)  # type: ignore[arg-type]
            talk.client = await talk.connect()
            for _ in range(2):
                final = await talk.ok("agent", **ASK)
                assert (final["status"], final["summary"]) == ("ok", "completed")
                assert final["result"]["payloads"] == [{"text": "echo: hello", "mediaUrl": None}]
                assert final["result"]["meta"]["agentMeta"]["model"] == "model"
        assert len(place.brain.asks) == asked


@on_loop
async def test_a_run_that_failed_elsewhere_stays_failed(tmp_path: Path) -> None:
    async def refuse(_: Ask) -> Error:
        return Error(401)

    async with stage(tmp_path) as place, aiohttp.ClientSession() as http:
        async with place.gateway() as gateway:
            talk = Talk(place, gateway, http, None)  # type: ignore[arg-type]
            talk.client = await talk.connect()
            place.brain.think = refuse
            await talk.ok("agent", **ASK)
            # Whoever asked is gone before the run ends, so that only the store knows of its end.
            await talk.client.socket.close()
            await place.platform.until(lambda: place.rows("SELECT state FROM turns WHERE state = 'failed'"))
        async with place.gateway() as gateway:
            talk = Talk(place, gateway, http, None)  # type: ignore[arg-type]
            talk.client = await talk.connect()
            final = await talk.ok("agent", **ASK)
            assert (final["status"], final["result"]) == ("error", {"payloads": []})


@on_loop
async def test_a_repeat_does_not_wait_for_what_others_say_in_the_session(tmp_path: Path) -> None:
    async with stage(tmp_path) as place, aiohttp.ClientSession() as http:
        async with place.gateway() as gateway:
            talk = Talk(place, gateway, http, None)  # type: ignore[arg-type]
            talk.client = await talk.connect()
            await talk.ok("agent", **ASK)
            await talk.client.answer("r1")
        place.brain.hold("later")
        async with place.gateway(drain=False) as gateway:
            talk = Talk(place, gateway, http, None)  # type: ignore[arg-type]
            talk.client = await talk.connect()
            await talk.say("later", "r2", "agent:main:main")
            assert (await talk.say("hello", "a1", "agent:main:main"))["status"] == "started"
            assert (await talk.until("a1", "final"))[-1]["seq"] == 1
