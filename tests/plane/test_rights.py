"""The matrix of methods and rights: made from the table of the running gateway, checked call by call."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from fakes.event_loop import on_loop
from harness.stage import stage
from plane.client import Key, Plane, RawClient, connect_params, plane
from tidegate.gateway.plane.broadcast import RULES
from tidegate.gateway.plane.contract import Call, Method, MethodTable, NoParams, PlaneEvent, Role, Scope, covers
from tidegate.gateway.plane.rights import rights_page

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "rights.md"


@on_loop
async def test_the_committed_page_of_rights_is_current(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up, set_up.gateway() as gateway:
        page = rights_page(gateway.plane.server.methods)
    assert PAGE.read_text(encoding="utf-8") == page, "run scripts/rights_reference.py"


async def _nothing(_: Call) -> None:
    return None


def test_a_method_without_a_stated_scope_is_refused() -> None:
    with pytest.raises(ValueError, match="does not say which scope"):
        MethodTable([Method("new.method", NoParams, _nothing, None)])


def test_two_methods_of_one_name_are_refused() -> None:
    method = Method("m", NoParams, _nothing, Scope.READ)
    with pytest.raises(ValueError, match="two methods"):
        MethodTable([method, method])


async def _outcome(client: RawClient, method: str) -> str:
    answer = await client.call(method, {"surely not a parameter": 1})
    if answer["ok"]:
        return "called"
    text = str(answer["error"]["message"])
    return text if text.startswith(("missing scope", "unauthorized role")) else "called"


def _expected(method: Method, scopes: list[str]) -> str:
    if Role.OPERATOR not in method.roles:
        return "unauthorized role: operator"
    if isinstance(method.scope, Scope) and not covers(scopes, method.scope):
        return f"missing scope: {method.scope.value}"
    return "called"


async def _check(running: Plane, scopes: list[str]) -> None:
    client = await running.connect(scopes)
    for method in running.server.methods.all():
        assert await _outcome(client, method.name) == _expected(method, scopes), (method.name, scopes)


@on_loop
async def test_every_method_answers_exactly_those_who_hold_its_scope(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        for scopes in ([], *([scope.value] for scope in Scope)):
            await _check(running, scopes)


@on_loop
async def test_every_method_of_a_whole_gateway_keeps_its_scope(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up, set_up.gateway() as gateway, aiohttp.ClientSession() as http:
        token = (tmp_path / "gateway.token").read_text().strip()
        for scopes in ([], *([scope.value] for scope in Scope if scope is not Scope.ADMIN)):
            client = RawClient(await http.ws_connect(f"http://127.0.0.1:{gateway.port}/"))
            await client.frame()
            assert (await client.say_connect(connect_params(scopes=scopes, auth={"token": token})))["ok"]
            for method in gateway.plane.server.methods.all():
                expected = _expected(method, scopes)
                # A call that may be made is not made: it would only test the method.
                if expected != "called":
                    assert await _outcome(client, method.name) == expected, (method.name, scopes)


@on_loop
async def test_a_node_reaches_only_the_methods_of_nodes(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        for method in running.server.methods.all():
            node = await running.open()
            await node.connect_device(Key(30), client="node-host", mode="node", role="node", scopes=[])
            expected = "called" if Role.NODE in method.roles else "unauthorized role: node"
            assert await _outcome(node, method.name) == expected
            await node.socket.close()


@on_loop
async def test_events_reach_exactly_those_who_may_see_them(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        holders = {scope: await running.connect([scope.value]) for scope in Scope}
        for name in [*RULES, "nobody.knows.this"]:
            running.hub.publish(PlaneEvent(name, {"name": name}))
        running.hub.publish(PlaneEvent("tick", "last"))
        for scope, client in holders.items():
            seen = set()
            while True:
                async with asyncio.timeout(5):
                    frame = await client.frame()
                if frame["payload"] == "last":
                    break
                seen.add(frame["event"])
            # Rows of a session's transcript reach its subscribers only.
            wanted = {n for n, need in RULES.items() if need == "" or covers([scope], Scope(need))} - {
                "session.message"
            }
            assert seen == wanted, scope


@on_loop
async def test_a_client_that_asked_for_some_sessions_sees_those_only(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        client = await running.open()
        await client.say_connect(connect_params(caps=["session-scoped-events"]))
        connection = running.hub.connections[0]
        running.hub.subscribe(connection.id, ["agent:main:main"])
        for session in ("agent:main:other", "agent:main:main"):
            running.hub.publish(PlaneEvent("chat", {"s": session}, session=session))
            running.hub.publish(PlaneEvent("session.message", {"s": session}, session=session))
        running.hub.unsubscribe(connection.id, ["agent:main:main"])
        running.hub.publish(PlaneEvent("chat", {"s": "after"}, session="agent:main:main"))
        running.hub.publish(PlaneEvent("tick", {}))
        frames = [await client.frame() for _ in range(3)]
        assert [(f["event"], f["payload"].get("s")) for f in frames] == [
            ("chat", "agent:main:main"),
            ("session.message", "agent:main:main"),
            ("tick", None),
        ]
