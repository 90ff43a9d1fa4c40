"""Parts are stored before they are sent, in order per lane, settled once, and never begun twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contract.store.world import HERE, THERE, World, draft, sent
from tidegate.sessions.devices import RequestKey
from tidegate.sessions.model import Delivery, DeliveryState, Settlement

TOPIC = replace(HERE, thread="7")


async def begin(world: World, address=HERE, *, may_send: bool = True) -> Delivery | None:  # type: ignore[no-untyped-def]
    return await world.store.begin_sending(address, world.owner, may_send=may_send)


async def test_parts_of_a_lane_go_out_in_order_one_at_a_time(world: World) -> None:
    await world.store.add_deliveries([draft("a"), draft("b"), draft("c")])
    assert await world.notices() == ["a", "b", "c"]
    assert await begin(world) is None


async def test_a_thread_is_a_lane_of_its_own(world: World) -> None:
    await world.store.add_deliveries([draft("chat"), draft("topic", TOPIC), draft("there", THERE)])
    assert await world.notices(TOPIC) == ["topic"]
    assert await world.notices(THERE) == ["there"]
    assert await world.notices() == ["chat"]


async def test_beginning_makes_the_attempt_durable(world: World) -> None:
    [number] = await world.store.add_deliveries([draft("a")])
    part = await begin(world)
    assert part is not None
    assert (part.id, part.state, part.attempt, part.stale) == (number, DeliveryState.SENDING, 1, False)
    await world.restart()
    stale = await begin(world)
    assert stale is not None
    assert (stale.id, stale.state, stale.attempt, stale.stale, stale.token) == (
        number,
        DeliveryState.SENDING,
        1,
        True,
        part.token,
    )


async def test_a_part_of_unknown_outcome_is_never_begun_again_and_holds_nobody_up(world: World) -> None:
    first, second = await world.store.add_deliveries([draft("a"), draft("b")])
    await begin(world)
    await world.restart()
    await world.store.settle([Settlement(first, DeliveryState.UNKNOWN, reason="crash")])
    part = await begin(world)
    assert part is not None
    assert (part.id, part.stale) == (second, False)


async def test_without_the_right_to_send_nothing_changes(world: World) -> None:
    await world.store.add_deliveries([draft("a")])
    for _ in range(2):
        part = await begin(world, may_send=False)
        assert part is not None
        assert (part.state, part.attempt) == (DeliveryState.DUE, 0)


async def test_a_part_for_later_is_shown_and_not_begun(world: World) -> None:
    later = world.clock.now() + 5_000_000
    await world.store.add_deliveries([draft("a", due_at=later), draft("b")])
    part = await begin(world)
    assert part is not None
    assert (part.state, part.due_at) == (DeliveryState.DUE, later)
    world.clock.advance(5)
    assert await world.notices() == ["a", "b"]


async def test_a_retry_keeps_its_place_and_waits_its_time(world: World) -> None:
    first, _ = await world.store.add_deliveries([draft("a"), draft("b")])
    await begin(world)
    at = world.clock.now() + 1_000_000
    await world.store.settle([Settlement(first, DeliveryState.DUE, due_at=at, reason="later")])
    waits = await begin(world)
    assert waits is not None
    assert (waits.id, waits.state, waits.due_at, waits.reason) == (first, DeliveryState.DUE, at, "later")
    world.clock.advance(1)
    again = await begin(world)
    assert again is not None
    assert (again.id, again.attempt) == (first, 2)


async def test_the_first_outcome_stays(world: World) -> None:
    [number] = await world.store.add_deliveries([draft("a")])
    await begin(world)
    await world.store.settle([sent(number, "p1")])
    for later in (DeliveryState.UNKNOWN, DeliveryState.DEAD, DeliveryState.EXPIRED, DeliveryState.DUE):
        await world.store.settle([Settlement(number, later)])
        assert await begin(world) is None
        assert await world.store.troubled(10) == []
        assert (await world.store.totals()).deliveries == {"sent": 1}


async def test_trouble_that_is_settled_stays_trouble(world: World) -> None:
    [number] = await world.store.add_deliveries([draft("a")])
    await begin(world)
    await world.store.settle([Settlement(number, DeliveryState.UNKNOWN)])
    await world.store.settle([sent(number)])
    assert [(row.id, row.state) for row in await world.store.troubled(10)] == [(number, DeliveryState.UNKNOWN)]


async def test_settling_something_unknown_is_no_error(world: World) -> None:
    await world.store.settle([sent(12345)])
    await world.store.settle([])


async def test_open_lanes_are_those_with_something_to_do(world: World) -> None:
    first, second, _ = await world.store.add_deliveries([draft("a"), draft("b", TOPIC), draft("c", THERE)])
    assert set(await world.store.open_lanes("telegram", "default")) == {HERE, TOPIC}
    await world.store.settle([sent(first)])
    await begin(world, TOPIC)
    assert set(await world.store.open_lanes("telegram", "default")) == {TOPIC}
    await world.store.settle([Settlement(second, DeliveryState.DEAD)])
    assert await world.store.open_lanes("telegram", "default") == []
    assert await world.store.open_lanes("telegram", "second") == []


async def test_previews_are_never_sent_by_the_outbox(world: World) -> None:
    await world.say()
    turn = await world.claim()
    await world.store.open_preview(turn, draft("…"))
    assert await begin(world) is None
    assert await world.store.open_lanes("telegram", "default") == []


async def test_trouble_is_reported_once_with_its_report(world: World) -> None:
    numbers = await world.store.add_deliveries([draft(text) for text in "abcd"])
    states = [DeliveryState.UNKNOWN, DeliveryState.DEAD, DeliveryState.EXPIRED, DeliveryState.SENT]
    await world.store.settle([Settlement(n, s, reason="why") for n, s in zip(numbers, states, strict=True)])
    assert [row.id for row in await world.store.troubled(2)] == numbers[:2]
    rows = await world.store.troubled(10)
    assert [(row.id, row.state, row.reason) for row in rows] == [
        (number, state, "why") for number, state in zip(numbers[:3], states[:3], strict=True)
    ]
    await world.store.report([row.id for row in rows], [draft("digest", THERE)])
    assert await world.store.troubled(10) == []
    assert await world.notices(THERE) == ["digest"]


async def test_payloads_come_back_as_they_were(world: World) -> None:
    payload = {"body": "ü 🌊 \u2028", "nested": {"list": [1, None, True, 2.5]}}
    await world.store.add_deliveries([replace(draft(""), payload=payload)])
    part = await begin(world)
    assert part is not None
    assert part.payload == payload


async def test_parts_in_trouble_are_listed_newest_first_also_after_their_report(world: World) -> None:
    numbers = await world.store.add_deliveries([draft(text) for text in "abcd"])
    states = [DeliveryState.UNKNOWN, DeliveryState.DEAD, DeliveryState.EXPIRED, DeliveryState.SENT]
    await world.store.settle([Settlement(n, s, reason="why") for n, s in zip(numbers, states, strict=True)])
    await world.store.report(numbers[:3], ())
    bad = states[:3]
    assert [row.id for row in await world.store.deliveries(bad, 0, 10)] == numbers[2::-1]
    assert [row.id for row in await world.store.deliveries(bad, 0, 1)] == [numbers[2]]
    assert [row.id for row in await world.store.deliveries([DeliveryState.SENT], 0, 10)] == [numbers[3]]
    written = (await world.store.deliveries(bad, 0, 1))[0].created_at
    assert await world.store.deliveries(bad, written + 1, 10) == []
    found = await world.store.delivery(numbers[1])
    assert found is not None
    assert (found.state, found.reason) == (DeliveryState.DEAD, "why")
    assert await world.store.delivery(numbers[3] + 1) is None


async def test_the_parts_of_a_request_are_stored_once_with_its_key(world: World) -> None:
    request = RequestKey("operator", "send", "k")
    numbers = await world.store.add_deliveries_once(request, [draft("a"), draft("b")])
    assert numbers is not None
    await world.restart()
    assert await world.store.add_deliveries_once(request, [draft("other")]) == numbers
    for other in (replace(request, caller="d1"), replace(request, method="poll"), replace(request, key="k2")):
        assert await world.store.add_deliveries_once(other, [draft("c", THERE)]) not in (None, numbers)
    assert await world.notices() == ["a", "b"]
    assert await world.notices(THERE) == ["c"] * 3


async def test_a_request_whose_parts_cannot_be_stored_leaves_its_key_free(world: World) -> None:
    request = RequestKey("operator", "send", "k")
    with pytest.raises(AttributeError):
        await world.store.add_deliveries_once(request, [draft("a"), None])  # type: ignore[list-item]
    assert await world.store.recall_key("operator", "send", "k") is None
    assert await world.store.add_deliveries_once(request, [draft("b")]) is not None
    assert await world.notices() == ["b"]


async def test_a_key_that_stands_for_something_else_stores_no_parts(world: World) -> None:
    for text in ("", '{"error":"no"}', '["1"]'):
        request = RequestKey("operator", "send", f"k{text}")
        await world.store.claim_key("operator", "send", request.key, text)
        assert await world.store.add_deliveries_once(request, [draft("a")]) is None
    assert await world.notices() == []
