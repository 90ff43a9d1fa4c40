from __future__ import annotations

from typing import Any

import pytest

from fakes.event_loop import on_loop
from plane.client import TOKEN, Key, connect_params
from tidegate.clock import ManualClock
from tidegate.gateway.plane.auth import AuthSettings, Doorkeeper
from tidegate.gateway.plane.frames import RequestFrame
from tidegate.gateway.plane.handshake import Admitted, Asker, Grant, Handshake, Refused
from tidegate.gateway.plane.limits import AttemptLimiter, AttemptRules
from tidegate.gateway.plane.peers import Peer

LOCAL = Peer("127.0.0.1", True)
FAR = Peer("192.0.2.1", False)
NONCE = "challenge"


class AllPaired:
    """A book in which every proven device is paired."""

    async def admit(self, asker: Asker) -> Grant:
        """Grant what is asked for."""
        return Grant(frozenset(asker.scopes), asker.scopes, asker.method or "device-token")


async def admit(params: dict[str, Any], peer: Peer = LOCAL, clock: ManualClock | None = None) -> Admitted:
    time = clock or ManualClock()
    settings = AuthSettings("token", TOKEN, rules=AttemptRules(local_delay=0, local_delay_max=0))
    handshake = Handshake(Doorkeeper(settings, AttemptLimiter(time, settings.rules)), AllPaired(), time)
    frame = RequestFrame(type="req", id="c", method="connect", params=params)
    return await handshake.admit(frame, peer, {}, NONCE)


async def refused(params: dict[str, Any], peer: Peer = LOCAL, clock: ManualClock | None = None) -> Refused:
    with pytest.raises(Refused) as caught:
        await admit(params, peer, clock)
    return caught.value


def versions(low: int, high: int, **fields: Any) -> dict[str, Any]:
    return {**connect_params(**fields), "minProtocol": low, "maxProtocol": high}


NODE = {"client": "node-host", "mode": "node", "role": "node", "scopes": []}
PROBE = {"client": "openclaw-probe", "mode": "probe"}


@pytest.mark.parametrize(
    ("low", "high", "fields"),
    [(4, 4, {}), (3, 5, {}), (1, 4, {}), (4, 9, {}), (3, 3, PROBE), (1, 3, PROBE), (4, 4, PROBE)],
)
@on_loop
async def test_these_versions_are_served(low: int, high: int, fields: dict[str, Any]) -> None:
    await admit(versions(low, high, **fields))


@pytest.mark.parametrize(
    ("low", "high", "fields"),
    [
        (1, 3, {}),
        (5, 9, {}),
        (5, 5, PROBE),
        (1, 2, PROBE),
        (1, 2, NODE),
        (3, 3, {"client": "node-host", "mode": "node"}),
    ],
)
@on_loop
async def test_other_versions_are_refused(low: int, high: int, fields: dict[str, Any]) -> None:
    refusal = await refused(versions(low, high, **fields))
    assert (refusal.code, refusal.reason) == (1002, "protocol mismatch")


@on_loop
async def test_a_node_of_the_version_before_is_served() -> None:
    clock = ManualClock()
    params = Key(1).sign(versions(3, 3, **NODE), NONCE, clock.now() // 1000)
    assert (await admit(params, clock=clock)).role == "node"


@pytest.mark.parametrize(
    ("who", "peer", "kept"),
    [
        (("cli", "cli"), LOCAL, True),
        (("gateway-client", "backend"), LOCAL, True),
        (("cli", "cli"), FAR, False),
        (("cli", "probe"), LOCAL, False),
        (("gateway-client", "cli"), LOCAL, False),
        (("webchat", "webchat"), LOCAL, False),
        (("openclaw-tui", "ui"), LOCAL, False),
        (("cli", "cli"), Peer("127.0.0.1", True, origin="http://127.0.0.1:1"), False),
    ],
)
@on_loop
async def test_scopes_without_a_device_are_kept_for_commands_on_this_machine_only(
    who: tuple[str, str], peer: Peer, kept: bool
) -> None:
    admitted = await admit(connect_params(client=who[0], mode=who[1], scopes=["operator.admin"]), peer)
    assert admitted.grant.scopes == (frozenset({"operator.admin"}) if kept else frozenset())


@on_loop
async def test_a_node_without_a_device_is_refused_whatever_secret_it_shows() -> None:
    refusal = await refused(connect_params(**NODE))
    assert refusal.reason == "device identity required"


@pytest.mark.parametrize(("seconds", "is_fresh"), [(119, True), (-119, True), (121, False), (-121, False)])
@on_loop
async def test_a_signature_counts_two_minutes_around_our_time(seconds: int, is_fresh: bool) -> None:
    clock = ManualClock()
    params = Key(1).sign(connect_params(), NONCE, clock.now() // 1000 + seconds * 1000)
    if is_fresh:
        assert (await admit(params, clock=clock)).device == Key(1).id
    else:
        assert (await refused(params, clock=clock)).reason == "device signature expired"


@on_loop
async def test_a_wrong_signature_hides_a_wrong_secret() -> None:
    clock = ManualClock()
    params = Key(1).sign(connect_params(auth={"token": "wrong"}), NONCE, clock.now() // 1000)
    params["scopes"] = ["operator.admin"]
    assert (await refused(params, clock=clock)).reason == "device signature invalid"


@on_loop
async def test_what_is_not_sent_is_told_as_empty() -> None:
    client = (await admit(connect_params())).client
    assert (client.display_name, client.device_family, client.instance_id) == ("", "", "")
    told = (await admit(connect_params(about={"displayName": "Ann's"}))).client
    assert told.display_name == "Ann's"
