"""What a node says reaches an agent, with the rights of a machine and not of the owner."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fakes.event_loop import on_loop
from plane.client import Key, RawClient, connect_params
from plane.talking import Talk, talking
from tidegate.config.load import load_config
from tidegate.gateway.plane.limits import WriteBudget


async def join(talk: Talk, key: Key, *, approve: bool = True, commands: Sequence[str] = ()) -> RawClient:
    socket = await talk.http.ws_connect(f"http://127.0.0.1:{talk.gateway.port}/")
    node = RawClient(socket)
    node.challenge = (await node.frame())["payload"]
    token = (talk.stage.state_dir / "gateway.token").read_text().strip()
    params = connect_params(
        client="node-host", mode="node", role="node", scopes=[], auth={"token": token}, commands=list(commands)
    )
    answer = await node.say_connect(key.sign(params, node.challenge["nonce"], node.challenge["ts"]))
    assert answer["ok"], answer
    if approve:
        pending = (await talk.ok("node.pair.list"))["pending"]
        await talk.ok("node.pair.approve", requestId=pending[0]["requestId"])
    return node


async def tell(node: RawClient, event: str, **payload: Any) -> Any:
    answer = await node.call("node.event", {"event": event, "payload": payload})
    return answer["payload"] if answer["ok"] else answer["error"]


async def final(client: RawClient) -> dict[str, Any]:
    async with asyncio.timeout(10):
        while True:
            payload: dict[str, Any] = (await client.event("chat"))["payload"]
            if payload["state"] == "final":
                return payload


@on_loop
async def test_a_transcript_of_a_voice_is_answered_in_the_main_session_without_the_owners_rights(
    tmp_path: Path,
) -> None:
    async with talking(tmp_path) as talk:
        node = await join(talk, Key(60))
        assert await tell(node, "voice.transcript", text="hi from node", sessionKey="main") == {"ok": True}
        payload = await final(talk.client)
        assert payload["sessionKey"] == "agent:main:main"
        assert payload["message"]["content"][0]["text"] == "echo: hi from node"
        assert talk.stage.rows("SELECT DISTINCT is_owner FROM events") == [(0,)]
        # A command is a word like others.
        assert await tell(node, "agent.request", message="/new") == {"ok": True}
        assert (await final(talk.client))["message"]["content"][0]["text"] == "echo: /new"


@on_loop
async def test_a_node_speaks_in_no_session_of_others(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        node = await join(talk, Key(60))
        for key in ("agent:main:talk", "agent:main:telegram:direct:1", "agent:other:main", "agent:main:node:else"):
            told = await tell(node, "voice.transcript", text="psst", sessionKey=key)
            assert (told["handled"], told["reason"]) == (False, "not a session of this node"), key
        assert (await tell(node, "voice.transcript", text=" "))["reason"] == "nothing said"
        assert (await tell(node, "voice.transcript", text=7))["reason"] == "nothing said"
        assert "longer" in (await tell(node, "agent.request", message="x" * 20_001))["reason"]


@on_loop
async def test_a_node_that_nobody_approved_is_not_heard(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        node = await join(talk, Key(60), approve=False)
        assert (await tell(node, "voice.transcript", text="hi"))["reason"] == "the node is not approved"
        own = f"agent:main:node:{Key(60).id}"
        assert (await tell(node, "chat.subscribe", sessionKey=own))["reason"] == "the node is not approved"


@on_loop
async def test_a_node_hears_the_answers_of_its_own_session_only(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        node = await join(talk, Key(60))
        own = f"agent:main:node:{Key(60).id}"
        for other in ("main", "agent:main:talk", ""):
            assert (await tell(node, "chat.subscribe", sessionKey=other))["handled"] is False
        assert await tell(node, "chat.subscribe", sessionKey=own) == {"ok": True}
        await talk.say("for the owner", "r1", "main")
        await talk.until("r1", "final")
        assert await tell(node, "agent.request", message="mine", sessionKey=own) == {"ok": True}
        heard = await final(node)
        assert heard["sessionKey"] == own
        assert heard["message"]["content"][0]["text"] == "echo: mine"
        assert {e["payload"]["sessionKey"] for e in node.events if e["event"] in ("chat", "agent")} == {own}
        assert not [e for e in node.events if "seq" in e and e["event"] in ("chat", "agent")]
        assert await tell(node, "chat.unsubscribe", sessionKey=own) == {"ok": True}


@on_loop
async def test_a_node_that_never_stops_talking_is_slowed_down(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        node = await join(talk, Key(60))
        answers = [await tell(node, "voice.transcript", text="again") for _ in range(WriteBudget.LIMIT + 1)]
        assert answers[-1]["retryable"] is True
        assert "rate limit exceeded" in answers[-1]["message"]


@on_loop
async def test_a_command_that_the_configuration_denies_is_not_asked_for_from_then_on(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        node = await join(talk, Key(60), commands=["location.get"])
        row = (await talk.ok("node.list"))["nodes"][0]
        assert row["commands"] == ["location.get"]
        talk.stage.write_config('gateway: { nodes: { commands: { deny: ["location.get"] } } },')
        place = talk.stage.state_dir
        talk.gateway.apply(load_config(talk.stage.config_path, environ={"HOME": str(place)}, state_dir=place))
        assert (await talk.ok("node.list"))["nodes"][0]["commands"] == []
        error = await talk.error("node.invoke", nodeId=row["nodeId"], command="location.get", idempotencyKey="k")
        assert error["details"]["reason"] == "command denied"
        assert not [event for event in node.events if event["event"] == "node.invoke.request"]
