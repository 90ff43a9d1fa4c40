"""The second response of `agent`: from a run that this process saw, or from what the store kept of it."""

from __future__ import annotations

from typing import Any

from tidegate.agent_runtime.messages import Role
from tidegate.agent_runtime.transcript import decode_message
from tidegate.gateway.egress import visible
from tidegate.gateway.plane.runs import Run
from tidegate.sessions.model import TurnState
from tidegate.sessions.operating import Answered


def final_of(run: Run) -> dict[str, Any]:
    """Return the second response of `agent`."""
    provider, model = run.provider
    usage = {"input": run.tokens_in, "output": run.tokens_out, "cacheRead": 0, "cacheWrite": 0}
    usage["total"] = run.tokens_in + run.tokens_out
    about = {"sessionId": run.conversation, "sessionKey": run.session, "provider": provider, "model": model}
    aborted = run.status == "aborted"
    return {
        "runId": run.id,
        "status": "ok",
        "summary": "aborted" if aborted else "completed",
        "result": {
            "payloads": [{"text": run.text, "mediaUrl": None}] if run.text else [],
            "meta": {
                "durationMs": max(0, run.ended_at - run.asked_at),
                "agentMeta": {**about, "usage": usage},
                "aborted": aborted,
                "stopReason": run.stop_reason,
            },
        },
    }


def stored_final(run: str, key: str, turn: Answered | None) -> dict[str, Any]:
    """Return the second response of `agent` for a turn that only the store knows."""
    if turn is None or turn.state is TurnState.RUNNING:
        # It was set aside, or joined a turn of another message, which was answered under that one's name.
        return {"runId": run, "status": "ok", "summary": "completed", "result": {"payloads": [], "meta": {}}}
    if turn.state is TurnState.FAILED:
        return {"runId": run, "status": "error", "summary": "the run failed", "result": {"payloads": []}}
    said = [decode_message(body) for body in turn.bodies]
    texts = [visible(message.text) for message in said if message.role is Role.ASSISTANT]
    text = "" if not texts or said[-1].tool_calls else texts[-1]
    provider, _, model = turn.model.partition("/")
    usage = {"input": turn.tokens_in, "output": turn.tokens_out, "cacheRead": 0, "cacheWrite": 0}
    usage["total"] = turn.tokens_in + turn.tokens_out
    about = {"sessionId": turn.conversation, "sessionKey": key, "provider": provider, "model": model, "usage": usage}
    aborted = turn.state is TurnState.STOPPED
    return {
        "runId": run,
        "status": "ok",
        "summary": "aborted" if aborted else "completed",
        "result": {
            "payloads": [{"text": text, "mediaUrl": None}] if text else [],
            "meta": {"durationMs": 0, "agentMeta": about, "aborted": aborted},
        },
    }
