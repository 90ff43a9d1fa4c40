"""One test per published attack on a control plane, on pairing and on tokens; each names its advisory."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from fakes.event_loop import on_loop
from plane.client import ALL, QUICK, TOKEN, Key, Plane, RawClient, connect_params, plane, with_rules
from tidegate.clock import ManualClock
from tidegate.gateway.plane.auth import AuthSettings
from tidegate.gateway.plane.contract import Call, Method, NoParams, RpcError, Scope
from tidegate.gateway.plane.peers import parse_networks, peer_of

MANUAL = AuthSettings("token", TOKEN, rules=QUICK, auto_approve_local=False)
PROXIED = AuthSettings("token", TOKEN, rules=QUICK, trusted_proxies=parse_networks(["127.0.0.1"]))


async def paired(running: Plane, key: Key, *scopes: str, role: str = "operator") -> dict[str, object]:
    """Pair a device through a person's approval; returns its `auth` as hello-ok tells it."""
    admin = await running.connect()
    client = await running.open()
    refused = await client.connect_device(key, scopes=list(scopes), role=role)
    request = refused["error"]["details"]["requestId"]
    approved = await admin.call("device.pair.approve", {"requestId": request})
    assert approved["ok"], approved
    again = await running.open()
    answer = await again.connect_device(key, scopes=list(scopes), role=role)
    auth: dict[str, object] = answer["payload"]["auth"]
    return auth


async def refusal(client: RawClient, params: dict[str, object]) -> str:
    """Send `connect` and return the detail code of its refusal."""
    answer = await client.say_connect(params)
    assert not answer["ok"], answer
    return str(answer["error"]["details"]["code"])


