"""How turns ended that gave no whole answer, as messages of a transcript: the shapes that clients know of live runs."""

from __future__ import annotations

from typing import Any

from tidegate.gateway import replies
from tidegate.gateway.plane.runs import ABORTED
from tidegate.sessions.model import TurnState
from tidegate.sessions.operating import Ending, Line


def told_of(ending: Ending) -> str:
    """Return what the person read in place of an answer; without that, what this kind of failure says."""
    if ending.state is not TurnState.FAILED:
        return ""
    return ending.told or (replies.EXHAUSTED if ending.reason == "exhausted" else replies.failure(ending.reason))


def with_ending(line: Line, said: dict[str, Any], conversation: str) -> list[dict[str, Any]]:
    """Return a message with the end of its turn: marked, when it is what a stop cut off; else a message of its own.

    The message of its own stands nowhere in the store. It carries the number of the message before it.
    """
    ending = line.ending
    if ending is None:
        return [said]
    aborted = {"aborted": True, "origin": "rpc", "runId": line.run}
    if ending.state is TurnState.STOPPED and said.get("stopReason") == "stop":
        return [{**said, "stopReason": "aborted", "openclawAbort": aborted}]
    at = ending.at // 1000 or said["timestamp"]
    provider, _, model = line.model.partition("/")
    about = {"id": f"{conversation}:{line.seq}:end", "seq": line.seq, "recordTimestampMs": at, "runId": line.run}
    end: dict[str, Any] = {
        "role": "assistant",
        **({"provider": provider, "model": model} if line.model else {}),
        "timestamp": at,
        "__openclaw": about,
    }
    if ending.state is TurnState.STOPPED:
        more = {"content": [], "stopReason": "aborted", "errorMessage": ABORTED, "openclawAbort": aborted}
        return [said, {**end, **more}]
    text = told_of(ending)
    return [said, {**end, "content": [{"type": "text", "text": text}], "stopReason": "error", "errorMessage": text}]
