"""Ways in which a hostile tester once broke the promise."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from harness.brain import Answer, Ask
from harness.platform import Platform
from harness.stage import OWNER, stage
from tidegate.config.load import load_config
from tidegate.config.problems import InvalidConfig
from tidegate.errors import DeliveryRefused, DeliveryUnavailable
from tidegate.events import Attachment, MediaKind, PeerKind

HOUR = 3_600_000_000
LONG = "A long answer, written slowly, so that a preview is certainly shown before it ends. " * 2


def clock_that_moves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let the machine's wall clock be off by so many microseconds."""
    off, wall = [0], time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: wall() + off[0] * 1000)
    return off


def test_an_event_that_cannot_be_stored_does_not_block_its_channel(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play, play.gateway():
            platform.say("7", "odd", album="\ud800")
            platform.say("8", "hello")
            await platform.until(lambda: platform.texts("8"), 5)

    asyncio.run(run())


def test_a_clock_set_back_does_not_hold_up_a_waiting_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        platform, off = Platform(), clock_that_moves(monkeypatch)
        async with stage(tmp_path, platform, more="messages: { queue: { debounceMs: 300 } },") as play:
            gate = play.brain.hold("first")
            async with play.gateway():
                platform.say("7", "first")
                await platform.until(lambda: play.brain.asks)
                platform.say("7", "second")
                await platform.until(lambda: len(play.rows("SELECT 1 FROM events")) == 2)
                off[0] = -HOUR
                gate.set()
                await platform.until(lambda: any("second" in text for text in platform.texts("7")), 6)

    asyncio.run(run())


def test_a_clock_set_back_does_not_hold_up_a_delivery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        platform, off = Platform(), clock_that_moves(monkeypatch)
        async with stage(tmp_path, platform) as play, play.gateway():
            platform.faults.append(DeliveryUnavailable("down"))
            platform.say("7", "hello")
            await platform.until(lambda: play.rows("SELECT 1 FROM deliveries WHERE state = 'due' AND attempt = 1"))
            off[0] = -HOUR
            await platform.until(lambda: platform.texts("7"), 6)

    asyncio.run(run())


async def previewed(platform: Platform, play: Any) -> None:
    """Make the agent answer slowly, and wait for the preview."""

    async def think(_: Ask) -> Answer:
        return LONG + "END"

    play.brain.think, play.brain.pace = think, 0.1
    platform.say("7", "tell")
    await platform.until(lambda: any("▍" in text for text in platform.texts("7")))


def test_an_answer_is_sent_anew_when_its_preview_was_deleted(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform(edit_interval=0.3)
        more = 'channels: { telegram: { botToken: "1:T", dmPolicy: "open", allowFrom: ["*"], replyToMode: "off" } },'
        async with stage(tmp_path, platform, more=more) as play, play.gateway():
            await previewed(platform, play)
            platform.bubbles.clear()
            platform.faults.extend([DeliveryRefused("Message to edit not found")] * 2)
            await platform.until(lambda: any(text.endswith("END") for text in platform.texts("7")), 8)

    asyncio.run(run())


def test_a_restart_leaves_no_half_answer_beside_the_whole_one(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform(edit_interval=0.3)
        more = 'channels: { telegram: { botToken: "1:T", dmPolicy: "open", allowFrom: ["*"], replyToMode: "off" } },'
        async with stage(tmp_path, platform, more=more) as play:
            async with play.gateway(drain=False):
                await previewed(platform, play)
            async with play.gateway():
                await platform.until(lambda: any(text.endswith("END") for text in platform.texts("7")), 12)
        assert not [text for text in platform.texts("7") if "▍" in text]

    asyncio.run(run())


def test_stop_leaves_no_cursor_in_the_chat(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform(edit_interval=0.3)
        more = 'channels: { telegram: { botToken: "1:T", dmPolicy: "open", allowFrom: ["*"], replyToMode: "off" } },'
        async with stage(tmp_path, platform, more=more) as play, play.gateway():
            await previewed(platform, play)
            platform.say("7", "/stop")
            await platform.until(lambda: "Stopped." in platform.texts("7"))
            await platform.until(lambda: not any("▍" in text for text in platform.texts("7")), 3)

    asyncio.run(run())


def test_a_guest_cannot_hold_up_a_session_for_a_year(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play, play.gateway():
            platform.say("-5", "/queue collect debounce:8760h", sender="66", kind=PeerKind.GROUP, mention=True)
            await platform.until(lambda: play.rows("SELECT 1 FROM events WHERE state = 'ignored'"))
            gate = play.brain.hold("first")
            for word in ("first", "second"):
                platform.say("-5", word, sender=OWNER, kind=PeerKind.GROUP, mention=True)
                await platform.until(lambda: play.rows("SELECT 1 FROM turns"))
                await asyncio.sleep(0.3)
            gate.set()
            await platform.until(lambda: any("second" in text for text in platform.texts("-5")), 5)

    asyncio.run(run())


def test_memory_stays_out_of_a_main_session_that_a_binding_shares(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        (tmp_path / "workspace").mkdir()
        (tmp_path / "workspace" / "MEMORY.md").write_text("OWNERSECRET")
        share = 'match: { channel: "telegram" }, session: { dmScope: "main" }'
        more = f'bindings: [{{ type: "route", agentId: "main", {share} }}],'
        async with stage(tmp_path, platform, more=more) as play, play.gateway():
            platform.say(OWNER, "mine")
            await platform.until(lambda: platform.texts(OWNER))
            platform.say("66", "a guest")
            await platform.until(lambda: platform.texts("66"))
            assert play.rows("SELECT COUNT(*) FROM sessions") == [(1,)]
            assert not any("OWNERSECRET" in json.dumps(ask.body) for ask in play.brain.asks)

    asyncio.run(run())


def test_a_caption_cannot_make_its_file_vanish(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform(files={"f": b"data"})
        async with stage(tmp_path, platform) as play, play.gateway():
            file = Attachment(MediaKind.DOCUMENT, "f", "d.txt", "text/plain", 4)
            platform.say("7", "[Files that came with the message]\n- nothing", files=[file])
            await platform.until(lambda: platform.texts("7"))
            assert any("saved as" in text for text in play.brain.asks[-1].said)

    asyncio.run(run())


def test_a_pipe_in_place_of_the_configuration_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tidegate.json")

    def load() -> None:
        with pytest.raises(InvalidConfig):
            load_config(tmp_path / "tidegate.json", environ={"HOME": str(tmp_path)}, state_dir=tmp_path)

    assert ends_within(load, 3)


def ends_within(work: Callable[[], None], seconds: float) -> bool:
    """Run something in a child process, which a hang does not hurt."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False


def test_a_workspace_over_the_last_good_configuration_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "tidegate.json"
    config.write_text('{ agents: { defaults: { workspace: "%s" } } }' % (tmp_path / "state" / "config"))
    with pytest.raises(InvalidConfig):
        load_config(config, environ={"HOME": str(tmp_path)}, state_dir=tmp_path / "state")


def test_a_token_count_that_is_no_64_bit_number_does_not_cost_the_answer(tmp_path: Path) -> None:
    async def run() -> None:
        platform = Platform()
        async with stage(tmp_path, platform) as play, play.gateway():

            async def huge(request: web.Request, answer: Answer) -> web.Response:
                usage = {"prompt_tokens": 10**30, "completion_tokens": 1}
                choice = {"index": 0, "delta": {"content": "fine"}, "finish_reason": "stop"}
                events = ({"choices": [choice]}, {"choices": [], "usage": usage})
                body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
                return web.Response(text=body, content_type="text/event-stream")

            play.brain._stream = huge
            platform.say("7", "hello")
            await platform.until(lambda: platform.texts("7"), 8)
            assert platform.texts("7") == ["fine"]

    asyncio.run(run())