@on_loop
async def test_cswsh_a_page_of_another_origin_gets_no_socket(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        for origin in ("https://evil.example", "null", "http://127.0.0.1:1", "file://"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await running.open(headers={"Origin": origin})
            assert caught.value.status == 403


@on_loop
async def test_cswsh_our_own_page_and_configured_ones_get_a_socket(tmp_path: Path) -> None:
    settings = AuthSettings("token", TOKEN, rules=QUICK, allowed_origins=("https://gate.example",))
    async with plane(tmp_path, settings=settings) as running:
        await running.open(headers={"Origin": running.url})
        await running.open(headers={"Origin": "https://gate.example", "Host": "gate.example"})


@on_loop
async def test_cswsh_a_rebound_name_is_refused_on_every_route(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        for path in ("/", "/healthz", "/anything"):
            async with running.http.get(running.url + path, headers={"Host": "evil.example"}) as answer:
                assert answer.status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await running.open(headers={"Host": "evil.example"})


@on_loop
async def test_cve_2026_22172_a_scope_that_was_only_declared_is_not_held(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        client = await running.connect(["operator.admin"], client="test", mode="test")
        assert client.hello["auth"]["scopes"] == []
        answer = await client.call("status")
        assert answer["error"]["details"]["code"] == "MISSING_SCOPE"


@on_loop
async def test_cve_2026_22172_a_device_gets_what_was_approved_and_not_what_it_asks(tmp_path: Path) -> None:
    async with plane(tmp_path, settings=MANUAL) as running:
        auth = await paired(running, Key(1), "operator.read")
        client = await running.open()
        wide = connect_params(scopes=["operator.admin"], auth={"deviceToken": str(auth["deviceToken"])})
        answer = await client.say_connect(Key(1).sign(wide, client.challenge["nonce"], client.challenge["ts"]))
        assert answer["error"]["details"]["code"] == "AUTH_SCOPE_MISMATCH"


@on_loop
async def test_cve_2026_53821_scopes_in_a_header_are_not_believed(tmp_path: Path) -> None:
    settings = AuthSettings("trusted-proxy", rules=QUICK, trusted_proxies=parse_networks(["127.0.0.1"]))
    async with plane(tmp_path, settings=settings) as running:
        headers = {
            "X-Forwarded-For": "192.0.2.7",
            "X-Forwarded-User": "ann",
            "X-OpenClaw-Scopes": "operator.admin",
            "X-Forwarded-Scopes": "operator.admin",
        }
        client = await running.connect(["operator.admin"], headers=headers, auth={})
        assert client.hello["auth"]["method"] == "trusted-proxy"
        assert client.hello["auth"]["scopes"] == []


@on_loop
async def test_cve_2026_53821_identity_headers_count_from_the_proxy_only(tmp_path: Path) -> None:
    settings = AuthSettings("trusted-proxy", rules=QUICK, trusted_proxies=parse_networks(["192.0.2.1"]))
    async with plane(tmp_path, settings=settings) as running:
        client = await running.open(headers={"X-Forwarded-User": "ann"})
        assert await refusal(client, connect_params(auth={})) == "AUTH_IDENTITY_HEADER_REQUIRED"


@on_loop
async def test_cve_2026_25593_no_method_answers_before_authentication(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        for method in (m.name for m in running.server.methods.all() if m.name != "connect"):
            client = await running.open()
            await client.socket.send_json({"type": "req", "id": "x", "method": method, "params": {}})
            answer = await client.answer("x")
            assert answer["error"]["message"] == "invalid handshake: first request must be connect"
            assert (await client.until_closed())[0] == 1008


def test_cve_2026_35656_forwarding_headers_never_make_a_client_local() -> None:
    spoofed = {"X-Forwarded-For": "127.0.0.1", "X-Real-IP": "127.0.0.1"}
    assert not peer_of("192.0.2.9", spoofed, ()).is_local
    assert peer_of("192.0.2.9", spoofed, ()).ip == "192.0.2.9"
    assert not peer_of("127.0.0.1", spoofed, ()).is_local
    assert not peer_of("127.0.0.1", spoofed, parse_networks(["127.0.0.1"])).is_local


@on_loop
async def test_cve_2026_53817_a_proxied_client_is_never_paired_without_asking(tmp_path: Path) -> None:
    async with plane(tmp_path, settings=PROXIED) as running:
        client = await running.open(headers={"X-Forwarded-For": "127.0.0.1"})
        answer = await client.connect_device(Key(2), scopes=["operator.admin"])
        assert answer["error"]["code"] == "NOT_PAIRED"
        assert await running.store.devices() == []


@on_loop
async def test_cve_2026_53817_without_the_shared_secret_admin_is_never_given_silently(tmp_path: Path) -> None:
    settings = AuthSettings("none", rules=QUICK)
    async with plane(tmp_path, settings=settings) as running:
        client = await running.open()
        answer = await client.connect_device(Key(3), scopes=["operator.admin"], auth={})
        assert answer["error"]["code"] == "NOT_PAIRED"
        reader = await running.open()
        assert (await reader.connect_device(Key(4), scopes=["operator.read"], auth={}))["ok"]
        again = await running.open()
        upgrade = await again.connect_device(Key(4), scopes=["operator.read", "operator.admin"], auth={})
        assert upgrade["error"]["details"]["reason"] == "scope-upgrade"


@on_loop
async def test_cve_2026_62220_http_and_websocket_share_one_count(tmp_path: Path) -> None:
    settings = with_rules(PROXIED, max_attempts=3)
    far = {"X-Forwarded-For": "198.51.100.7"}
    async with plane(tmp_path, settings=settings) as running:
        peer = peer_of("127.0.0.1", far, settings.trusted_proxies)
        for _ in range(2):
            with pytest.raises(RpcError, match="token mismatch"):
                await running.doorkeeper.check_http(peer, "Bearer wrong", {})
        client = await running.open(headers=far)
        assert await refusal(client, connect_params(auth={"token": "wrong"})) == "AUTH_TOKEN_MISMATCH"
        client = await running.open(headers=far)
        right = await client.say_connect(connect_params())
        assert right["error"]["details"]["code"] == "AUTH_RATE_LIMITED"
        assert right["error"]["retryAfterMs"] > 0
        with pytest.raises(RpcError, match="too many failed"):
            await running.doorkeeper.check_http(peer, f"Bearer {TOKEN}", {})
        other = await running.open(headers={"X-Forwarded-For": "198.51.100.8"})
        assert (await other.say_connect(connect_params()))["ok"]


@on_loop
async def test_cve_2026_62220_all_addresses_of_one_customer_share_a_count(tmp_path: Path) -> None:
    settings = with_rules(PROXIED, max_attempts=3)
    async with plane(tmp_path, settings=settings) as running:
        codes = []
        for number in range(4):
            client = await running.open(headers={"X-Forwarded-For": f"2001:db8:0:7:{number}::{number}"})
            codes.append(await refusal(client, connect_params(auth={"token": "wrong"})))
        assert codes == ["AUTH_TOKEN_MISMATCH"] * 3 + ["AUTH_RATE_LIMITED"]
        neighbour = await running.open(headers={"X-Forwarded-For": "2001:db8:0:8::1"})
        assert (await neighbour.say_connect(connect_params()))["ok"]


@on_loop
async def test_cve_2026_62220_what_comes_through_a_strange_proxy_never_locks_this_machine_out(tmp_path: Path) -> None:
    settings = with_rules(MANUAL, max_attempts=2)
    async with plane(tmp_path, settings=settings) as running:
        for _ in range(3):
            client = await running.open(headers={"X-Forwarded-For": "9.9.9.9"})
            last = await refusal(client, connect_params(auth={"token": "wrong"}))
        assert last == "AUTH_RATE_LIMITED"
        assert (await (await running.open()).say_connect(connect_params()))["ok"]


@on_loop
async def test_cve_2026_62220_many_wrong_secrets_of_this_machine_keep_the_right_one_waiting_and_not_out(
    tmp_path: Path,
) -> None:
    settings = with_rules(MANUAL, local_delay=0.05, local_delay_max=0.05)
    async with plane(tmp_path, settings=settings) as running, asyncio.TaskGroup() as group:
        for _ in range(40):
            client = await running.open()
            group.create_task(client.say_connect(connect_params(auth={"token": "wrong"})))
        assert (await (await running.open()).say_connect(connect_params()))["ok"]


@on_loop
async def test_cve_2026_62220_wrong_device_tokens_are_counted_too(tmp_path: Path) -> None:
    settings = with_rules(PROXIED, max_attempts=2)
    far = {"X-Forwarded-For": "198.51.100.7"}
    async with plane(tmp_path, settings=settings) as running:
        codes = []
        for _ in range(3):
            client = await running.open(headers=far)
            answer = await client.connect_device(Key(5), auth={"deviceToken": "wrong"})
            codes.append(answer["error"]["details"]["code"])
        assert codes == ["AUTH_DEVICE_TOKEN_MISMATCH", "AUTH_DEVICE_TOKEN_MISMATCH", "AUTH_RATE_LIMITED"]


@on_loop
async def test_cve_2026_62220_this_machine_is_slowed_down_and_not_locked_out(tmp_path: Path) -> None:
    settings = with_rules(MANUAL, max_attempts=2, local_delay=0.05, local_delay_max=0.2)
    async with plane(tmp_path, settings=settings) as running:
        loop = asyncio.get_running_loop()
        waited = []
        for _ in range(4):
            client = await running.open()
            began = loop.time()
            assert await refusal(client, connect_params(auth={"token": "wrong"})) == "AUTH_TOKEN_MISMATCH"
            waited.append(loop.time() - began)
        assert [seconds >= low for seconds, low in zip(waited, (0.05, 0.1, 0.2, 0.2), strict=True)] == [True] * 4
        assert (await running.connect()).hello["auth"]["method"] == "token"


@on_loop
async def test_ghsa_68x5_a_changed_secret_counts_at_once_and_ends_old_connections(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        old = await running.connect()
        running.server.use_auth(replace(running.doorkeeper.settings, secret="another-secret"))
        assert await old.until_closed() == (4001, "gateway auth changed")
        client = await running.open()
        assert await refusal(client, connect_params()) == "AUTH_TOKEN_MISMATCH"
        client = await running.open()
        assert (await client.say_connect(connect_params(auth={"token": "another-secret"})))["ok"]


@on_loop
async def test_ghsa_m8wm_a_rotated_token_ends_at_once(tmp_path: Path) -> None:
    async with plane(tmp_path, settings=MANUAL) as running:
        auth = await paired(running, Key(6), "operator.read")
        token = {"deviceToken": str(auth["deviceToken"])}
        live = await running.open()
        assert (await live.connect_device(Key(6), auth=token))["ok"]
        admin = await running.connect()
        rotated = await admin.call("device.token.rotate", {"deviceId": Key(6).id, "role": "operator"})
        assert rotated["payload"]["tokenDelivery"] == "withheld-cross-device"
        assert "token" not in rotated["payload"]
        assert await live.until_closed() == (4001, "device removed")
        client = await running.open()
        answer = await client.connect_device(Key(6), auth=token)
        assert answer["error"]["details"]["code"] == "AUTH_DEVICE_TOKEN_MISMATCH"


@on_loop
async def test_cve_2026_41335_nothing_is_told_before_login(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        client = await running.open()
        assert set(client.challenge) == {"nonce", "ts"}
        reader = await running.connect(["operator.read"])
        assert "/secret/place" not in str(reader.hello)
        admin = await running.connect(["operator.admin"])
        assert "/secret/place" in str(admin.hello)


@on_loop
async def test_cve_2026_35639_an_approver_gives_only_what_it_holds(tmp_path: Path) -> None:
    async with plane(tmp_path, settings=MANUAL) as running:
        client = await running.open()
        refused = await client.connect_device(Key(7), scopes=["operator.admin", "operator.read"])
        request = {"requestId": refused["error"]["details"]["requestId"]}
        helper = await running.connect(["operator.pairing", "operator.read"])
        answer = await helper.call("device.pair.approve", request)
        assert answer["error"]["details"]["missingScope"] == "operator.admin"
        assert await running.store.devices() == []
        admin = await running.connect(["operator.admin"])
        assert (await admin.call("device.pair.approve", request))["ok"]


@on_loop
async def test_cve_2026_35639_only_an_admin_admits_a_node(tmp_path: Path) -> None:
    async with plane(tmp_path, settings=MANUAL) as running:
        node = await running.open()
        refused = await node.connect_device(Key(8), client="node-host", mode="node", role="node", scopes=[])
        request = {"requestId": refused["error"]["details"]["requestId"]}
        helper = await running.connect(["operator.pairing", "operator.write"])
        assert not (await helper.call("device.pair.approve", request))["ok"]


@on_loop
async def test_cve_2026_35639_a_lesser_caller_cannot_touch_a_greater_device(tmp_path: Path) -> None:
    async with plane(tmp_path, settings=MANUAL) as running:
        await paired(running, Key(9), "operator.admin")
        helper = await running.connect(["operator.pairing"])
        target = {"deviceId": Key(9).id}
        for method, params in (
            ("device.pair.remove", target),
            ("device.pair.rename", {**target, "label": "mine"}),
            ("device.token.rotate", {**target, "role": "operator"}),
            ("device.token.revoke", {**target, "role": "operator"}),
        ):
            assert (await helper.call(method, params))["error"]["code"] == "FORBIDDEN"
        assert len(await running.store.devices()) == 1


@on_loop
async def test_cve_2026_42422_rotation_keeps_role_and_scopes(tmp_path: Path) -> None:
    async with plane(tmp_path, settings=MANUAL) as running:
        await paired(running, Key(10), "operator.read")
        admin = await running.connect()
        target = {"deviceId": Key(10).id, "role": "operator"}
        wider = await admin.call("device.token.rotate", {**target, "scopes": ["operator.admin"]})
        assert not wider["ok"]
        assert not (await admin.call("device.token.rotate", {**target, "role": "node"}))["ok"]
        assert (await admin.call("device.token.rotate", target))["payload"]["scopes"] == ["operator.read"]


@on_loop
async def test_cve_2026_53843_revocation_is_final_until_somebody_approves_anew(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        first = await running.open()
        auth = (await first.connect_device(Key(11), scopes=["operator.read"]))["payload"]["auth"]
        admin = await running.connect()
        target = {"deviceId": Key(11).id, "role": "operator"}
        assert (await admin.call("device.token.revoke", target))["ok"]
        assert not (await admin.call("device.token.rotate", target))["ok"]
        by_token = await running.open()
        refused = await by_token.connect_device(Key(11), auth={"deviceToken": auth["deviceToken"]})
        assert refused["error"]["details"]["code"] == "AUTH_DEVICE_TOKEN_MISMATCH"
        by_secret = await running.open()
        assert (await by_secret.connect_device(Key(11)))["error"]["code"] == "NOT_PAIRED"


@on_loop
async def test_cve_2026_53843_a_removed_device_gets_no_old_token_back(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        first = await running.open()
        before = (await first.connect_device(Key(12)))["payload"]["auth"]["deviceToken"]
        admin = await running.connect()
        assert (await admin.call("device.pair.remove", {"deviceId": Key(12).id}))["ok"]
        assert await first.until_closed() == (4001, "device removed")
        again = await running.open()
        after = (await again.connect_device(Key(12)))["payload"]["auth"]["deviceToken"]
        assert before != after
        old = await running.open()
        assert not (await old.connect_device(Key(12), auth={"deviceToken": before}))["ok"]


@on_loop
async def test_cve_2026_32042_a_device_that_proves_nothing_is_refused_whatever_secret_it_shows(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        client = await running.open()
        params = Key(13).sign(connect_params(), client.challenge["nonce"], client.challenge["ts"])
        params["device"]["signature"] = params["device"]["signature"][:-4] + "AAAA"
        assert await refusal(client, params) == "DEVICE_AUTH_SIGNATURE_INVALID"
        assert await running.store.devices() == []


@on_loop
async def test_cve_2026_32042_a_proof_over_another_challenge_is_refused(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        first, second = await running.open(), await running.open()
        params = Key(13).sign(connect_params(), first.challenge["nonce"], first.challenge["ts"])
        assert await refusal(second, params) == "DEVICE_AUTH_NONCE_MISMATCH"


@on_loop
async def test_cve_2026_53816_a_node_calls_nothing_that_is_the_operators(tmp_path: Path) -> None:
    async def secret(_: Call) -> str:
        return "told"

    method = Method("secret.read", NoParams, secret, Scope.READ)
    async with plane(tmp_path, method) as running:
        node = await running.open()
        assert (await node.connect_device(Key(14), client="node-host", mode="node", role="node", scopes=[]))["ok"]
        answer = await node.call("secret.read")
        assert answer["error"]["message"] == "unauthorized role: node"


@on_loop
async def test_a_token_of_one_role_does_not_open_the_other(tmp_path: Path) -> None:
    async with plane(tmp_path, settings=MANUAL) as running:
        auth = await paired(running, Key(15), role="node")
        client = await running.open()
        answer = await client.connect_device(Key(15), scopes=[], auth={"deviceToken": str(auth["deviceToken"])})
        assert answer["error"]["details"]["code"] == "AUTH_DEVICE_TOKEN_MISMATCH"


@on_loop
async def test_a_device_on_its_token_sees_itself_only(tmp_path: Path) -> None:
    async with plane(tmp_path, settings=MANUAL) as running:
        await paired(running, Key(16), "operator.read")
        auth = await paired(running, Key(17), "operator.pairing", "operator.read")
        client = await running.open()
        await client.connect_device(
            Key(17), scopes=["operator.pairing"], auth={"deviceToken": str(auth["deviceToken"])}
        )
        listed = await client.call("device.pair.list")
        assert [row["deviceId"] for row in listed["payload"]["paired"]] == [Key(17).id]
        assert not (await client.call("device.pair.remove", {"deviceId": Key(16).id}))["ok"]


@on_loop
async def test_a_setup_code_works_once_within_ten_minutes(tmp_path: Path) -> None:
    async with plane(tmp_path, settings=PROXIED) as running:
        code, _ = await running.book.new_setup_code("operator", ("operator.read",))
        phone = {"X-Forwarded-For": "198.51.100.9"}
        first = await running.open(headers=phone)
        answer = await first.connect_device(Key(18), auth={"bootstrapToken": code})
        assert answer["payload"]["auth"]["method"] == "bootstrap-token"
        second = await running.open(headers=phone)
        refused = await second.connect_device(Key(19), auth={"bootstrapToken": code})
        assert refused["error"]["details"]["code"] == "AUTH_BOOTSTRAP_TOKEN_INVALID"


@on_loop
async def test_no_token_is_in_the_state_directory_except_the_gateways_own(tmp_path: Path) -> None:
    clock = ManualClock()
    async with plane(tmp_path, clock=clock) as running:
        client = await running.open()
        params = Key(20).sign(connect_params(), client.challenge["nonce"], client.challenge["ts"])
        token = (await client.say_connect(params))["payload"]["auth"]["deviceToken"]
        device = await running.store.device(Key(20).id)
        assert token not in repr(device)
        assert (tmp_path / "device.secret").stat().st_mode & 0o777 == 0o600
        assert token not in (tmp_path / "device.secret").read_text()


@on_loop
async def test_the_operator_on_this_machine_only_narrows_what_it_holds(tmp_path: Path) -> None:
    async with plane(tmp_path) as running:
        narrow = await running.connect(["operator.read"])
        assert (await narrow.call("device.pair.list"))["error"]["code"] == "FORBIDDEN"
        wide = await running.connect(ALL)
        assert (await wide.call("device.pair.list"))["ok"]
