"""Devices of the control plane, their requests, setup codes, and keys of repeated requests."""

from __future__ import annotations

from dataclasses import replace

from contract.store.world import World
from tidegate.clock import DAY, HOUR, MINUTE
from tidegate.sessions.devices import (
    MAX_PENDING,
    About,
    Attempts,
    Device,
    DeviceRequest,
    DeviceToken,
    NodeRequest,
    NodeSurface,
    SetupCode,
)

ABOUT = About("Laptop", "linux", "Linux", "cli", "cli")


def device(name: str = "d1", at: int = 1) -> Device:
    tokens = (DeviceToken("node", (), "g2", "h2", at), DeviceToken("operator", ("operator.read",), "g1", "h1", at, 2))
    return Device(name, "key", ABOUT, ("operator", "node"), ("operator.read",), "owner", at, at, 3, tokens)


def request(world: World, name: str, of: str = "d1", *scopes: str) -> DeviceRequest:
    now = world.clock.now()
    return DeviceRequest(name, of, "key", ABOUT, "operator", scopes, "192.0.2.1", False, now, now + 5 * MINUTE)


async def test_a_device_is_kept_with_its_tokens_over_a_restart(world: World) -> None:
    await world.store.change_device("d1", lambda _: device())
    await world.restart()
    assert await world.store.device("d1") == device()
    assert await world.store.device("d2") is None


async def test_devices_are_listed_newest_first_and_can_be_removed(world: World) -> None:
    for name, at in (("old", 1), ("new", 2)):
        await world.store.change_device(name, lambda _, name=name, at=at: device(name, at))  # type: ignore[misc]
    assert [found.id for found in await world.store.devices()] == ["new", "old"]
    assert await world.store.change_device("new", lambda _: None) is None
    assert [found.id for found in await world.store.devices()] == ["old"]


async def test_a_change_sees_the_device_as_it_stands(world: World) -> None:
    await world.store.change_device("d1", lambda _: device())
    changed = await world.store.change_device("d1", lambda found: found and replace(found, scopes=()))
    assert changed == replace(device(), scopes=())
    assert await world.store.device("d1") == changed


async def test_asking_again_for_the_same_keeps_the_request(world: World) -> None:
    first = request(world, "r1", "d1", "a", "b")
    assert await world.store.ask_device(first) == (first, [])
    assert await world.store.ask_device(request(world, "r2", "d1", "a", "b")) == (first, [])
    assert await world.store.device_requests() == [first]


async def test_asking_for_something_else_takes_the_place_of_the_older_request(world: World) -> None:
    first = request(world, "r1", "d1", "a")
    await world.store.ask_device(first)
    second = request(world, "r2", "d1", "b")
    assert await world.store.ask_device(second) == (second, [first])
    assert await world.store.device_requests() == [second]
    old = await world.store.device_request("r1")
    assert old is not None
    assert old.decision == "rejected"


async def test_a_request_expires_and_is_forgotten_later(world: World) -> None:
    await world.store.ask_device(request(world, "r1"))
    world.clock.advance(5 * 60)
    assert await world.store.device_requests() == []
    assert await world.store.settle_device_request("r1", "approved", None) is None
    assert await world.store.device_request("r1") is not None
    world.clock.advance(2 * HOUR // 1_000_000)
    await world.store.ask_device(request(world, "r2"))
    assert await world.store.device_request("r1") is None


async def test_pending_requests_are_bounded_and_the_oldest_gives_way(world: World) -> None:
    for number in range(MAX_PENDING + 2):
        await world.store.ask_device(request(world, f"r{number:03}", f"d{number}"))
        world.clock.advance(0.001)
    pending = [found.id for found in await world.store.device_requests()]
    assert len(pending) == MAX_PENDING
    assert pending[0] == "r002"


async def test_a_request_is_decided_once_and_its_device_changes_with_it(world: World) -> None:
    await world.store.ask_device(request(world, "r1"))
    settled = await world.store.settle_device_request("r1", "approved", lambda _, __: device())
    assert settled is not None
    assert (settled[0].decision, settled[1]) == ("approved", device())
    assert await world.store.settle_device_request("r1", "rejected", lambda _, __: None) is None
    assert await world.store.device("d1") == device()
    assert await world.store.device_requests() == []


async def test_a_setup_code_is_used_once_and_not_after_its_time(world: World) -> None:
    code = SetupCode("digest", "node", ("a",), world.clock.now() + MINUTE)
    await world.store.add_setup_code(code)
    await world.store.add_setup_code(replace(code, digest="late"))
    assert await world.store.take_setup_code("wrong") is None
    assert await world.store.take_setup_code("digest") == code
    assert await world.store.take_setup_code("digest") is None
    world.clock.advance(60)
    assert await world.store.take_setup_code("late") is None


async def test_a_key_keeps_the_first_response_over_a_restart(world: World) -> None:
    assert await world.store.claim_key("d1", "agent", "k", "accepted") is None
    await world.restart()
    assert await world.store.claim_key("d1", "agent", "k", "other") == "accepted"
    await world.store.settle_key("d1", "agent", "k", "final")
    assert await world.store.recall_key("d1", "agent", "k") == "final"


async def test_keys_of_other_callers_and_methods_are_others(world: World) -> None:
    await world.store.claim_key("d1", "agent", "k", "mine")
    assert await world.store.recall_key("d2", "agent", "k") is None
    assert await world.store.recall_key("d1", "send", "k") is None
    assert await world.store.claim_key("d2", "agent", "k", "theirs") is None
    await world.store.settle_key("d3", "agent", "k", "nothing")
    assert await world.store.recall_key("d3", "agent", "k") is None


async def test_old_keys_are_forgotten(world: World) -> None:
    await world.store.claim_key("d1", "agent", "k", "old")
    world.clock.advance(8 * DAY // 1_000_000)
    assert await world.store.claim_key("d1", "agent", "other", "new") is None
    assert await world.store.recall_key("d1", "agent", "k") is None


async def test_what_a_device_offers_as_a_node_is_kept_and_goes_with_it(world: World) -> None:
    asked = NodeRequest("r1", ("canvas",), ("system.run", "location.get"), 9)
    surface = NodeSurface(("canvas",), ("location.get",), "1.0", 5, 6, 7, asked)
    await world.store.change_device("d1", lambda _: replace(device(), node=surface))
    await world.restart()
    assert await world.store.device("d1") == replace(device(), node=surface)
    settled = replace(surface, asked=None)
    await world.store.change_device("d1", lambda found: found and replace(found, node=settled))
    assert await world.store.device("d1") == replace(device(), node=settled)
    await world.store.change_device("d1", lambda _: None)
    await world.store.change_device("d1", lambda _: device())
    assert await world.store.device("d1") == device()


async def test_wrong_secrets_are_kept_over_a_restart_until_they_are_old_or_forgiven(world: World) -> None:
    first = Attempts("198.51.100.7", "shared", (1, 2, 3), 900, 10)
    second = Attempts("198.51.100.7", "device", (4,), 0, 20)
    await world.store.put_attempts(first, 0)
    await world.store.put_attempts(second, 0)
    await world.restart()
    assert list(await world.store.attempts()) == [second, first]
    changed = replace(first, failures=(3, 5), updated_at=30)
    await world.store.put_attempts(changed, 20)
    assert list(await world.store.attempts()) == [changed, second]
    await world.store.put_attempts(changed, 21)
    assert list(await world.store.attempts()) == [changed]
    await world.store.forget_attempts("198.51.100.7", "shared")
    await world.store.forget_attempts("198.51.100.7", "unknown")
    assert list(await world.store.attempts()) == []
