"""Agents made, changed and removed over the control plane, their files, and what sessions used."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from fakes.event_loop import on_loop
from plane.talking import KEY, Talk, talking
from tidegate.config.load import load_config

TWO = 'agents: { defaults: { userTimezone: "UTC", model: { primary: "fake/model" } }, list: [ { id: "one" } ] },'


def reloading(talk: Talk) -> None:
    """Let the gateway read its configuration again when it is changed, as the whole program does."""

    async def reload() -> dict[str, Any]:
        place = talk.stage.state_dir
        talk.gateway.apply(load_config(talk.stage.config_path, environ={"HOME": str(place)}, state_dir=place))
        return {}

    talk.gateway.control.use_reload(reload)


async def ids(talk: Talk) -> list[str]:
    return [row["id"] for row in (await talk.ok("agents.list"))["agents"]]


@on_loop
async def test_an_agent_is_made_talked_to_changed_and_removed(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        reloading(talk)
        made = await talk.ok("agents.create", name="Ops Helper", emoji="🛠", model="fake/other")
        assert (made["agentId"], made["workspace"]) == ("ops-helper", str(tmp_path / "workspace-ops-helper"))
        listed = await talk.ok("agents.list")
        assert (listed["defaultId"], [row["id"] for row in listed["agents"]]) == ("main", ["main", "ops-helper"])
        await talk.say("hello", "r1", "agent:ops-helper:main")
        assert (await talk.until("r1", "final"))[-1]["agentId"] == "ops-helper"
        assert talk.stage.brain.asks[-1].body["model"] == "other"
        assert (await talk.ok("agents.update", agentId="ops-helper", name="Helper", model=None))["ok"] is True
        row = (await talk.ok("agents.list"))["agents"][1]
        assert (row["name"], row["model"]["primary"]) == ("Helper", "fake/model")
        gone = await talk.ok("agents.delete", agentId="ops-helper")
        assert gone == {"ok": True, "agentId": "ops-helper", "removedBindings": 0, "filesDeleted": False}
        assert await ids(talk) == ["main"]
        assert (tmp_path / "workspace-ops-helper").is_dir()
        assert 'dmPolicy: "open"' in talk.stage.config_path.read_text()


@on_loop
async def test_files_are_deleted_only_when_asked_and_only_where_we_made_them(tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere"
    kept.mkdir()
    (kept / "precious").write_text("x")
    async with talking(tmp_path) as talk:
        reloading(talk)
        await talk.ok("agents.create", name="mine")
        await talk.ok("agents.files.set", agentId="mine", name="SOUL.md", content="calm")
        (tmp_path / "workspace-mine" / "link").symlink_to(kept)
        assert (await talk.ok("agents.delete", agentId="mine", deleteFiles=True))["filesDeleted"] is True
        assert not (tmp_path / "workspace-mine").exists()
        assert (kept / "precious").exists()
        outside = tmp_path.parent / f"{tmp_path.name}-chosen"
        outside.mkdir()
        await talk.ok("agents.create", name="chosen", workspace=str(outside))
        assert (await talk.ok("agents.delete", agentId="chosen", deleteFiles=True))["filesDeleted"] is False
        assert outside.is_dir()


@on_loop
async def test_what_cannot_be_made_or_removed_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        reloading(talk)
        before = talk.stage.config_path.read_text()
        for name in ("main", "///", "  "):
            assert "cannot be the name" in (await talk.error("agents.create", name=name))["message"]
        assert (await talk.error("agents.delete", agentId="main"))["message"] == '"main" cannot be deleted'
        assert "unknown agent id" in (await talk.error("agents.delete", agentId="ghost"))["message"]
        assert "unknown agent id" in (await talk.error("agents.update", agentId="ghost", name="x"))["message"]
        error = await talk.error("agents.create", name="spy", workspace=str(tmp_path / "config"))
        assert error["message"].startswith("invalid config")
        assert talk.stage.config_path.read_text() == before
        await talk.ok("agents.create", name="spy")
        assert (await talk.error("agents.create", name="SPY"))["message"] == 'agent "spy" already exists'


@on_loop
async def test_an_agent_takes_its_bindings_along_and_the_older_list_stays_a_list(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        reloading(talk)
        text = talk.stage.config_path.read_text()
        text = text.replace('agents: { defaults: { userTimezone: "UTC", model: { primary: "fake/model" } } },', TWO)
        talk.stage.write_config(text=text)
        await talk.gateway.control.reload()
        await talk.ok("agents.create", name="two")
        assert await ids(talk) == ["one", "two"]
        assert (await talk.ok("agents.list"))["defaultId"] == "one"
        found = await talk.ok("config.get")
        peers = [{"kind": "direct", "id": str(number)} for number in range(3)]
        rows = [
            {"agentId": agent, "match": {"channel": "telegram", "peer": peer}}
            for agent, peer in zip(("two", "one", "TWO"), peers, strict=True)
        ]
        patch = {"raw": json.dumps({"bindings": rows}), "baseHash": found["hash"]}
        await talk.ok("config.patch", **patch)
        assert (await talk.ok("agents.delete", agentId="two"))["removedBindings"] == 2
        left = (await talk.ok("config.get"))["parsed"]
        assert [row["agentId"] for row in left["bindings"]] == ["one"]
        assert [row["id"] for row in left["agents"]["list"]] == ["one"]


@on_loop
async def test_files_of_an_agent_are_written_under_the_hash_of_what_was_read(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        done = await talk.ok("agents.files.set", agentId="main", name="SOUL.md", content="be kind")
        assert done["file"]["content"] == "be kind"
        assert done["file"]["hash"] == hashlib.sha256(b"be kind").hexdigest()
        path = Path(done["workspace"]) / "SOUL.md"
        assert path.read_text() == "be kind"
        again = {"agentId": "main", "name": "SOUL.md", "expectedHash": done["file"]["hash"]}
        path.write_text("changed by hand")
        assert "changed since last load" in (await talk.error("agents.files.set", content="x", **again))["message"]
        assert path.read_text() == "changed by hand"
        again["expectedHash"] = hashlib.sha256(b"changed by hand").hexdigest()
        assert (await talk.ok("agents.files.set", content="new", **again))["file"]["content"] == "new"


@on_loop
async def test_no_other_file_can_be_written(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        for name in ("../x", "/etc/passwd", "notes.md", "SOUL.md/../x", "soul.md", "SOUL.md\0"):
            error = await talk.error("agents.files.set", agentId="main", name=name, content="x")
            assert error["message"].startswith("unsupported file"), name
        large = await talk.error("agents.files.set", agentId="main", name="SOUL.md", content="x" * (1 << 20) + "x")
        assert "larger than" in large["message"]
        workspace = Path((await talk.ok("agents.files.list", agentId="main"))["workspace"])
        workspace.mkdir(exist_ok=True)
        target = tmp_path / "target"
        target.write_text("safe")
        (workspace / "USER.md").unlink(missing_ok=True)
        (workspace / "USER.md").symlink_to(target)
        await talk.client.call("agents.files.set", {"agentId": "main", "name": "USER.md", "content": "x"})
        assert target.read_text() == "safe"


@on_loop
async def test_only_an_admin_changes_agents(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        writer = await talk.connect(scopes=("operator.write",))
        for method in ("agents.create", "agents.update", "agents.delete", "agents.files.set"):
            assert (await writer.call(method, {}))["error"]["message"] == "missing scope: operator.admin"


@on_loop
async def test_what_sessions_used_is_summed_by_session_model_and_agent(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        for number, key in enumerate((KEY, KEY, "agent:main:other")):
            await talk.say("hello", f"r{number}", key)
            await talk.until(f"r{number}", "final")
        found = await talk.ok("sessions.usage")
        assert {row["key"]: row["usage"]["missingCostEntries"] for row in found["sessions"]} == {
            KEY: 2,
            "agent:main:other": 1,
        }
        assert found["aggregates"]["sessionCount"] == 2
        assert [(row["provider"], row["model"], row["count"]) for row in found["aggregates"]["byModel"]] == [
            ("fake", "model", 3)
        ]
        assert found["totals"]["missingCostEntries"] == 3
        one = await talk.ok("sessions.usage", key="agent:main:other", range="7d")
        assert [row["key"] for row in one["sessions"]] == ["agent:main:other"]
        assert (await talk.ok("sessions.usage", limit=1))["aggregates"]["sessionCount"] == 2
        assert len((await talk.ok("sessions.usage", limit=1))["sessions"]) == 1
        assert (await talk.error("sessions.usage", startDate="soon"))["code"] == "INVALID_REQUEST"
        unused = await talk.ok("sessions.usage", key="agent:main:nothing")
        assert (unused["sessions"], unused["totals"]["totalTokens"]) == ([], 0)


@on_loop
async def test_a_tool_that_reads_is_called_under_the_rules_of_every_door(tmp_path: Path) -> None:
    async with talking(tmp_path, more='tools: { deny: ["find"] },') as talk:
        found = await talk.ok("tools.invoke", name="session_status", sessionKey=KEY)
        assert (found["ok"], found["toolName"], found["source"]) == (True, "session_status", "core")
        assert f"Session: {KEY}" in found["output"]["content"][0]["text"]
        for name in ("exec", "write", "edit", "no_such_tool", "bash", "find"):
            refused = await talk.ok("tools.invoke", name=name, args={"path": "x"})
            assert (refused["ok"], refused["error"]["message"]) == (False, f"Tool not available: {name}")
        outside = await talk.ok("tools.invoke", name="read", args={"path": "../../etc/passwd"})
        assert (outside["ok"], outside["error"]["type"]) == (False, "tool_error")
        reader = await talk.connect(scopes=("operator.read",))
        assert "missing scope" in (await reader.call("tools.invoke", {"name": "ls"}))["error"]["message"]
