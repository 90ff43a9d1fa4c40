"""What another gateway of this protocol answered over HTTP, asked again here: status, headers and every recorded field.

We may tell more than it does, never less. Texts of the model, ids, times and counts are compared by their kind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fakes.event_loop import on_loop
from harness.brain import Answer, Ask
from harness.stage import stage

RECORDING = Path(__file__).resolve().parents[1] / "data" / "http" / "http-surface.jsonl"
TOKEN = "golden-token-0123456789abcdef-golden"
GATEWAY = (
    f'gateway: {{ auth: {{ mode: "token", token: "{TOKEN}" }}, http: {{ endpoints:'
    " { chatCompletions: { enabled: true }, responses: { enabled: true } } } },"
)
NOT_SERVED = ("/hooks", "/sessions/", "/chat", "/__openclaw", "/favicon.svg", "/v1/embeddings")
"""Webhooks, history and web pages have tests of their own where they exist; we have no embeddings."""
NOT_TOLD = {
    "eventLoop": "how busy one particular runtime is",
    "details": "of session_status: facts about the other gateway's features",
}
TEXTS = {
    "Expected property name or '}' in JSON at position 1 (line 1 column 2)": "the words of another JSON parser",
}
COUNTED = ("created", "created_at", "uptimeMs", "prompt_tokens", "completion_tokens", "total_tokens", "input_tokens")


def rows() -> list[Any]:
    """Return the recorded requests that are answered here too."""
    found = []
    for number, line in enumerate(RECORDING.read_text(encoding="utf-8").splitlines(), 1):
        row = json.loads(line)
        url = row["req"]["url"]
        if url != "/" and not url.startswith(NOT_SERVED):
            found.append(pytest.param(row, id=f"{number} {row['req']['method']} {url}"))
    return found


def missing(theirs: Any, ours: Any, path: str = "") -> list[str]:
    """Return where we tell less than was recorded, or something else."""
    name = path.rsplit(".", 1)[-1]
    if name in NOT_TOLD or (isinstance(theirs, str) and theirs in TEXTS):
        return []
    if isinstance(theirs, dict):
        if not isinstance(ours, dict):
            return [f"{path}: {ours!r}"]
        return [problem for key, value in theirs.items() for problem in missing(value, ours.get(key), f"{path}.{key}")]
    if isinstance(theirs, list):
        if name == "data":
            return [f"{path}: no {entry['id']}" for entry in theirs if entry not in ours]
        if not isinstance(ours, list) or len(ours) != len(theirs):
            return [f"{path}: {ours!r}"]
        pairs = zip(theirs, ours, strict=True)
        return [problem for at, (one, two) in enumerate(pairs) for problem in missing(one, two, f"{path}.{at}")]
    if name in COUNTED or name.endswith("_tokens"):
        return [] if isinstance(ours, int) else [f"{path}: {ours!r}"]
    if name == "id" and "_" in str(theirs):
        return [] if str(ours).startswith(theirs.partition("_")[0] + "_") else [f"{path}: {ours!r}"]
    if name == "text" and "OpenClaw" in str(theirs):
        return [] if ours else [f"{path}: nothing"]
    return [] if ours == theirs else [f"{path}: {ours!r}, recorded {theirs!r}"]


def chunks(text: str) -> list[Any]:
    """Return the chunks of a stream, those with pieces of text joined to one."""
    joined: list[Any] = []
    for block in filter(None, text.split("\n\n")):
        data = block.partition("data: ")[2]
        chunk = data if data == "[DONE]" else json.loads(data)
        delta = chunk["choices"][0]["delta"] if isinstance(chunk, dict) and chunk["choices"] else {}
        if "content" in delta and joined and "content" in joined[-1]["choices"][0]["delta"]:
            joined[-1]["choices"][0]["delta"]["content"] += delta["content"]
        else:
            joined.append(chunk)
    return joined


async def says_hello(_: Ask) -> Answer:
    return "Hello from the mock model."


def sent(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the recorded headers that a client chooses."""
    return {name: value for name, value in headers.items() if name in ("authorization", "content-type", "accept")}


@pytest.mark.parametrize("row", rows())
def test_it_is_answered_as_it_was_recorded(tmp_path: Path, row: Any) -> None:
    @on_loop
    async def check() -> None:
        asked, told = row["req"], row["res"]
        async with stage(tmp_path, more=GATEWAY) as play, play.gateway() as gateway, aiohttp.ClientSession() as http:
            play.brain.think = says_hello
            url = f"http://127.0.0.1:{gateway.port}{asked['url']}"
            body = asked["body"].encode() or None
            async with http.request(asked["method"], url, data=body, headers=sent(asked["headers"])) as response:
                text = await response.text()
            assert response.status == told["status"]
            for name in ("content-type", "allow", "x-content-type-options", "referrer-policy"):
                assert response.headers.get(name) == told["headers"].get(name)
            if told["headers"].get("cache-control"):
                assert response.headers["cache-control"] == told["headers"]["cache-control"]
            recorded = told["body"]
            if recorded.endswith("…"):
                assert text.startswith(recorded[: recorded.index(":") + 2])
            elif told["headers"]["content-type"].startswith("text/event-stream"):
                assert not missing(chunks(recorded), chunks(text))
            elif recorded.startswith("{"):
                assert not missing(json.loads(recorded), json.loads(text))
            else:
                assert text == recorded

    check()
