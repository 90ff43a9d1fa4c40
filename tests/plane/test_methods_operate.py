"""Sessions, configuration, channels, catalogues and reports over the control plane, against a whole gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fakes.event_loop import on_loop
from harness.platform import Platform
from plane.talking import KEY, Talk, talking

SECRET = "secret-key-of-the-model"
KEPT = "__OPENCLAW_REDACTED__"


async def exchange(talk: Talk, text: str, run: str, key: str = KEY) -> None:
    await talk.say(text, run, key)
    await talk.until(run, "final")


@on_loop
async def test_a_session_is_made_renamed_used_reset_and_deleted(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        made = await talk.ok("sessions.create", agentId="main", label="golden session")
        key = made["key"]
        assert key.startswith("agent:main:dashboard:")
        assert (made["entry"]["label"], made["runStarted"]) == ("golden session", False)
        patched = await talk.ok("sessions.patch", key=key, label="renamed")
        assert patched["entry"]["label"] == "renamed"
        error = await talk.error("sessions.patch", key=key, thinkingLevel="enormous")
        assert error["message"].startswith('thinkingLevel "enormous" is not supported')
        sent = await talk.ok("sessions.send", key=key, message="hello", idempotencyKey="ss-1")
        assert sent == {"runId": "ss-1", "status": "started"}
        await talk.until("ss-1", "final")
        messages = (await talk.ok("sessions.get", key=key))["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant"]
        assert (await talk.ok("sessions.reset", key=key))["entry"]["label"] == "renamed"
        assert (await talk.ok("sessions.get", key=key))["messages"] == []
        assert (await talk.ok("sessions.delete", key=key))["deleted"] is True
        assert (await talk.ok("sessions.describe", key=key))["session"] is None
        assert (await talk.ok("sessions.list"))["sessions"] == []
        assert (await talk.ok("sessions.delete", key=key))["deleted"] is False
        await exchange(talk, "again", "ss-2", key)
        row = (await talk.ok("sessions.describe", key=key))["session"]
        assert (row["key"], row.get("label")) == (key, None)


@on_loop
async def test_the_main_session_cannot_be_deleted(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        await exchange(talk, "hello", "r1", "main")
        error = await talk.error("sessions.delete", key="main")
        assert "main session" in error["message"]


@on_loop
async def test_sessions_are_listed_in_pages_with_titles_and_last_messages(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        for number in range(3):
            await exchange(talk, f"question {number}", f"r{number}", f"agent:main:s{number}")
        page = await talk.ok("sessions.list", limit=2, includeDerivedTitles=True, includeLastMessage=True)
        assert (page["count"], page["totalCount"], page["nextOffset"], page["hasMore"]) == (2, 3, 2, True)
        assert [row["key"] for row in page["sessions"]] == ["agent:main:s2", "agent:main:s1"]
        assert page["sessions"][0]["derivedTitle"] == "question 2"
        assert page["sessions"][0]["lastMessagePreview"] == "echo: question 2"
        rest = await talk.ok("sessions.list", limit=2, offset=2)
        assert ([row["key"] for row in rest["sessions"]], rest["nextOffset"]) == (["agent:main:s0"], None)
        assert (await talk.ok("sessions.list", search="s1"))["totalCount"] == 1
        assert (await talk.ok("sessions.list", agentId="other"))["totalCount"] == 0
        preview = await talk.ok("sessions.preview", keys=["agent:main:s0", "agent:main:none"])
        assert preview["previews"] == [
            {
                "key": "agent:main:s0",
                "status": "ok",
                "items": [{"role": "user", "text": "question 0"}, {"role": "assistant", "text": "echo: question 0"}],
            },
            {"key": "agent:main:none", "status": "missing", "items": []},
        ]


@on_loop
async def test_a_session_is_found_by_key_label_and_id(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        assert (await talk.ok("sessions.resolve", key="main"))["key"].endswith(":main")
        await exchange(talk, "hello", "r1")
        await talk.ok("sessions.patch", key=KEY, label="mine")
        row = (await talk.ok("sessions.describe", key=KEY))["session"]
        expected = {"ok": True, "key": KEY, "agentId": "main"}
        assert await talk.ok("sessions.resolve", label="mine") == expected
        assert await talk.ok("sessions.resolve", sessionId=row["sessionId"]) == expected
        assert await talk.ok("sessions.resolve", shortId=row["sessionId"][:18]) == expected
        assert await talk.ok("sessions.resolve", label="nothing", allowMissing=True) == {"ok": False}
        assert "No session found" in (await talk.error("sessions.resolve", label="nothing"))["message"]


@on_loop
async def test_who_watches_the_list_hears_what_changes(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        other = await talk.connect()
        assert (await other.call("sessions.subscribe", {"limit": 5}))["payload"]["list"]["sessions"] == []
        await talk.ok("sessions.patch", key=KEY, label="new")
        changed = (await other.event("sessions.changed"))["payload"]
        assert (changed["sessionKey"], changed["reason"]) == (KEY, "patch")
        assert changed["session"]["label"] == "new"
        assert not [event for event in talk.client.events if event["event"] == "sessions.changed"]


@on_loop
async def test_messages_of_a_session_reach_those_who_asked_for_them(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        other = await talk.connect()
        assert (await other.call("sessions.messages.subscribe", {"key": KEY}))["payload"] == {
            "subscribed": True,
            "key": KEY,
        }
        await exchange(talk, "hello", "r1")
        said = [(await other.event("session.message"))["payload"]["message"] for _ in range(2)]
        assert [message["role"] for message in said] == ["user", "assistant"]
        assert not [event for event in talk.client.events if event["event"] == "session.message"]


@on_loop
async def test_a_sessions_own_model_is_asked(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        await talk.ok("sessions.patch", key=KEY, model="fake/other")
        await exchange(talk, "hello", "r1")
        assert talk.stage.brain.asks[-1].body["model"] == "other"
        await talk.ok("sessions.patch", key=KEY, model=None)
        await exchange(talk, "hello", "r2")
        assert talk.stage.brain.asks[-1].body["model"] == "model"


@on_loop
async def test_the_configuration_reads_without_its_secrets(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        found = await talk.ok("config.get")
        assert found["valid"] is True
        assert found["parsed"]["models"]["providers"]["fake"]["apiKey"] == KEPT
        text = json.dumps(found)
        assert SECRET not in text
        assert "1:T" not in found["raw"]
        assert KEPT in found["raw"]


@on_loop
async def test_a_patch_needs_the_hash_of_what_was_read(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        patch = json.dumps({"gateway": {"nodes": {"pairing": {"autoApproveLocal": False}}}})
        error = await talk.error("config.patch", raw=patch)
        assert error["message"] == (
            "config base hash required for gateway; re-run config.get and retry with baseHash"
        ) or error["message"].startswith("config base hash required for gateway")
        stale = "config changed since last load; re-run config.get and retry"
        assert (await talk.error("config.patch", raw=patch, baseHash="deadbeef"))["message"] == stale
        base = (await talk.ok("config.get"))["hash"]
        done = await talk.ok("config.patch", raw=patch, baseHash=base, note="golden")
        assert done["config"]["gateway"]["nodes"]["pairing"]["autoApproveLocal"] is False
        assert done["sentinel"]["payload"]["message"] == "golden"
        assert [event["event"] for event in talk.client.events][-2:] == ["chat.metadata.changed", "config.changed"]
        assert (await talk.error("config.patch", raw=patch, baseHash=base))["message"] == stale
        written = talk.stage.config_path.read_text()
        assert SECRET in written
        assert "autoApproveLocal" in written


@on_loop
async def test_what_cannot_be_a_configuration_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        before = talk.stage.config_path.read_text()
        base = (await talk.ok("config.get"))["hash"]
        error = await talk.error("config.patch", raw='{"gateway":{"bogusKey":1}}', baseHash=base)
        assert error["message"] == 'invalid config: gateway: Unrecognized key: "bogusKey"'
        assert error["details"]["issues"] == [{"path": "gateway", "message": 'Unrecognized key: "bogusKey"'}]
        assert (await talk.error("config.patch", raw="{not json", baseHash=base))["message"].startswith("SyntaxError")
        assert (await talk.error("config.set", raw="[1]", baseHash=base))["code"] == "INVALID_REQUEST"
        kept = json.dumps({"gateway": {"auth": {"token": KEPT}}})
        assert "no value that could be kept" in (await talk.error("config.patch", raw=kept, baseHash=base))["message"]
        assert talk.stage.config_path.read_text() == before


@on_loop
async def test_a_whole_configuration_written_back_keeps_its_secrets(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        found = await talk.ok("config.get")
        assert (await talk.ok("config.set", raw=found["raw"], baseHash=found["hash"]))["changedPaths"] == []
        parsed = found["parsed"]
        parsed["agents"]["defaults"]["userTimezone"] = "Europe/Berlin"
        done = await talk.ok("config.set", raw=json.dumps(parsed), baseHash=found["hash"])
        assert done["changedPaths"] == ["agents.defaults.userTimezone"]
        assert SECRET in talk.stage.config_path.read_text()


@on_loop
async def test_one_key_of_the_schema_is_looked_up(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        found = await talk.ok("config.schema.lookup", path="gateway.port")
        assert (found["path"], found["schema"]["type"], found["children"]) == ("gateway.port", "integer", [])
        whole = await talk.ok("config.schema.lookup", path="gateway")
        assert "gateway.port" in {child["path"] for child in whole["children"]}
        assert "not found" in (await talk.error("config.schema.lookup", path="gateway.nothing"))["message"]


@on_loop
async def test_a_message_is_sent_and_answered_with_the_platforms_receipt(tmp_path: Path) -> None:
    platform = Platform()
    async with talking(tmp_path, platform=platform) as talk:
        params: dict[str, Any] = {"channel": "telegram", "action": "send", "idempotencyKey": "k1"}
        params["params"] = {"to": "telegram:12345", "message": "hi", "action": "send", "silent": False}
        done = await talk.ok("message.action", **params)
        assert done["messageId"]
        assert (await talk.ok("message.action", **params))["messageId"] == done["messageId"]
        sent = await talk.ok("send", to="12345", message="more", channel="telegram", idempotencyKey="k2")
        assert sent["messageId"] != done["messageId"]
        assert platform.texts("12345") == ["hi", "more"]
        error = await talk.error("message.action", channel="telegram", action="send", params={}, idempotencyKey="k3")
        assert error == {"code": "UNAVAILABLE", "message": "ToolInputError: to required"}
        error = await talk.error("send", to="x", message="y", channel="pigeon", idempotencyKey="k4")
        assert "pigeon" in error["message"]


@on_loop
async def test_channels_are_shown_stopped_and_started(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        status = await talk.ok("channels.status", probe=False, timeoutMs=1000)
        assert status["channelOrder"] == ["telegram"]
        assert status["channelAccounts"]["telegram"][0]["accountId"] == "default"
        assert (await talk.ok("channels.stop", channel="telegram"))["stopped"] is True
        row = (await talk.ok("channels.status"))["channelAccounts"]["telegram"][0]
        assert (row["running"], row["lastError"]) == (False, "stopped by an operator")
        assert (await talk.ok("channels.start", channel="telegram"))["started"] is True
        assert (await talk.ok("channels.status"))["channelAccounts"]["telegram"][0]["running"] is True
        error = await talk.error("channels.logout", channel="pigeon")
        assert error["message"] == "invalid channels.logout channel"


@on_loop
async def test_catalogues_name_what_is_there(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        models = (await talk.ok("models.list", view="default", includeDetails=True))["models"]
        assert [(row["provider"], row["id"], row["contextWindow"], row["tags"]) for row in models] == [
            ("fake", "model", 100_000, ["default"])
        ]
        agents = await talk.ok("agents.list")
        assert (agents["defaultId"], [row["id"] for row in agents["agents"]]) == ("main", ["main"])
        assert (await talk.ok("agent.identity.get"))["name"] == "Assistant"
        names = {row["name"] for row in (await talk.ok("commands.list", scope="text"))["commands"]}
        assert {"help", "new", "stop"} <= names
        tools = (await talk.ok("tools.catalog"))["groups"][0]["tools"]
        assert "read" in {tool["id"] for tool in tools}
        assert (await talk.ok("skills.status", agentId="main"))["skills"] == []


@on_loop
async def test_every_listed_method_is_answered_and_empty_lists_are_empty(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        listed = set(talk.client.hello["features"]["methods"])
        assert {"chat.send", "agent", "sessions.list", "config.patch", "cron.list", "node.list"} <= listed
        assert "cron.add" not in listed
        assert talk.client.hello["features"]["capabilities"] == ["published-model-catalog"]
        page = await talk.ok("cron.list", includeDisabled=False, limit=200, offset=0)
        assert (page["jobs"], page["snapshotRevision"], page["limit"]) == ([], "empty", 200)
        assert (await talk.ok("question.list"))["questions"] == []
        assert await talk.ok("plugin.approval.list") == []
        assert await talk.ok("last-heartbeat") is None
        job = {"schedule": {"kind": "every", "everyMs": 1}, "payload": {"kind": "systemEvent", "text": "x"}}
        error = await talk.error("cron.add", name="x", sessionTarget="main", wakeMode="now", **job)
        assert (error["code"], "not available" in error["message"]) == ("UNAVAILABLE", True)
        error = await talk.error("cron.remove", id="j1")
        assert error["details"] == {"code": "CRON_JOB_NOT_FOUND", "jobId": "j1"}


@on_loop
async def test_what_was_used_is_told_by_day(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        await exchange(talk, "hello", "r1")
        found = await talk.ok("usage.cost", days=3)
        assert len(found["daily"]) == 3
        assert found["totals"]["missingCostEntries"] == 1
        assert (await talk.error("usage.cost", startDate="soon"))["code"] == "INVALID_REQUEST"


@on_loop
async def test_the_policy_of_commands_is_stored_under_its_hash(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        found = await talk.ok("exec.approvals.get")
        assert (found["exists"], found["file"]["version"]) == (False, 1)
        file = {"version": 1, "agents": {"*": {"allowlist": [{"pattern": "/usr/bin/uptime"}]}}}
        done = await talk.ok("exec.approvals.set", file=file, baseHash=found["hash"])
        row = done["file"]["agents"]["*"]["allowlist"][0]
        assert row["pattern"] == "/usr/bin/uptime"
        assert row["id"]
        assert (await talk.error("exec.approvals.set", file=file, baseHash=found["hash"]))["code"] == "INVALID_REQUEST"
        assert (await talk.error("exec.approvals.set", file=file))["code"] == "INVALID_REQUEST"
        assert await talk.ok("exec.approvals.get") == done


@on_loop
async def test_a_wake_is_answered_in_the_main_session(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        assert await talk.ok("wake", mode="now", text="look here") == {"ok": True}
        while (event := (await talk.client.event("chat"))["payload"])["state"] != "final":
            pass
        assert event["message"]["content"][0]["text"] == "echo: System: look here"
        assert event["sessionKey"] == "agent:main:main"


@on_loop
async def test_a_system_event_is_told_with_the_next_message(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        assert await talk.ok("system-event", text="the door is open", host="porch", mode="ui") == {"ok": True}
        assert await talk.ok("wake", mode="next-heartbeat", text="tea is ready") == {"ok": True}
        rows = await talk.ok("system-presence")
        assert ("porch", "the door is open") in {(row.get("host"), row.get("text")) for row in rows}
        assert talk.stage.brain.asks == []
        await exchange(talk, "what is new?", "r1", "main")
        said = talk.stage.brain.asks[0].last
        assert "the door is open" in said
        assert "tea is ready" in said
        assert said.endswith("what is new?")


@on_loop
async def test_a_client_starts_with_history_and_metadata_in_one_answer(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        await exchange(talk, "hello", "r1")
        found = await talk.ok("chat.startup", sessionKey=KEY)
        assert len(found["messages"]) == 2
        assert {"models", "commands"} <= set(found["metadata"])
        wanted = found["messages"][1]["__openclaw"]["id"]
        one = await talk.ok("chat.message.get", sessionKey=KEY, messageId=wanted)
        assert one["message"]["content"] == found["messages"][1]["content"]
        assert "not found" in (await talk.error("chat.message.get", sessionKey=KEY, messageId="x:9"))["message"]


@on_loop
async def test_prompt_files_are_read_and_nothing_else(tmp_path: Path) -> None:
    more = f'agents: {{ defaults: {{ workspace: "{tmp_path}/ws", model: {{ primary: "fake/model" }} }} }},'
    async with talking(tmp_path, more) as talk:
        await exchange(talk, "hello", "r1")
        files = (await talk.ok("agents.files.list", agentId="main"))["files"]
        assert "AGENTS.md" in {row["name"] for row in files if not row["missing"]}
        one = (await talk.ok("agents.files.get", agentId="main", name="AGENTS.md"))["file"]
        assert one["content"]
        error = await talk.error("agents.files.get", agentId="main", name="../gateway.token")
        assert error["message"] == 'unsupported file "../gateway.token"'
        root = Path(one["path"]).parent
        (root / "TOOLS.md").unlink(missing_ok=True)
        (root / "TOOLS.md").symlink_to(talk.stage.state_dir / "gateway.token")
        if not (talk.stage.state_dir / "gateway.token").resolve().is_relative_to(root.resolve()):
            linked = (await talk.ok("agents.files.get", agentId="main", name="TOOLS.md"))["file"]
            assert linked["missing"] is True
