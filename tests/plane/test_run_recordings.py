"""Recorded runs of the reference gateway, lived through with ours: same requests, same answers, same order of events.

Compared is the shape: for each run the order of its events with pieces of text counted once, the small answers whole,
and of answers that describe the product the fields that clients read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance_kinds.protocol_kinds import replay
from fakes.event_loop import on_loop
from plane.client import RawClient
from plane.mock_model import mock
from plane.talking import Talk, talking

RECORDINGS = Path(__file__).resolve().parents[1] / "data" / "vectors" / "protocol-runs"
NAMES = sorted(path.stem for path in RECORDINGS.glob("*.jsonl"))
WHOLE = {
    "chat.send",
    "chat.abort",
    "sessions.abort",
    "sessions.send",
    "sessions.messages.subscribe",
    "sessions.resolve",
}
"""Methods whose answers are compared whole."""
NOT_OURS = {
    "agent usage": "told when a turn ends, and only where the provider tells tokens",
    "agent item update": "there is no notice of what is said before a call",
    "agent lifecycle fallback_step": "an exhausted chain of models is one error",
    "agent item preamble": "there is no notice of what is said before a call",
}
READ = {
    "chat.history": {"sessionKey", "messages", "pendingInputs", "hasMore", "totalMessages", "defaults"},
    "sessions.list": {"ts", "path", "count", "totalCount", "limitApplied", "nextOffset", "hasMore", "sessions"},
    "sessions.describe": {"session"},
    "sessions.preview": {"ts", "previews"},
    "sessions.create": {"ok", "key", "entry", "runStarted", "resolved"},
    "sessions.patch": {"ok", "path", "key", "entry", "resolved"},
    "sessions.reset": {"ok", "key", "entry"},
    "sessions.delete": {"ok", "key", "deleted", "archived"},
    "sessions.compact": {"ok", "key", "compacted", "reason"},
    "sessions.get": {"messages"},
    "sessions.subscribe": {"subscribed"},
    "sessions.usage": {"updatedAt", "startDate", "endDate", "sessions", "totals"},
    "agent.wait": {"runId", "status"},
    "agent.identity.get": {"agentId", "name", "nameSource", "avatar"},
}
EXCEPTIONS = {
    ("sessions-ops", "r4-sessions.patch"): "which levels a model takes shows when it is asked; names are checked",
}
STEER = 'messages: { queue: { mode: "steer" } },'


class Live:
    """One connection of a recording, lived through.

    Attributes:
        names: From words of the recording that differ here to ours: keys and ids that the gateway made.
    """

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.frames: list[dict[str, Any]] = []
        self.names: dict[str, str] = {"mock/mock-1": "fake/model"}

    async def until(self, fits: Any) -> dict[str, Any]:
        """Read frames until one fits; those on the way are kept."""
        while True:
            frame = await self.client.frame()
            self.frames.append(frame)
            if fits(frame):
                return frame

    def ours(self, value: Any) -> Any:
        """Return a value of the recording in our words."""
        text = json.dumps(value)
        for theirs, name in self.names.items():
            text = text.replace(theirs, name)
        return json.loads(text)


def run_words(frames: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the events of each run in few words, in order."""
    found: dict[str, list[str]] = {}
    for frame in frames:
        payload = frame.get("payload")
        if frame.get("event") not in ("chat", "agent") or not isinstance(payload, dict):
            continue
        words = found.setdefault(payload["runId"], [])
        if frame["event"] == "chat":
            word = f"chat {payload['state']}" + (f" {payload['phase']}" if "phase" in payload else "")
        else:
            data = payload["data"]
            word = f"agent {payload['stream']}" + (f" {data['phase']}" if "phase" in data else "")
            if data.get("kind") == "preamble":
                word = "agent item preamble"
            if word == "agent lifecycle model" and data.get("model") is None:
                word += " none"
        is_text = word in ("chat delta", "agent assistant") and word in words[-2:]
        is_second_error = word == "chat error" and word in words
        if word not in NOT_OURS and not is_text and not is_second_error:
            words.append(word)
    for words in found.values():
        if "chat aborted" in words:
            # Whether the model's beginning is told once more after the abort is a race of theirs.
            end = words.index("chat aborted")
            words[end:] = [word for word in words[end:] if word != "agent lifecycle model"]
    return found


def marks_progress(frame: dict[str, Any]) -> tuple[str, str] | None:
    """Return what later requests of a recording may depend on: (run, state)."""
    payload = frame.get("payload")
    if not isinstance(payload, dict):
        return None
    if frame.get("event") == "chat" and payload["state"] in ("final", "error", "aborted", "delta"):
        return payload["runId"], payload["state"]
    if frame.get("event") == "agent" and payload["data"].get("phase") == "error":
        return payload["runId"], "settled"
    return None


