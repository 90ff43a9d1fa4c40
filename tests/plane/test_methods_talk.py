"""Saying something over the control plane: answers and events in the order in which clients expect them."""

from __future__ import annotations

from pathlib import Path

from fakes.event_loop import on_loop
from harness.brain import Ask, Error, Tools
from plane.talking import KEY, shape, talking

ANSWERED = [
    "chat status preparing_workspace",
    "agent run_status preparing_workspace",
    "chat status preparing_context",
    "agent run_status preparing_context",
    "agent lifecycle start",
    "chat status starting_model",
    "agent run_status starting_model",
    "agent lifecycle model",
    "agent assistant",
    "chat delta",
    "agent lifecycle finishing",
    "agent lifecycle model none",
    "agent lifecycle end",
    "chat final",
]


async def slow(ask: Ask) -> str:
    return "word " * 200


@on_loop
async def test_a_message_is_acknowledged_and_its_run_streams_in_the_protocols_order(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        assert await talk.say("hello there", "run-1") == {"runId": "run-1", "status": "started"}
        events = await talk.until("run-1", "final")
        assert [word for word in shape(events) if word != "agent usage"] == ANSWERED
        assert all(event["sessionKey"] == KEY and event["agentId"] == "main" for event in events)
        numbers = [event["seq"] for event in events if event["event"] == "agent"]
        assert numbers == sorted(set(numbers))
        final = events[-1]
        assert final["stopReason"] == "stop"
        assert final["message"]["content"] == [{"type": "text", "text": "echo: hello there"}]
        deltas = [event for event in events if event.get("state") == "delta"]
        assert "".join(event["deltaText"] for event in deltas) == "echo: hello there"
        assert deltas[-1]["message"]["content"][0]["text"] == "echo: hello there"


@on_loop
async def test_a_repeated_message_runs_once(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        gate = talk.stage.brain.hold("hello")
        await talk.say("hello", "run-1")
        assert await talk.say("hello", "run-1") == {"runId": "run-1", "status": "in_flight"}
        gate.set()
        await talk.until("run-1", "final")
        assert await talk.say("hello", "run-1") == {"runId": "run-1", "status": "ok"}
        assert len(talk.stage.brain.asks) == 1


@on_loop
async def test_a_message_repeated_after_a_restart_is_closed_without_a_second_answer(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        await talk.say("hello", "run-1")
        await talk.until("run-1", "final")
    async with talking(tmp_path) as talk:
        assert await talk.say("hello", "run-1") == {"runId": "run-1", "status": "started"}
        events = await talk.until("run-1", "final")
        assert [sorted(event) for event in events] == [["event", "runId", "seq", "sessionKey", "state"]]
        assert talk.stage.brain.asks == []


@on_loop
async def test_text_after_a_tool_call_follows_after_a_blank_line(tmp_path: Path) -> None:
    async def think(ask: Ask) -> str | Tools:
        return "It is empty." if ask.results else Tools((("ls", {"path": "."}),))

    async with talking(tmp_path) as talk:
        talk.stage.brain.think = think
        watcher = await talk.connect()
        await watcher.call("sessions.subscribe")
        await talk.say("look", "run-1")
        events = await talk.until("run-1", "final")
        words = shape(events)
        calls = words[words.index("agent item start") : words.index("agent item end") + 1]
        assert calls == ["agent item start", "agent tool start", "agent tool result", "agent item end"]
        start = next(e["data"] for e in events if e.get("stream") == "tool" and e["data"]["phase"] == "start")
        assert (start["name"], start["args"]) == ("ls", {"path": "."})
        result = next(e["data"] for e in events if e.get("stream") == "tool" and e["data"]["phase"] == "result")
        assert result["isError"] is False
        assert result["result"]["content"][0]["type"] == "text"
        told = await watcher.event("session.tool")
        assert told["payload"]["data"]["toolCallId"] == start["toolCallId"]


@on_loop
async def test_a_client_without_the_cap_gets_no_tool_stream(tmp_path: Path) -> None:
    async def think(ask: Ask) -> str | Tools:
        return "done" if ask.results else Tools((("ls", {"path": "."}),))

    async with talking(tmp_path) as talk:
        talk.stage.brain.think = think
        talk.client = await talk.connect()
        await talk.say("look", "run-1")
        words = shape(await talk.until("run-1", "final"))
        assert "agent item start" in words
        assert "agent tool start" not in words


@on_loop
async def test_an_abort_ends_the_run_with_what_was_said_before_it_answers(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        talk.stage.brain.think = slow
        talk.stage.brain.pace = 0.01
        await talk.say("write", "run-1")
        await talk.until("run-1", "delta")
        assert await talk.ok("chat.abort", sessionKey=KEY, runId="nope") == {
            "ok": True,
            "aborted": False,
            "runIds": [],
        }
        assert await talk.ok("chat.abort", sessionKey=KEY, runId="run-1") == {
            "ok": True,
            "aborted": True,
            "runIds": ["run-1"],
        }
        # All of this came before the response.
        before = [event["payload"] for event in talk.client.events if event["payload"].get("runId") == "run-1"]
        aborted = next(payload for payload in before if payload.get("state") == "aborted")
        said = aborted["message"]["content"][0]["text"]
        assert said.startswith("word word")
        assert aborted["stopReason"] == "rpc"
        assert any(payload.get("data", {}).get("status") == "cancelled" for payload in before)
        assert (await talk.ok("chat.abort", sessionKey=KEY))["aborted"] is False
        history = await talk.ok("chat.history", sessionKey=KEY)
        assert [message["role"] for message in history["messages"]] == ["user", "assistant"]
        assert history["messages"][1]["content"][0]["text"] == said


@on_loop
async def test_a_failed_model_is_an_error_for_the_run(tmp_path: Path) -> None:
    async def think(ask: Ask) -> Error:
        return Error(401, "bad key")

    async with talking(tmp_path) as talk:
        talk.stage.brain.think = think
        await talk.say("hello", "run-1")
        events = await talk.until("run-1", "error")
        assert shape(events)[-4:] == [
            "agent lifecycle finishing",
            "agent lifecycle model none",
            "agent lifecycle error",
            "chat error",
        ]
        assert events[-1]["errorDetail"]["failoverReason"] == "auth"
        assert "bad key" not in events[-1]["errorMessage"]


@on_loop
async def test_an_agent_call_answers_twice(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        call = {"message": "hello agent", "sessionKey": KEY, "idempotencyKey": "run-1", "agentId": "main"}
        first = await talk.ok("agent", **call)
        assert {name: first[name] for name in ("runId", "sessionKey", "agentId", "status")} == {
            "runId": "run-1",
            "sessionKey": KEY,
            "agentId": "main",
            "status": "accepted",
        }
        second = (await talk.client.answer("r1"))["payload"]
        assert (second["status"], second["summary"]) == ("ok", "completed")
        assert second["result"]["payloads"] == [{"text": "echo: hello agent", "mediaUrl": None}]
        assert second["result"]["meta"]["agentMeta"]["model"] == "model"
        assert await talk.ok("agent", **call) == second
        waited = await talk.ok("agent.wait", runId="run-1", timeoutMs=1000)
        assert (waited["status"], waited["terminalReply"]["text"]) == ("ok", "echo: hello agent")
        assert await talk.ok("agent.wait", runId="never", timeoutMs=10) == {"runId": "never", "status": "timeout"}
    async with talking(tmp_path) as talk:
        assert await talk.ok("agent", **call) == second
        assert talk.stage.brain.asks == []


@on_loop
async def test_an_agent_call_that_fails_says_so_in_its_second_answer(tmp_path: Path) -> None:
    async def think(ask: Ask) -> Error:
        return Error(401, "bad key")

    async with talking(tmp_path) as talk:
        talk.stage.brain.think = think
        await talk.ok("agent", message="hello", idempotencyKey="run-1")
        second = await talk.client.answer("r1")
        assert (second["ok"], second["error"]["code"]) == (False, "UNAVAILABLE")
    async with talking(tmp_path) as talk:
        again = await talk.ok("agent", message="hello", idempotencyKey="run-1")
        assert (again["status"], again["summary"]) == ("error", second["error"]["message"])
        assert talk.stage.brain.asks == []


@on_loop
async def test_unknown_agents_are_refused(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        error = await talk.error("agent", message="x", agentId="ghost", idempotencyKey="g1")
        assert error == {"code": "INVALID_REQUEST", "message": 'invalid agent params: unknown agent id "ghost"'}
        error = await talk.error("chat.send", sessionKey="agent:ghost:main", message="x", idempotencyKey="g2")
        assert error["message"] == 'Agent "ghost" no longer exists in configuration'


@on_loop
async def test_a_steered_message_gets_a_bare_final_and_the_first_run_answers(tmp_path: Path) -> None:
    steer = 'messages: { queue: { mode: "steer", debounceMs: 0 } },'

    async def think(ask: Ask) -> str | Tools:
        return "both" if ask.results else Tools((("ls", {"path": "."}),))

    async with talking(tmp_path, steer) as talk:
        talk.stage.brain.think = think
        gate = talk.stage.brain.hold("one")
        await talk.say("one", "run-1")
        await talk.until("run-1", "status")
        assert await talk.say("two", "run-2") == {"runId": "run-2", "status": "started"}
        gate.set()
        second = await talk.until("run-2", "final")
        assert "message" not in second[-1]
        first = await talk.until("run-1", "final")
        assert first[-1]["message"]["content"][0]["text"] == "both"


@on_loop
async def test_messages_collected_into_one_turn_are_answered_under_the_newest(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        gate = talk.stage.brain.hold("one")
        await talk.say("one", "run-1")
        await talk.until("run-1", "status")
        await talk.say("two", "run-2")
        await talk.say("three", "run-3")
        gate.set()
        await talk.until("run-1", "final")
        last = await talk.until("run-3", "final")
        assert "three" in last[-1]["message"]["content"][0]["text"]
        waited = await talk.ok("agent.wait", runId="run-2", timeoutMs=5000)
        assert waited["status"] == "ok"


@on_loop
async def test_aborting_a_session_closes_what_waits_in_it(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        talk.stage.brain.hold("one")
        await talk.say("one", "run-1")
        await talk.until("run-1", "status")
        await talk.say("two", "run-2")
        done = await talk.ok("sessions.abort", key=KEY)
        assert done == {"ok": True, "abortedRunId": "run-2", "status": "aborted"}
        names = {(e["payload"]["runId"], e["payload"]["state"]) for e in talk.client.events if e["event"] == "chat"}
        assert {("run-1", "aborted"), ("run-2", "final")} <= names
        assert (await talk.ok("sessions.abort", key=KEY))["status"] == "no-active-run"


@on_loop
async def test_commands_answer_with_one_final_and_stop_answers_the_request(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        for text in ("/status", "/help", "/new"):
            await talk.say(text, f"run{text}")
            events = await talk.until(f"run{text}", "final")
            assert [(event["event"], event["seq"]) for event in events] == [("chat", 1)]
            assert "agentId" not in events[0]
            assert events[0]["message"]["content"][0]["text"]
        assert await talk.say("/stop", "run-stop") == {"ok": True, "aborted": False, "runIds": []}
        assert talk.stage.brain.asks == []


@on_loop
async def test_a_note_stands_in_the_history_without_a_run(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        done = await talk.ok("chat.inject", sessionKey=KEY, message="remember the milk", label="note")
        history = await talk.ok("chat.history", sessionKey=KEY)
        assert [m["content"][0]["text"] for m in history["messages"]] == ["[note]\n\nremember the milk"]
        assert history["messages"][0]["__openclaw"]["id"] == done["messageId"]
        assert talk.stage.brain.asks == []


@on_loop
async def test_runs_of_other_channels_are_seen_under_the_turns_own_id(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        await talk.ok("sessions.subscribe")
        talk.stage.platform.say("7", "from telegram")
        while True:
            event = await talk.client.event("chat")
            if event["payload"]["state"] == "final":
                break
        assert event["payload"]["message"]["content"][0]["text"] == "echo: from telegram"
        assert event["payload"]["sessionKey"].startswith("agent:main:")


@on_loop
async def test_a_reader_may_watch_but_not_speak(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        talk.client = await talk.connect(scopes=["operator.read"])
        error = await talk.error("chat.send", sessionKey=KEY, message="x", idempotencyKey="r")
        assert error["details"]["missingScope"] == "operator.write"
        assert (await talk.ok("chat.history", sessionKey=KEY))["messages"] == []


@on_loop
async def test_history_is_paged_from_the_newest_back(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        for number in range(3):
            await talk.say(f"m{number}", f"run-{number}")
            await talk.until(f"run-{number}", "final")
        page = await talk.ok("chat.history", sessionKey=KEY, limit=2)
        assert [m["role"] for m in page["messages"]] == ["user", "assistant"]
        assert (page["hasMore"], page["nextOffset"], page["totalMessages"]) == (True, 2, 6)
        older = await talk.ok("chat.history", sessionKey=KEY, limit=4, offset=2)
        assert [m["content"] for m in older["messages"] if m["role"] == "user"] == ["m0", "m1"]
        assert older["hasMore"] is False
        assert all(m["timestamp"] > 1_700_000_000_000 for m in older["messages"])


@on_loop
async def test_a_key_stands_for_one_message_in_each_session_also_after_a_restart(tmp_path: Path) -> None:
    other = "agent:main:other"
    async with talking(tmp_path) as talk:
        await talk.say("hello", "run-1")
        await talk.until("run-1", "final")
        assert (await talk.say("hi", "run-1", other))["status"] == "started"
        final = (await talk.until("run-1", "final"))[-1]
        assert (final["sessionKey"], final["message"]["content"][0]["text"]) == (other, "echo: hi")
        assert (await talk.ok("agent.wait", runId="run-1"))["terminalReply"]["text"] == "echo: hi"
        for key in (KEY, other):
            assert (await talk.say("hello", "run-1", key))["status"] == "ok"
    async with talking(tmp_path) as talk:
        assert (await talk.say("hey", "run-1", "agent:main:third"))["status"] == "started"
        final = (await talk.until("run-1", "final"))[-1]
        assert final["message"]["content"][0]["text"] == "echo: hey"


@on_loop
async def test_an_agent_run_under_a_key_of_another_session_is_refused_also_after_a_restart(tmp_path: Path) -> None:
    ask = {"message": "hello", "idempotencyKey": "a1"}
    async with talking(tmp_path) as talk:
        await talk.ok("agent", sessionKey=KEY, **ask)
        final = (await talk.client.answer("r1"))["payload"]
        error = await talk.error("agent", sessionKey="agent:main:other", **ask)
        assert error["message"] == "idempotencyKey was used for another session"
        assert await talk.ok("agent", sessionKey=KEY, **ask) == final
    async with talking(tmp_path) as talk:
        error = await talk.error("agent", sessionKey="agent:main:other", **ask)
        assert (error["code"], error["message"]) == ("INVALID_REQUEST", "idempotencyKey was used for another session")
        assert await talk.ok("agent", sessionKey=KEY, **ask) == final
        assert talk.stage.brain.asks == []
