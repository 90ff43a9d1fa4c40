"""Nodes over the control plane: pairing in two steps, requests to them, and what may go wrong in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fakes.event_loop import on_loop
from plane.client import ALL, TOKEN, Key, Plane, RawClient, connect_params, plane
from tidegate.clock import SystemClock
from tidegate.gateway.plane import node_invokes
from tidegate.gateway.plane.node_commands import NodeRules
from tidegate.sessions.memory.store import MemoryStore

COMMANDS = ("location.get", "system.run", "camera.snap")


@dataclass
class Field:
    """A plane, an operator with every right, and a node."""

    running: Plane
    operator: RawClient
    key: Key
    node: RawClient

    async def ok(self, method: str, **params: Any) -> Any:
        answer = await self.operator.call(method, params)
        assert answer["ok"], answer
        return answer["payload"]

    async def error(self, method: str, **params: Any) -> dict[str, Any]:
        answer = await self.operator.call(method, params)
        assert not answer["ok"], answer
        found: dict[str, Any] = answer["error"]
        return found

    def ask(self, key: str, command: str = "location.get", **more: Any) -> dict[str, Any]:
        return {"nodeId": self.key.id, "command": command, "idempotencyKey": key, **more}

    async def approve(self) -> dict[str, Any]:
        pending = (await self.ok("node.pair.list"))["pending"]
        assert len(pending) == 1
        found: dict[str, Any] = (await self.ok("node.pair.approve", requestId=pending[0]["requestId"]))["node"]
        return found

    async def send(self, client: RawClient, request_id: str, **params: Any) -> None:
        await client.socket.send_json(
            {"type": "req", "id": request_id, "method": "node.invoke", "params": self.ask(**params)}
        )

    async def result(self, invoke: dict[str, Any], **more: Any) -> Any:
        params = {"id": invoke["id"], "nodeId": self.key.id, "ok": True, **more}
        return (await self.node.call("node.invoke.result", params))["payload"]


async def connect_node(running: Plane, key: Key, commands: tuple[str, ...] = COMMANDS, **fields: Any) -> RawClient:
    node = await running.open()
    answer = await node.connect_device(
        key, client="node-host", mode="node", role="node", scopes=[], commands=list(commands), **fields
    )
    assert answer["ok"], answer
    node.hello = answer["payload"]
    return node


@asynccontextmanager
async def field(
    tmp_path: Path, *, approved: bool = True, rules: NodeRules | None = None, store: MemoryStore | None = None
) -> AsyncIterator[Field]:
    async with plane(tmp_path, node_rules=rules, store=store) as running:
        operator, key = await running.connect(ALL), Key(50)
        node = await connect_node(running, key)
        found = Field(running, operator, key, node)
        if approved:
            await found.approve()
        yield found


@on_loop
async def test_a_node_does_nothing_before_its_commands_are_approved(tmp_path: Path) -> None:
    async with field(tmp_path, approved=False) as f:
        asked = (await f.operator.event("node.pair.requested"))["payload"]
        assert asked["commands"] == ["location.get", "system.run"]
        assert asked["requiredApproveScopes"] == ["operator.pairing", "operator.admin"]
        row = (await f.ok("node.list"))["nodes"][0]
        assert (row["approvalState"], row["commands"], row["pendingRequestId"]) == (
            "pending-approval",
            [],
            asked["requestId"],
        )
        error = await f.error("node.invoke", **f.ask("early"))
        assert error["details"]["code"] == "PAIRING_CHANGED"
        await f.approve()
        assert (await f.node.event("node.pair.resolved"))["payload"]["decision"] == "approved"
        row = await f.ok("node.describe", nodeId=f.key.id)
        assert (row["approvalState"], row["commands"]) == ("approved", ["location.get", "system.run"])


@on_loop
async def test_commands_that_run_programs_are_approved_and_asked_for_by_an_admin_only(tmp_path: Path) -> None:
    async with field(tmp_path, approved=False) as f:
        lesser = await f.running.connect(["operator.pairing", "operator.write"])
        request = (await f.ok("node.pair.list"))["pending"][0]["requestId"]
        answer = await lesser.call("node.pair.approve", {"requestId": request})
        assert answer["error"]["message"] == "missing scope: operator.admin"
        await f.approve()
        for command in ("system.run", " system.run", "browser.proxy.x", "fs.listDir"):
            answer = await lesser.call("node.invoke", f.ask("k", command))
            assert answer["error"]["message"] == "missing scope: operator.admin", command
        reader = await f.running.connect(["operator.read"])
        answer = await reader.call("node.invoke", f.ask("k"))
        assert answer["error"]["message"] == "missing scope: operator.write"


@on_loop
async def test_a_refused_request_leaves_the_node_without_commands(tmp_path: Path) -> None:
    async with field(tmp_path, approved=False) as f:
        lesser = await f.running.connect(["operator.pairing"])
        request = (await f.ok("node.pair.list"))["pending"][0]["requestId"]
        assert (await lesser.call("node.pair.reject", {"requestId": request}))["payload"]["nodeId"] == f.key.id
        assert (await f.node.event("node.pair.resolved"))["payload"]["decision"] == "rejected"
        assert (await f.error("node.pair.approve", requestId=request))["message"] == "unknown requestId"
        assert (await f.error("node.invoke", **f.ask("k")))["details"]["code"] == "PAIRING_CHANGED"


@on_loop
async def test_more_commands_are_asked_for_again_and_the_approved_ones_go_on(tmp_path: Path) -> None:
    async with field(tmp_path) as f:
        more = await connect_node(f.running, f.key, (*COMMANDS, "system.which"))
        row = await f.ok("node.describe", nodeId=f.key.id)
        assert row["approvalState"] == "pending-approval"
        assert row["commands"] == ["location.get", "system.run"]
        assert row["pendingDeclaredCommands"] == ["location.get", "system.run", "system.which"]
        await more.socket.close()
        await connect_node(f.running, f.key, ("location.get",))
        row = await f.ok("node.describe", nodeId=f.key.id)
        assert (row["approvalState"], row["commands"]) == ("approved", ["location.get"])


@on_loop
async def test_only_what_is_declared_and_approved_and_allowed_is_asked_for(tmp_path: Path) -> None:
    rules = NodeRules(allow=("camera.snap", "sms.send"), deny=("system.run",))
    async with field(tmp_path, rules=rules) as f:
        assert (await f.ok("node.describe", nodeId=f.key.id))["commands"] == ["camera.snap", "location.get"]
        for command, reason in (
            ("system.run", "command denied"),
            ("camera.clip", "command not allowlisted"),
            ("sms.send", "command not declared by node"),
            ("system.which", "command not declared by node"),
            ("", None),
        ):
            error = await f.error("node.invoke", **f.ask("k", command))
            assert error.get("details", {}).get("reason") == reason, command
        assert (await f.error("node.invoke", **f.ask("k", "camera.clip")))["message"] == (
            'node command not allowed: "camera.clip" requires explicit gateway.nodes.commands.allow opt-in'
        )


@on_loop
async def test_two_operators_ask_at_once_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    async with field(tmp_path) as f:
        other = await f.running.connect(ALL)
        await f.send(f.operator, "a", key="k1", params={"who": 1})
        first = (await f.node.event("node.invoke.request"))["payload"]
        await f.send(other, "b", key="k2", params={"who": 2})
        second = (await f.node.event("node.invoke.request"))["payload"]
        assert json.loads(first["paramsJSON"]) == {"who": 1}
        assert 0 < second["timeoutMs"] <= node_invokes.DEFAULT_MS
        assert await f.result(second, payload={"n": 2}) == {"ok": True}
        assert await f.result(first, payloadJSON='{"n":1}') == {"ok": True}
        assert (await other.answer("b"))["payload"]["payload"] == {"n": 2}
        answer = (await f.operator.answer("a"))["payload"]
        assert (answer["payload"], answer["payloadJSON"]) == ({"n": 1}, '{"n":1}')


@on_loop
async def test_a_repeat_is_answered_as_the_first_request_and_the_node_hears_of_it_once(tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    async with field(tmp_path, store=store) as f:
        await f.send(f.operator, "a", key="k")
        asked = (await f.node.event("node.invoke.request"))["payload"]
        await f.send(f.operator, "b", key="k")
        other = await f.error("node.invoke", **f.ask("k", "location.get", params={"other": 1}))
        assert other["message"] == "idempotencyKey was used for another request"
        await f.result(asked, payload=5)
        assert (await f.operator.answer("a"))["payload"]["payload"] == 5
        assert (await f.operator.answer("b"))["payload"]["payload"] == 5
        assert (await f.ok("node.invoke", **f.ask("k")))["payload"] == 5
        assert not [e for e in f.node.events if e["event"] == "node.invoke.request"]
    async with plane(tmp_path, store=store) as running:
        # The node is not there, and need not be.
        again = await (await running.connect(ALL)).call("node.invoke", f.ask("k"))
        assert again["payload"]["payload"] == 5


@on_loop
async def test_a_request_whose_outcome_died_with_the_gateway_is_not_asked_again(tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    async with field(tmp_path, store=store) as f:
        await f.send(f.operator, "a", key="k")
        await f.node.event("node.invoke.request")
        await f.operator.socket.close()
        stored = await store.recall_key("operator", "node.invoke", "k")
    assert stored is not None
    async with field(tmp_path, store=store, approved=False) as f:
        error = await f.error("node.invoke", **f.ask("k"))
        assert error["details"] == {"code": "OUTCOME_UNKNOWN", "nodeCommandDispatched": True}


@on_loop
async def test_a_result_counts_from_the_connection_that_was_asked_only(tmp_path: Path) -> None:
    async with field(tmp_path) as f:
        forger_key = Key(51)
        forger = await connect_node(f.running, forger_key)
        await f.send(f.operator, "a", key="k")
        asked = (await f.node.event("node.invoke.request"))["payload"]
        forged = {"id": asked["id"], "ok": True, "payload": "forged"}
        answer = await forger.call("node.invoke.result", {**forged, "nodeId": f.key.id})
        assert answer["error"]["message"] == "nodeId mismatch"
        answer = await forger.call("node.invoke.result", {**forged, "nodeId": forger_key.id})
        assert answer["payload"] == {"ok": True, "ignored": True}
        assert await f.result({"id": "unknown"}) == {"ok": True, "ignored": True}
        await f.result(asked, payload="true")
        assert (await f.operator.answer("a"))["payload"]["payload"] == "true"
        assert await f.result(asked, payload="again") == {"ok": True, "ignored": True}


@on_loop
async def test_a_late_result_is_dropped_and_the_node_is_told_to_stop(tmp_path: Path) -> None:
    async with field(tmp_path) as f:
        error = await f.error("node.invoke", **f.ask("k", timeoutMs=30))
        assert (error["code"], error["message"]) == ("UNAVAILABLE", "TIMEOUT: node invoke timed out")
        asked = (await f.node.event("node.invoke.request"))["payload"]
        assert (await f.node.event("node.invoke.cancel"))["payload"] == {"invokeId": asked["id"], "nodeId": f.key.id}
        assert await f.result(asked, payload=1) == {"ok": True, "ignored": True}
        assert (await f.error("node.invoke", **f.ask("k")))["message"] == "TIMEOUT: node invoke timed out"


@on_loop
async def test_a_node_that_goes_fails_what_it_was_asked_at_once(tmp_path: Path) -> None:
    async with field(tmp_path) as f:
        await f.send(f.operator, "a", key="k")
        await f.node.event("node.invoke.request")
        await f.node.socket.close()
        async with asyncio.timeout(3):
            error = (await f.operator.answer("a"))["error"]
        assert error["details"]["code"] == "NOT_CONNECTED"
        assert error["details"]["nodeCommandDispatched"] is True
        error = await f.error("node.invoke", **f.ask("k2"))
        assert (error["message"], error["details"]["nodeCommandDispatched"]) == ("node not connected", False)
        # Nothing was sent, so the same key asks the node when it is back.
        await connect_node(f.running, f.key)
        f.node = f.running.sockets[-1]
        await f.send(f.operator, "b", key="k2")
        await f.result((await f.node.event("node.invoke.request"))["payload"], payload=1)
        assert (await f.operator.answer("b"))["ok"]


@on_loop
async def test_a_node_that_connects_again_takes_the_place_of_its_older_connection(tmp_path: Path) -> None:
    async with field(tmp_path) as f:
        await f.send(f.operator, "a", key="k1")
        asked = (await f.node.event("node.invoke.request"))["payload"]
        newer = await connect_node(f.running, f.key)
        async with asyncio.timeout(3):
            assert (await f.operator.answer("a"))["error"]["details"]["code"] == "NOT_CONNECTED"
        assert (await f.node.until_closed())[0] == 4001
        late = await newer.call("node.invoke.result", {"id": asked["id"], "nodeId": f.key.id, "ok": True})
        assert late["payload"] == {"ok": True, "ignored": True}
        f.node = newer
        await f.send(f.operator, "b", key="k2")
        await f.result((await newer.event("node.invoke.request"))["payload"], payload=2)
        assert (await f.operator.answer("b"))["payload"]["payload"] == 2


@on_loop
async def test_removing_a_node_ends_its_connection_its_requests_and_its_rights(tmp_path: Path) -> None:
    async with field(tmp_path) as f:
        await f.send(f.operator, "a", key="k1")
        await f.node.event("node.invoke.request")
        await f.ok("node.pair.remove", nodeId=f.key.id)
        async with asyncio.timeout(3):
            assert not (await f.operator.answer("a"))["ok"]
        assert (await f.node.until_closed())[0] == 4001
        assert (await f.ok("node.list"))["nodes"] == []
        assert (await f.ok("device.pair.list"))["paired"] == []
        assert (await f.error("node.pair.remove", nodeId=f.key.id))["message"] == "unknown nodeId"
        # Paired anew, it has to be approved anew.
        f.node = await connect_node(f.running, f.key)
        assert (await f.error("node.invoke", **f.ask("k2")))["details"]["code"] == "PAIRING_CHANGED"


@on_loop
async def test_a_device_removed_or_revoked_elsewhere_takes_its_approval_as_a_node_along(tmp_path: Path) -> None:
    async with field(tmp_path) as f:
        await f.ok("device.token.revoke", deviceId=f.key.id, role="node")
        assert (await f.ok("node.list"))["nodes"] == []
        assert (await f.error("node.invoke", **f.ask("k")))["message"] == "node not connected"
        node = await f.running.open()
        refused = await node.connect_device(f.key, client="node-host", mode="node", role="node", scopes=[])
        request = refused["error"]["details"]["requestId"]
        await f.ok("device.pair.approve", requestId=request)
        f.node = await connect_node(f.running, f.key)
        assert (await f.ok("node.describe", nodeId=f.key.id))["commands"] == []


@on_loop
async def test_what_a_node_says_is_bounded(tmp_path: Path) -> None:
    async with field(tmp_path) as f:
        await f.send(f.operator, "a", key="k1")
        asked = (await f.node.event("node.invoke.request"))["payload"]
        await f.result(asked, payloadJSON='"' + "x" * node_invokes.MAX_RESULT + '"')
        error = (await f.operator.answer("a"))["error"]
        assert error["details"]["nodeError"]["code"] == "RESULT_TOO_LARGE"
        await f.send(f.operator, "b", key="k2")
        asked = (await f.node.event("node.invoke.request"))["payload"]
        await f.result(asked, ok=False, error={"code": "C" * 500, "message": "m" * 100_000})
        error = (await f.operator.answer("b"))["error"]
        assert len(error["message"]) == node_invokes.MAX_WORDS
        assert len(error["details"]["code"]) == 64


@on_loop
@pytest.mark.parametrize("text", ["[" * 975 + "]" * 975, '[NaN,"\\ud800"]', "[1", '"' + "\\ud800" + '"]'])
async def test_a_result_that_is_no_json_is_a_failure_of_the_node_and_never_a_wait(text: str, tmp_path: Path) -> None:
    async with asyncio.timeout(10), field(tmp_path) as f:
        for more in ({}, {"payload": 1}):
            key = f"k{len(more)}"
            await f.send(f.operator, "a", key=key)
            asked = (await f.node.event("node.invoke.request"))["payload"]
            assert await f.result(asked, payloadJSON=text, **more) == {"ok": True}
            error = (await f.operator.answer("a"))["error"]
            assert error["details"]["code"] == "INVALID_RESULT"
            assert (await f.error("node.invoke", **f.ask(key)))["details"]["code"] == "INVALID_RESULT"


@on_loop
async def test_a_cut_emoji_in_a_result_reaches_operators_as_json(tmp_path: Path) -> None:
    async with asyncio.timeout(10), field(tmp_path) as f:
        for text, payload in (('["\\ud800"]', ["\ufffd"]), ("", None), ("null", None)):
            await f.send(f.operator, "a", key=f"k{text}")
            asked = (await f.node.event("node.invoke.request"))["payload"]
            await f.result(asked, payloadJSON=text)
            answer = (await f.operator.answer("a"))["payload"]
            assert (answer["payload"], answer["payloadJSON"]) == (payload, text)


@on_loop
async def test_a_node_is_not_asked_for_more_than_it_can_work_on(tmp_path: Path) -> None:
    async with field(tmp_path) as f:
        for number in range(node_invokes.MAX_OF_NODE):
            await f.send(f.operator, f"a{number}", key=f"k{number}")
        for _ in range(node_invokes.MAX_OF_NODE):
            await f.node.event("node.invoke.request")
        error = await f.error("node.invoke", **f.ask("one more"))
        assert (error["message"], error["retryable"]) == (node_invokes.BUSY, True)


@on_loop
async def test_events_that_nobody_knows_are_left_alone(tmp_path: Path) -> None:
    async with field(tmp_path) as f:
        for event in ("exec.finished", "node.presence.alive", "made.up"):
            answer = await f.node.call("node.event", {"event": event, "payloadJSON": '{"runId": "forged"'})
            assert answer["payload"] == {"ok": True, "event": event, "handled": False, "reason": "not supported"}
        assert (await f.node.call("node.pending.pull"))["payload"] == {"nodeId": f.key.id, "actions": []}


@on_loop
async def test_a_device_on_its_own_token_manages_no_other_node(tmp_path: Path) -> None:
    async with field(tmp_path) as f:
        phone = Key(52)
        first = await f.running.open()
        hello = await first.connect_device(phone, client="openclaw-tui", mode="ui", scopes=["operator.pairing"])
        token = hello["payload"]["auth"]["deviceToken"]
        own = await f.running.open()
        params = connect_params(
            client="openclaw-tui", mode="ui", scopes=["operator.pairing"], auth={"deviceToken": token}
        )
        assert token != TOKEN
        assert (await own.say_connect(phone.sign(params, own.challenge["nonce"], own.challenge["ts"])))["ok"]
        assert (await own.call("node.pair.list"))["payload"] == {"pending": [], "paired": []}
        for method, more in (("node.pair.remove", {}), ("node.rename", {"displayName": "x"})):
            answer = await own.call(method, {"nodeId": f.key.id, **more})
            assert answer["error"]["message"] == "unknown nodeId"
        assert (await f.ok("node.rename", nodeId=f.key.id, displayName=" My  node "))["displayName"] == "My node"
        assert (await f.ok("node.list"))["nodes"][0]["displayName"] == "My node"


@on_loop
async def test_a_node_that_asks_for_a_method_of_a_newer_gateway_hears_that_there_is_none(tmp_path: Path) -> None:
    async with field(tmp_path) as f:
        answer = await f.node.call("node.runnerInventory.update", {"runners": []})
        assert answer["error"]["message"] == "unknown method: node.runnerInventory.update"
        answer = await f.node.call("config.get")
        assert answer["error"]["message"].startswith(("unauthorized role: node", "unknown method"))