async def live_through(talk: Talk, lines: list[dict[str, Any]]) -> tuple[Live, dict[str, dict[str, Any]]]:
    """Send what the recorded client sent, each when ours is as far as theirs was; returns the answers by id."""
    connect = next(row["frame"] for row in lines if row.get("frame", {}).get("method") == "connect")
    live = Live(await talk.connect(*connect["params"].get("caps", ())))
    seen: set[tuple[str, str]] = set()
    answers: dict[str, dict[str, Any]] = {}

    def note(frame: dict[str, Any]) -> None:
        mark = marks_progress(frame)
        if mark is not None:
            seen.add(mark)
        if frame["type"] == "res":
            answers[frame["id"] if frame["id"] not in answers else f"{frame['id']} again"] = frame

    counted: dict[str, int] = {}
    for row in lines:
        frame = row.get("frame")
        if frame is None or frame.get("method") == "connect" or frame.get("event") == "connect.challenge":
            continue
        if row["dir"] == "c2s":
            await live.client.socket.send_json(live.ours(frame))
            continue
        if frame["type"] == "res" and (frame.get("payload") or {}) and _is_hello(frame):
            continue
        if frame["type"] == "res":
            counted[frame["id"]] = counted.get(frame["id"], 0) + 1
            wanted = frame["id"] if counted[frame["id"]] == 1 else f"{frame['id']} again"
            while wanted not in answers:
                note(await live.until(lambda _: True))
            _learn(live, frame, answers[wanted])
        elif (mark := marks_progress(frame)) is not None:
            while mark not in seen:
                note(await live.until(lambda _: True))
    return live, answers


def _is_hello(frame: dict[str, Any]) -> bool:
    return isinstance(frame.get("payload"), dict) and frame["payload"].get("type") == "hello-ok"


def _learn(live: Live, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """Remember the key of a session that both gateways made."""
    made, here = theirs.get("payload"), ours.get("payload")
    if isinstance(made, dict) and isinstance(here, dict) and "runStarted" in made:
        live.names[made["key"]] = here["key"]


def recorded_answers(lines: list[dict[str, Any]]) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Return methods and responses of a recording by id."""
    methods, answers = {}, {}
    for row in lines:
        frame = row.get("frame") or {}
        if row["dir"] == "c2s" and frame.get("method") not in (None, "connect"):
            methods[frame["id"]] = frame["method"]
        elif frame.get("type") == "res" and not _is_hello(frame):
            answers[frame["id"] if frame["id"] not in answers else f"{frame['id']} again"] = frame
    return methods, answers


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_run_goes_the_same_way_here(name: str, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (RECORDINGS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]

    @on_loop
    async def run() -> None:
        async with talking(tmp_path, STEER if name == "chat-queue-second" else "") as talk:
            talk.stage.brain.think = mock
            talk.stage.brain.pace = 0.05 if any("SLOW" in json.dumps(row) for row in lines) else 0.0
            live, answers = await live_through(talk, lines)
            methods, recorded = recorded_answers(lines)
            for request, theirs in recorded.items():
                plain = request.removesuffix(" again")
                if (name, plain) in EXCEPTIONS:
                    continue
                compare(methods[plain], live.ours(theirs), answers[request])
            ours, expected = run_words(live.frames), run_words([row["frame"] for row in lines if "frame" in row])
            for run_id, words in expected.items():
                assert ours.get(run_id) == words, run_id

    run()


def compare(method: str, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """Assert that an answer is the recorded one, as far as it is compared."""
    assert ours["ok"] == theirs["ok"], (method, ours)
    if not theirs["ok"]:
        assert ours["error"]["code"] == theirs["error"]["code"], method
        assert ours["error"]["message"] == theirs["error"]["message"], method
    elif method in WHOLE:
        assert ours["payload"] == theirs["payload"], method
    elif method == "agent":
        assert ours["payload"]["status"] == theirs["payload"]["status"], method
        assert set(ours["payload"]) == set(theirs["payload"]), method
        if "result" in theirs["payload"]:
            assert ours["payload"]["result"]["payloads"] == theirs["payload"]["result"]["payloads"]
    else:
        missing = READ[method] - set(ours["payload"])
        assert not missing, (method, missing)
        if method in ("chat.history", "sessions.get"):
            assert speakers(ours) == speakers(theirs), method


def speakers(answer: dict[str, Any]) -> list[str]:
    """Return who speaks in a transcript. Words before a call and the call are two messages there, one here."""
    roles = [message["role"] for message in answer["payload"]["messages"]]
    return [role for at, role in enumerate(roles) if at == 0 or roles[at - 1] != role]


def test_the_command_replays_a_run_with_the_model_of_the_recording() -> None:
    recording = [json.loads(line) for line in (RECORDINGS / "chat-send-basic.jsonl").read_text().splitlines()]
    said = json.dumps(replay(recording))
    assert "Hello from the mock model." in said
    assert '"state": "final"' in said
