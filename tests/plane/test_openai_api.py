"""`/v1` and `/tools/invoke` of a whole gateway, as programs see them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.event_loop import on_loop
from harness.brain import Answer, Ask, Error, Tools
from harness.stage import Stage, stage
from tidegate.gateway.app import Gateway
from tidegate.gateway.http import openai_api
from tidegate.gateway.http.openai_api import user_part
from tidegate.gateway.http.openai_wire import ApiError, read_body, read_chat, read_responses
from tidegate.gateway.http.public import public_app

TOKEN = "token-of-this-gateway-0123456789"
ENDPOINTS = "http: { endpoints: { chatCompletions: { enabled: true }, responses: { enabled: true } } }"
GATEWAY = (
    f'gateway: {{ auth: {{ mode: "token", token: "{TOKEN}", rateLimit: {{ exemptLoopback: false, maxAttempts: 3 }} }},'
    f" {ENDPOINTS} }},"
)
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Api:
    """A gateway and a client of it."""

    def __init__(self, play: Stage, gateway: Gateway, http: aiohttp.ClientSession) -> None:
        self.play = play
        self.gateway = gateway
        self.http = http
        self.url = f"http://127.0.0.1:{gateway.port}"

    async def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Return status and body."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = BEARER if headers is None else headers
        async with self.http.request(method, self.url + path, data=data, headers=sent) as response:
            text = await response.text()
            is_json = response.content_type == "application/json"
            return response.status, json.loads(text) if is_json and text else text

    async def chat(self, text: str, headers: dict[str, str] | None = None, **more: Any) -> tuple[int, Any]:
        """Ask with one message."""
        body = {"model": "openclaw", "messages": [{"role": "user", "content": text}], **more}
        return await self.call("POST", "/v1/chat/completions", body, {**BEARER, **(headers or {})})

    async def events(self, path: str, body: Any) -> list[tuple[str, Any]]:
        """Return the events of a stream: name, and data or its text."""
        async with self.http.post(self.url + path, json={**body, "stream": True}, headers=BEARER) as response:
            assert response.status == 200
            assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            blocks = (await response.text()).split("\n\n")
        found = []
        for block in filter(None, blocks):
            lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if lines:
                data = lines["data"]
                found.append((lines.get("event", ""), data if data == "[DONE]" else json.loads(data)))
        return found

    async def keys(self) -> list[str]:
        """Return the keys of all sessions, oldest first."""
        return [session.key for session in reversed(await self.gateway.store.sessions(100))]


@asynccontextmanager
async def api(state_dir: Path, more: str = GATEWAY) -> AsyncIterator[Api]:
    """Run a gateway that serves programs."""
    async with stage(state_dir, more=more) as play, play.gateway() as gateway, aiohttp.ClientSession() as http:
        yield Api(play, gateway, http)


@on_loop
async def test_an_answer_comes_back_whole_with_what_it_used(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        status, body = await running.chat("hello there")
        assert status == 200
        assert body["id"].startswith("chatcmpl_")
        assert body["object"] == "chat.completion"
        assert body["model"] == "openclaw"
        message = {"role": "assistant", "content": "echo: hello there"}
        assert body["choices"] == [{"index": 0, "message": message, "finish_reason": "stop"}]
        assert set(body["usage"]) == {"prompt_tokens", "completion_tokens", "total_tokens"}


@on_loop
async def test_a_stream_begins_with_the_role_and_ends_with_usage_and_done(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        running.play.brain.pace = 0.02
        body = {
            "model": "tidegate/main",
            "messages": [{"role": "user", "content": "a longer text to be told in pieces"}],
            "stream_options": {"include_usage": True},
        }
        events = [data for _, data in await running.events("/v1/chat/completions", body)]
        assert events[0]["choices"] == [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]
        pieces = [chunk["choices"][0]["delta"]["content"] for chunk in events[1:-3]]
        assert len(pieces) > 1
        assert "".join(pieces) == "echo: a longer text to be told in pieces"
        assert events[-3]["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
        assert events[-2]["choices"] == []
        assert events[-2]["usage"]["total_tokens"] >= 0
        assert events[-1] == "[DONE]"
        assert len({chunk["id"] for chunk in events[:-1]}) == 1


@on_loop
async def test_what_a_run_says_between_tools_is_streamed_too(tmp_path: Path) -> None:
    async def think(ask: Ask) -> Answer:
        return "it is there" if ask.results else Tools((("ls", {"path": "."}),))

    async with api(tmp_path) as running:
        running.play.brain.think = think
        events = await running.events("/v1/chat/completions", {"messages": [{"role": "user", "content": "look"}]})
        said = "".join(data["choices"][0]["delta"].get("content", "") for _, data in events[:-1])
        assert said == "it is there"


@on_loop
async def test_each_call_has_a_session_of_its_own_and_user_one_that_lasts(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        await running.chat("one")
        await running.chat("two")
        assert [ask.said for ask in running.play.brain.asks] == [["one"], ["two"]]
        await running.chat("three", user="ana")
        await running.chat("four", user="ana")
        await running.chat("five", user="Ana")
        keys = await running.keys()
        assert len(keys) == 4
        assert all(key.startswith("agent:main:openai:") for key in keys[:2])
        assert "agent:main:openai-user:ana" in keys
        texts = [message["content"] for message in running.play.brain.asks[3].body["messages"]]
        assert texts[-3:] == ["three", "echo: three", "four"]
        assert running.play.brain.asks[4].said == ["five"]
        assert not running.play.brain.problems


@on_loop
async def test_earlier_messages_are_context_of_a_session_that_knows_nothing_yet(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        messages = [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "my name is Ana"}]},
            {"role": "assistant", "content": "hello Ana"},
            {"role": "user", "content": "what is my name?"},
        ]
        for _ in range(2):
            await running.call("POST", "/v1/chat/completions", {"messages": messages, "user": "u1"})
        first, second = (
            [(m["role"], m["content"]) for m in ask.body["messages"] if m["role"] != "system"]
            for ask in running.play.brain.asks
        )
        assert first == [
            ("user", "[Instructions for this conversation]\nbe brief\n\nmy name is Ana"),
            ("assistant", "hello Ana"),
            ("user", "what is my name?"),
        ]
        assert second[:3] == first
        assert second[3:] == [("assistant", "echo: what is my name?"), ("user", "what is my name?")]


@on_loop
async def test_a_session_and_an_agent_can_be_named_in_headers(tmp_path: Path) -> None:
    two = GATEWAY + 'agents: { entries: { main: { default: true }, ops: {} }, defaults: { model: "fake/model" } },'
    async with api(tmp_path, two) as running:
        status, _ = await running.chat("hi", {"x-openclaw-agent-id": "ops"})
        assert status == 200
        status, _ = await running.chat("hi", {"x-openclaw-session-key": "agent:ops:Project-X"})
        assert status == 200
        await running.chat("hi", {"x-openclaw-session-key": "main"})
        keys = await running.keys()
        assert keys[0].startswith("agent:ops:openai:")
        assert keys[1:] == ["agent:ops:project-x", "agent:main:main"]
        assert (await running.chat("hi", {"x-openclaw-session-key": "agent::x"}))[0] == 400
        assert (await running.chat("hi", {"x-openclaw-session-key": "agent:ghost:x"}))[0] == 400


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("chat/completions", {"model": "openclaw/ghost"}, "Unknown agent 'ghost'."),
        ("chat/completions", {"model": "gpt-4"}, "Invalid `model`. Use `openclaw` or `openclaw/<agentId>`."),
        ("chat/completions", {"model": "openclaw", "messages": []}, "Missing user message in `messages`."),
        ("chat/completions", {"model": "openclaw", "messages": None}, "Missing user message in `messages`."),
        (
            "chat/completions",
            {"tools": [{"type": "web_search"}]},
            "Only tools of type `function` can be brought along.",
        ),
        (
            "chat/completions",
            {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x"}}]}]},
            "Only text and pictures are supported as content.",
        ),
        ("responses", {"model": "openclaw"}, "input: Invalid input"),
        ("responses", {"input": "x", "previous_response_id": "r"}, "Previous response with id 'r' not found."),
    ],
)
def test_requests_that_cannot_be_answered_say_why(tmp_path: Path, path: str, body: dict[str, Any], text: str) -> None:
    @on_loop
    async def check() -> None:
        async with api(tmp_path) as running:
            whole = {"messages": [{"role": "user", "content": "hi"}], **body} if path != "responses" else body
            status, answer = await running.call("POST", f"/v1/{path}", whole)
            assert status == 400
            assert answer == {"error": {"message": text, "type": "invalid_request_error"}}
            assert not await running.keys()

    check()


@on_loop
async def test_bad_bodies_are_refused_and_long_ones_unread(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        for bad in (b"{bad", b"[]", b"[" * 200_000, b"\xff\xfe"):
            status, body = await running.call("POST", "/v1/chat/completions", bad)
            assert status == 400
            assert body["error"]["type"] == "invalid_request_error"

        async def endless() -> AsyncIterator[bytes]:
            for _ in range(21):
                yield b" " * (1 << 20)

        async with running.http.post(f"{running.url}/v1/responses", data=endless(), headers=BEARER) as response:
            assert response.status == 413


@on_loop
async def test_a_message_that_would_be_cut_is_refused(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        status, body = await running.chat("x" * 200_001)
        assert (status, body["error"]["message"]) == (400, "The message is longer than 200000 characters.")
        assert not running.play.brain.asks


@on_loop
async def test_models_are_the_agents(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        status, body = await running.call("GET", "/v1/models")
        assert status == 200
        names = [entry["id"] for entry in body["data"]]
        assert names == ["tidegate/main", "openclaw", "openclaw/default", "openclaw/main"]
        entry = {"id": "openclaw/main", "object": "model", "created": 0, "owned_by": "openclaw", "permission": []}
        assert body["data"][3] == entry
        assert await running.call("GET", "/v1/models/openclaw%2Fmain") == (200, entry)
        bad = {"error": {"message": "Invalid model id.", "type": "invalid_request_error"}}
        assert await running.call("GET", "/v1/models/nope") == (400, bad)
        assert (await running.call("GET", "/v1/models/openclaw%2Fghost"))[0] == 404


@on_loop
async def test_without_the_secret_nothing_is_told_and_guessing_ends(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        unauthorized = {"error": {"message": "Unauthorized", "type": "unauthorized"}}
        routes = [("GET", "/v1/models"), ("POST", "/v1/chat/completions"), ("POST", "/v1/responses")]
        for method, path in [*routes, ("GET", "/v1/models/openclaw"), ("POST", "/tools/invoke")]:
            assert await running.call(method, path, {}, {}) == (401, unauthorized), path
        for _ in range(3):
            assert await running.call("GET", "/v1/models", None, {"Authorization": "Bearer no"}) == (401, unauthorized)
        status, body = await running.call("GET", "/v1/models")
        assert status == 429
        assert body["error"]["type"] == "rate_limited"


@on_loop
async def test_no_route_is_open_but_health_and_the_page(tmp_path: Path) -> None:
    """A new route fails here until it asks who calls, or is named."""
    is_open = {"/health", "/healthz", "/ready", "/readyz", "/", "/chat", "/assets/{name}"}
    async with api(tmp_path) as running:
        app = public_app(running.gateway, lambda: (True, {}), lambda: pytest.fail("nobody was let in"))
        routes = {(route.method, resource.canonical) for resource in app.router.resources() for route in resource}
        assert {path for _, path in routes} >= {"/v1/models", "/v1/responses", "/tools/invoke", *is_open}
        for declared, path in routes:
            for method in ("GET", "POST", "PUT", "DELETE") if declared == "*" else (declared,):
                asked = path.replace("{id}", "openclaw").replace("{name}", "main.js").replace("{key}", "main")
                status, _ = await running.call(method, asked, None, {})
                assert status in ((200, 405) if path in is_open else (401, 405)), (method, path)


@on_loop
async def test_a_foreign_page_and_a_foreign_name_are_refused_whatever_they_know(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
            assert (await running.chat("hi", headers))[0] == 403
        assert not await running.keys()


@on_loop
async def test_what_is_not_switched_on_is_not_there(tmp_path: Path) -> None:
    async with api(tmp_path, f'gateway: {{ auth: {{ mode: "token", token: "{TOKEN}" }} }},') as running:
        for method, path in (("GET", "/v1/models"), ("POST", "/v1/chat/completions"), ("POST", "/v1/responses")):
            status, body = await running.call(method, path, {"input": "x"})
            assert status == 404
            assert "gateway.http.endpoints." in body["error"]["message"]
            stranger = {"Authorization": "Bearer wrong"}
            status, body = await running.call(method, path, {"input": "x"}, stranger)
            assert (status, body) == (404, "Not Found")


@on_loop
async def test_other_verbs_are_answered_with_the_ones_that_work(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        allowed = {
            "/v1/chat/completions": "POST",
            "/v1/responses": "POST",
            "/tools/invoke": "POST",
            "/v1/models": "GET, HEAD",
            "/health": "GET, HEAD",
            "/healthz": "GET, HEAD",
            "/ready": "GET, HEAD",
        }
        for path, methods in allowed.items():
            async with running.http.request("DELETE", running.url + path) as response:
                assert (response.status, response.headers["Allow"]) == (405, methods)
                assert await response.text() == "Method Not Allowed"


@on_loop
async def test_health_is_open_and_bare(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        for path in ("/health", "/healthz"):
            assert await running.call("GET", path, None, {}) == (200, {"ok": True, "status": "live"})
            async with running.http.head(running.url + path) as response:
                assert response.status == 200
                assert response.headers["X-Content-Type-Options"] == "nosniff"
                assert response.headers["Cache-Control"] == "no-store"
        status, near = await running.call("GET", "/ready", None, {})
        assert status == 200
        assert near["failing"] == []
        assert near["uptimeMs"] >= 0
        through_proxy = {"X-Forwarded-For": "203.0.113.9"}
        assert await running.call("GET", "/readyz", None, through_proxy) == (200, {"ready": True})
        assert "connections" in (await running.call("GET", "/readyz", None, {**through_proxy, **BEARER}))[1]


@on_loop
async def test_a_failed_run_is_an_error_that_clients_do_not_repeat(tmp_path: Path) -> None:
    async def think(ask: Ask) -> Answer:
        return Error(401, "no such key")

    async with api(tmp_path) as running:
        running.play.brain.think = think
        body = {"messages": [{"role": "user", "content": "hi"}]}
        url = f"{running.url}/v1/chat/completions"
        async with running.http.post(url, json=body, headers=BEARER) as response:
            assert response.status == 500
            assert response.headers["x-should-retry"] == "false"
            assert (await response.json())["error"]["type"] == "api_error"
        events = await running.events("/v1/chat/completions", body)
        assert events[-2][1]["error"]["type"] == "api_error"
        assert events[-1][1] == "[DONE]"
        events = await running.events("/v1/responses", {"input": "hi"})
        assert [name for name, _ in events][-2:] == ["response.failed", ""]


@on_loop
async def test_responses_tell_their_events_in_order(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        events = await running.events("/v1/responses", {"model": "openclaw", "input": "hello"})
        names = [name for name, _ in events]
        assert names[:4] == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
        ]
        assert set(names[4:-5]) == {"response.output_text.delta"}
        assert names[-5:] == [
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
            "",
        ]
        assert events[-1][1] == "[DONE]"
        assert [data["sequence_number"] for _, data in events[:-1]] == list(range(len(events) - 1))
        text = "".join(data["delta"] for name, data in events if name == "response.output_text.delta")
        final = events[-2][1]["response"]
        assert text == "echo: hello" == final["output"][0]["content"][0]["text"]
        assert final["id"].startswith("resp_")
        assert final["output"][0]["id"].startswith("msg_")
        assert final["output"][0]["phase"] == "final_answer"
        assert final["status"] == "completed"


@on_loop
async def test_a_response_can_follow_another(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one"}]}]
        _, first = await running.call("POST", "/v1/responses", {"input": items, "instructions": "be kind"})
        body = {"input": "two", "previous_response_id": first["id"]}
        status, second = await running.call("POST", "/v1/responses", body)
        assert status == 200
        assert second["output"][0]["content"][0]["text"] == "echo: two"
        texts = [message["content"] for message in running.play.brain.asks[1].body["messages"]]
        assert texts[-3] == "[Instructions for this conversation]\nbe kind\n\none"
        assert len(await running.keys()) == 1


@on_loop
async def test_a_text_that_looks_like_a_command_is_a_message(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        assert (await running.chat("/new"))[1]["choices"][0]["message"]["content"] == "echo: /new"


@on_loop
async def test_a_client_that_goes_away_ends_the_turn_of_its_passing_session(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        gate = running.play.brain.hold("never mind")
        body = {"messages": [{"role": "user", "content": "never mind"}]}
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(running.call("POST", "/v1/chat/completions", body))
            while not running.play.brain.asks:
                await asyncio.sleep(0.01)
            asking.cancel()
        while running.play.rows("SELECT 1 FROM sessions WHERE owner IS NOT NULL"):
            await asyncio.sleep(0.05)
        assert running.play.rows("SELECT state FROM turns") == [("stopped",)]
        gate.set()


@on_loop
async def test_an_orderly_stop_lets_requests_get_their_answers(tmp_path: Path) -> None:
    async with stage(tmp_path, more=GATEWAY) as play, aiohttp.ClientSession() as http, asyncio.TaskGroup() as group:
        gate = play.brain.hold("wait for me")
        async with play.gateway() as gateway:
            asking = group.create_task(Api(play, gateway, http).chat("wait for me"))
            while not play.brain.asks:
                await asyncio.sleep(0.01)
            asyncio.get_running_loop().call_later(0.2, gate.set)
        status, body = await asking
        assert status == 200
        assert body["choices"][0]["message"]["content"] == "echo: wait for me"


@on_loop
async def test_a_message_survives_the_death_of_the_gateway(tmp_path: Path) -> None:
    async with stage(tmp_path, more=GATEWAY) as play, aiohttp.ClientSession() as http, asyncio.TaskGroup() as group:
        gate = play.brain.hold("remember me")
        async with play.gateway(drain=False) as gateway:
            asking = group.create_task(tried(Api(play, gateway, http).chat("remember me", user="ana")))
            while not play.brain.asks:
                await asyncio.sleep(0.01)
        status, _ = await asking
        assert status != 200
        gate.set()
        async with play.gateway() as gateway:
            while play.rows("SELECT state FROM events") != [("answered",)]:
                await asyncio.sleep(0.05)
            _, body = await Api(play, gateway, http).chat("what did I say?", user="ana")
        texts = [message["content"] for message in play.brain.asks[-1].body["messages"]]
        assert texts[-3:] == ["remember me", "echo: remember me", "what did I say?"]
        assert body["choices"][0]["message"]["content"] == "echo: what did I say?"


async def tried(call: Awaitable[tuple[int, Any]]) -> tuple[int, Any]:
    """Return status and body, 0 when the connection broke."""
    try:
        return await call
    except aiohttp.ClientError as error:
        return 0, str(error)


@on_loop
async def test_many_requests_at_once_each_get_their_own_answer(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(running.chat(f"number {n}")) for n in range(12)]
        said = [task.result()[1]["choices"][0]["message"]["content"] for task in tasks]
        assert said == [f"echo: number {n}" for n in range(12)]


@on_loop
async def test_tools_that_only_read_can_be_called_and_no_others(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        status, body = await running.call("POST", "/tools/invoke", {"tool": "session_status", "args": {}})
        assert status == 200
        assert body["ok"] is True
        assert "Session: agent:main:main" in body["result"]["content"][0]["text"]
        assert body["result"]["details"] == {}
        for name in ("exec", "write", "edit", "no_such_tool", "gateway", "bash"):
            status, body = await running.call("POST", "/tools/invoke", {"tool": name, "args": {"path": "x"}})
            assert status == 404
            assert body == {"ok": False, "error": {"type": "not_found", "message": f"Tool not available: {name}"}}
        missing = {"ok": False, "error": {"type": "invalid_request", "message": "tools.invoke requires name"}}
        assert await running.call("POST", "/tools/invoke", {}) == (400, missing)
        status, body = await running.call(
            "POST", "/tools/invoke", {"name": "read", "args": {"path": "../../etc/passwd"}}
        )
        assert (status, body["ok"]) == (400, False)
        status, body = await running.call("POST", "/tools/invoke", {"name": "ls", "dryRun": True})
        assert body["result"]["details"] == {"dryRun": True, "tool": "ls"}


@on_loop
async def test_policy_decides_about_tools_called_from_outside(tmp_path: Path) -> None:
    async with api(tmp_path, GATEWAY + 'tools: { deny: ["ls"] },') as running:
        assert (await running.call("POST", "/tools/invoke", {"tool": "ls"}))[0] == 404
        assert (await running.call("POST", "/tools/invoke", {"tool": "find", "args": {"pattern": "*"}}))[0] == 200


KEYS = ["messages", "input", "role", "content", "type", "text", "user", "model", "stream", "tools", "instructions"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)


def refused(read: Callable[[], Any]) -> Any:
    """Return what was read, or the refusal."""
    try:
        return read()
    except ApiError as error:
        return error


@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6))
def test_any_body_is_understood_or_refused_in_words(body: dict[str, Any]) -> None:
    for read in (read_chat, read_responses):
        asked = refused(lambda read=read: read(body))
        if isinstance(asked, ApiError):
            assert (asked.status, bool(str(asked))) == (400, True)
        else:
            assert asked.text.strip()
            assert asked.opening.endswith(asked.text)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_refused(raw: bytes) -> None:
    read = refused(lambda: read_body(raw))
    assert read.status == 400 if isinstance(read, ApiError) else isinstance(read, dict)


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_two_users_never_share_a_session_and_none_forges_a_key(one: str, other: str) -> None:
    assert ":" not in user_part(one)
    assert user_part(one) == user_part(one).lower()
    assert one == other or user_part(one) != user_part(other)


PNG = b"\x89PNG\r\n\x1a\n" + b"pixels" * 10
PNG_URL = "data:image/png;base64," + base64.b64encode(PNG).decode()


def shows(url: str, text: str = "what is this?") -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]


@on_loop
async def test_a_picture_as_a_data_url_is_shown_to_the_model(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        body = {"model": "openclaw", "messages": [{"role": "user", "content": shows(PNG_URL)}]}
        status, _ = await running.call("POST", "/v1/chat/completions", body)
        assert status == 200
        assert PNG_URL in json.dumps(running.play.brain.asks[-1].body["messages"])
        part = {"type": "input_image", "image_url": PNG_URL}
        body = {"model": "openclaw", "input": [{"role": "user", "content": [part]}]}
        assert (await running.call("POST", "/v1/responses", body))[0] == 200
        assert PNG_URL in json.dumps(running.play.brain.asks[-1].body["messages"])
        # A picture of an earlier message is named only.
        older = [{"role": "user", "content": shows(PNG_URL)}, {"role": "assistant", "content": "a sky"}]
        body = {"model": "openclaw", "messages": [*older, {"role": "user", "content": "sure?"}]}
        assert (await running.call("POST", "/v1/chat/completions", body))[0] == 200
        told = json.dumps(running.play.brain.asks[-1].body["messages"])
        assert PNG_URL not in told
        assert "[a picture]" in told


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://example.org/x.png", "addresses are not fetched"),
        ("http://169.254.169.254/latest", "addresses are not fetched"),
        ("file:///etc/passwd", "addresses are not fetched"),
        ("data:image/png,plain", "must be base64"),
        ("data:image/png;base64,!!!", "invalid base64"),
        ("data:image/svg+xml;base64,PHN2Zz4=", "is no PNG, JPEG, GIF or WebP"),
        (None, "addresses are not fetched"),
    ],
)
@on_loop
async def test_no_other_picture_is_taken_and_none_is_fetched(tmp_path: Path, url: str, words: str) -> None:
    async with api(tmp_path) as running:
        body = {"model": "openclaw", "messages": [{"role": "user", "content": shows(url)}]}
        status, answer = await running.call("POST", "/v1/chat/completions", body)
        assert (status, words in answer["error"]["message"]) == (400, True), answer
        assert running.play.brain.asks == []


@on_loop
async def test_a_request_chooses_its_model_for_itself_only(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        other = {"x-openclaw-model": "fake/other"}
        models = []
        for headers in (other, {}, other):
            await running.chat("hello", headers, user="ann")
            models.append(running.play.brain.asks[-1].body["model"])
        await running.chat("hello", other)
        models.append(running.play.brain.asks[-1].body["model"])
        assert models == ["other", "model", "other", "other"]
        for bad in ("other", "/x", "fake/", "fake/" + "x" * 300):
            status, answer = await running.chat("hello", {"x-openclaw-model": bad})
            assert (status, "x-openclaw-model" in answer["error"]["message"]) == (400, True)


@on_loop
async def test_what_was_said_is_read_in_pages(tmp_path: Path) -> None:
    async with api(tmp_path) as running:
        for number in range(3):
            await running.chat(f"m{number}", user="ann")
        path = "/sessions/agent:main:openai-user:ann/history"
        status, page = await running.call("GET", f"{path}?limit=2")
        assert status == 200
        assert (page["sessionKey"], page["hasMore"]) == ("agent:main:openai-user:ann", True)
        assert [message["role"] for message in page["messages"]] == ["user", "assistant"]
        assert page["items"] == page["messages"]
        assert page["messages"][0]["content"] == "m2"
        older = (await running.call("GET", f"{path}?limit=10&cursor={page['nextCursor']}"))[1]
        assert [m["content"] for m in older["messages"] if m["role"] == "user"] == ["m0", "m1"]
        assert older["hasMore"] is False
        assert (await running.call("GET", f"{path}?limit=x"))[0] == 400
        assert (await running.call("GET", "/sessions/agent:ghost:x/history"))[0] == 400
        assert (await running.call("GET", "/sessions/nothing/history"))[0] == 404
        assert (await running.call("GET", path, headers={}))[0] == 401


@on_loop
async def test_sessions_of_requests_without_a_name_are_forgotten_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_api, "KEEP_LONE", 2)
    monkeypatch.setattr(openai_api, "PRUNE_EVERY", 5)
    async with api(tmp_path) as running:
        await running.chat("named", user="ann")
        for key in ("notes:openai:plans", "openai:plans", "explicit:openai:0198b6a0-0000-7000-8000-000000000000"):
            await running.chat("kept", {"x-openclaw-session-key": key})
        for number in range(10):
            await running.chat(f"lone {number}")
        keys = await running.keys()
        assert {"agent:main:openai-user:ann", "agent:main:notes:openai:plans", "agent:main:openai:plans"} <= set(keys)
        assert "agent:main:explicit:openai:0198b6a0-0000-7000-8000-000000000000" in keys
        assert len(keys) <= 4 + 2 + 5
        said = running.play.rows("SELECT count(*) FROM messages")[0][0]
        assert said <= 2 * len(keys)
