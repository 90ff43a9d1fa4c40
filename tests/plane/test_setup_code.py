"""Setup codes: one device, once, with what the code gives and no more."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from fakes.event_loop import on_loop
from plane.client import Key, Plane, plane
from plane.talking import talking

URL = "wss://gate.example"


async def made(running: Plane, **params: Any) -> dict[str, Any]:
    answer = await (await running.connect()).call("device.pair.setupCode", {"publicUrl": URL, **params})
    assert answer["ok"], answer
    found: dict[str, Any] = answer["payload"]
    return found


def inside(code: str) -> dict[str, str]:
    told: dict[str, str] = json.loads(base64.urlsafe_b64decode(code + "=" * (-len(code) % 4)))
    return told


@on_loop
async def test_a_code_pairs_one_phone_once(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        found = await made(running, includeQr=True)
        assert (found["gatewayUrl"], found["urlSource"], found["auth"], found["access"]) == (
            URL,
            "publicUrl",
            "token",
            "limited",
        )
        assert found["qrDataUrl"].startswith("data:image/svg+xml")
        told = inside(found["setupCode"])
        assert told["url"] == URL
        phone = await running.open()
        fields: dict[str, Any] = {
            "client": "openclaw-ios",
            "mode": "ui",
            "auth": {"bootstrapToken": told["bootstrapToken"]},
        }
        wide = await phone.connect_device(Key(80), scopes=["operator.admin"], **fields)
        assert wide["error"]["details"]["code"] == "AUTH_BOOTSTRAP_TOKEN_INVALID"
        # A code that was tried for more than it gives is used up.
        told = inside((await made(running))["setupCode"])
        fields["auth"] = {"bootstrapToken": told["bootstrapToken"]}
        phone = await running.open()
        hello = await phone.connect_device(Key(80), scopes=["operator.read"], **fields)
        assert hello["payload"]["auth"]["scopes"] == ["operator.read"]
        second = await running.open()
        again = await second.connect_device(Key(81), scopes=["operator.read"], **fields)
        assert again["error"]["details"]["code"] == "AUTH_BOOTSTRAP_TOKEN_INVALID"


@on_loop
async def test_a_link_for_a_browser_holds_the_code_where_the_address_has_tls(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        for url in (URL, "https://gate.example/chat/"):
            found = await made(running, publicUrl=url, joinUrl=True)
            told = inside(found["setupCode"])
            path = "/chat/" if "chat" in url else "/"
            assert found["joinUrl"] == f"https://gate.example{path}#code={told['bootstrapToken']}"
        assert "joinUrl" not in await made(running)
        assert "joinUrl" not in await made(running, publicUrl="ws://100.64.0.7:18790", joinUrl=True)
        assert "joinUrl" not in await made(running, joinUrl=True, bootstrapProfile="node")
    (tmp_path / "off").mkdir()
    async with talking(tmp_path / "off", more="gateway: { controlUi: { enabled: false } },") as talk:
        assert "joinUrl" not in await talk.ok("device.pair.setupCode", publicUrl=URL, joinUrl=True)


@on_loop
async def test_a_code_for_a_node_makes_a_node_and_no_operator(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        told = inside((await made(running, bootstrapProfile="node"))["setupCode"])
        auth = {"bootstrapToken": told["bootstrapToken"]}
        phone = await running.open()
        answer = await phone.connect_device(Key(82), client="openclaw-ios", mode="ui", auth=auth)
        assert answer["error"]["details"]["code"] == "AUTH_BOOTSTRAP_TOKEN_INVALID"
        told = inside((await made(running, bootstrapProfile="node"))["setupCode"])
        auth = {"bootstrapToken": told["bootstrapToken"]}
        node = await running.open()
        hello = await node.connect_device(
            Key(82), client="openclaw-ios", mode="node", role="node", scopes=[], auth=auth
        )
        assert hello["payload"]["auth"]["role"] == "node"


@on_loop
async def test_an_address_that_is_not_encrypted_or_not_known_is_refused(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        client = await running.connect()
        for url in ("ws://gate.example", "ftp://x", "wss://", "wss://" + "x" * 600):
            answer = await client.call("device.pair.setupCode", {"publicUrl": url})
            assert answer["error"]["message"] == "publicUrl must begin with wss:// or https://"
        answer = await client.call("device.pair.setupCode")
        assert answer["error"]["message"].startswith("Gateway is only bound to loopback")
        lesser = await running.connect(["operator.pairing"])
        answer = await lesser.call("device.pair.setupCode", {"publicUrl": URL})
        assert answer["error"]["message"] == "missing scope: operator.admin"


@on_loop
async def test_the_configured_name_is_found_without_saying_it(tmp_path: Path) -> None:
    more = 'gateway: { controlUi: { allowedOrigins: ["https://gate.example"] } },'
    async with talking(tmp_path, more=more) as talk:
        found = await talk.ok("device.pair.setupCode")
        assert (found["gatewayUrl"], found["urlSource"]) == (URL, "gateway.controlUi.allowedOrigins")
