"""Files that come with a message over the control plane."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from fakes.event_loop import on_loop
from plane.talking import KEY, Talk, talking

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels" * 10


def coded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def picture(**more: Any) -> dict[str, Any]:
    return {"type": "image", "mimeType": "image/png", "fileName": "sky.png", "content": coded(PNG), **more}


async def sent(talk: Talk, run: str, *files: dict[str, Any], message: str = "look") -> str:
    """Send a message with files and return what the model was shown, as JSON."""
    await talk.ok("chat.send", sessionKey=KEY, message=message, idempotencyKey=run, attachments=list(files))
    await talk.until(run, "final")
    return json.dumps(talk.stage.brain.asks[-1].body["messages"])


def inbound(talk: Talk) -> dict[str, bytes]:
    folder = next(talk.stage.state_dir.rglob("media/inbound"))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@on_loop
async def test_a_picture_is_shown_to_the_model_and_kept_like_one_from_a_platform(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        shown = await sent(talk, "r1", picture())
        assert f"data:image/png;base64,{coded(PNG)}" in shown
        kept = inbound(talk)
        assert list(kept.values()) == [PNG]
        assert next(iter(kept)).endswith("r1-sky.png")
        assert f"saved as media/inbound/{next(iter(kept))}" in shown
        history = await talk.ok("chat.history", sessionKey=KEY)
        assert history["messages"][0]["content"] == "look"


@on_loop
async def test_a_file_is_told_by_its_path_and_a_repeat_changes_nothing(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        note = {"fileName": "../../etc/pass wd.txt", "mimeType": "text/plain", "content": coded(b"some words")}
        shown = await sent(talk, "r1", note, message="")
        kept = inbound(talk)
        assert list(kept.values()) == [b"some words"]
        assert "/" not in next(iter(kept))
        assert next(iter(kept)) in shown
        again = await talk.ok("chat.send", sessionKey=KEY, message="", idempotencyKey="r1", attachments=[note])
        assert again["status"] == "ok"
        assert len(inbound(talk)) == 1


@on_loop
async def test_what_is_called_a_picture_and_is_none_is_a_file(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        shown = await sent(talk, "r1", picture(content=coded(b"<svg onload=alert(1)>")))
        assert "image_url" not in shown
        assert "document sky.png" in shown
        shown = await sent(talk, "r2", {"fileName": "plain.bin", "content": f"data:x/y;base64,{coded(PNG)}"})
        assert "data:image/png;base64" in shown


@on_loop
async def test_agent_and_sessions_send_take_files_too(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        source = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": coded(PNG)}}
        answer = await talk.client.call("agent", {"message": "see", "idempotencyKey": "a1", "attachments": [source]})
        assert answer["payload"]["status"] == "accepted"
        await talk.until("a1", "final")
        assert "data:image/png;base64" in json.dumps(talk.stage.brain.asks[-1].body)
        await talk.ok("sessions.send", key=KEY, message="", idempotencyKey="s1", attachments=[picture()])
        await talk.until("s1", "final")
        assert "data:image/png;base64" in json.dumps(talk.stage.brain.asks[-1].body)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ({"fileName": "a", "content": "not base64!"}, "attachment a: invalid base64 content"),
        ({"fileName": "a", "content": 7}, "attachment a: content must be base64 string"),
        ({"content": ""}, "attachment 1: content must be base64 string"),
        ({"content": "===="}, "attachment 1: is empty"),
        ({"content": "eA", "path": "/etc/passwd"}, "at /attachments/0: unexpected property 'path'"),
        (picture(content=coded(PNG + b"x" * 6_291_456)), "attachment sky.png: exceeds size limit"),
    ],
)
@on_loop
async def test_a_bad_file_refuses_the_message(tmp_path: Path, file: dict[str, Any], words: str) -> None:
    async with talking(tmp_path) as talk:
        error = await talk.error("chat.send", sessionKey=KEY, message="x", idempotencyKey="r1", attachments=[file])
        assert words in error["message"]
        assert (await talk.ok("chat.history", sessionKey=KEY))["messages"] == []


@on_loop
async def test_files_are_bounded_in_number_and_size(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        many = [{"content": "eA"}] * 17
        error = await talk.error("chat.send", sessionKey=KEY, message="x", idempotencyKey="r1", attachments=many)
        assert error["message"] == "at most 16 attachments go with one message"
        large = [{"content": coded(b"x" * 8_000_000)}, {"content": coded(b"y" * 8_000_000)}]
        shown = await sent(talk, "r2", *large)
        assert "8000000 bytes" in shown


@on_loop
async def test_how_much_a_session_thinks_is_checked_and_kept(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        for method, params in (
            ("chat.send", {"sessionKey": KEY, "message": "x", "idempotencyKey": "r1", "thinking": "enormous"}),
            ("sessions.send", {"key": KEY, "message": "x", "thinking": "enormous"}),
            ("agent", {"sessionKey": KEY, "message": "x", "idempotencyKey": "r2", "thinking": "enormous"}),
        ):
            error = await talk.error(method, **params)
            assert error["message"].startswith('thinkingLevel "enormous" is not supported')
        await talk.ok("chat.send", sessionKey=KEY, message="x", idempotencyKey="r3", thinking="low")
        await talk.until("r3", "final")
        assert (await talk.ok("sessions.describe", key=KEY))["session"]["thinkingLevel"] == "low"


class Together:
    """A store of files in which several requests meet: none goes on before all have come."""

    def __init__(self, blobs: Any, parties: int) -> None:
        self._blobs = blobs
        self._meeting = asyncio.Barrier(parties)

    async def put(self, content: bytes) -> str:
        found: str = await self._blobs.put(content)
        await self._meeting.wait()
        return found


@on_loop
async def test_one_message_with_a_file_from_several_connections_at_once_begins_one_run(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        talk.gateway.blobs = Together(talk.gateway.blobs, 3)  # type: ignore[assignment]
        clients = [talk.client, await talk.connect(), await talk.connect()]
        params = {"sessionKey": KEY, "message": "look", "idempotencyKey": "r1", "attachments": [picture()]}
        for client in clients:
            await client.socket.send_json({"type": "req", "id": "q", "method": "chat.send", "params": params})
        answers = sorted([(await client.answer("q"))["payload"]["status"] for client in clients])
        assert answers == ["in_flight", "in_flight", "started"]
        final = (await talk.until("r1", "final"))[-1]
        assert final["message"]["content"][0]["text"].startswith("echo: look"), "no bare end comes before"
        assert len(talk.stage.brain.asks) == 1
