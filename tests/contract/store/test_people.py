"""Who may speak, where owners are told things, which model keys rest."""

from __future__ import annotations

from contract.store.world import HERE, THERE, World, draft
from tidegate.clock import HOUR
from tidegate.events import Address
from tidegate.sessions.model import EventState, NewEvent, PairingRequest, Record


async def ask(world: World, sender: str, code: str, *, account: str = "default", limit: int = 3) -> bool:
    """Let somebody unknown ask; True when they were sent a code."""
    address = Address("telegram", account, f"dm-{sender}")
    now = world.clock.now()
    asked = PairingRequest("telegram", account, sender, sender.title(), code, now, now + HOUR)
    record = Record(
        EventState.PAIRING,
        keep_text=False,
        drafts=(draft(f"code {code}", address),),
        pairing=asked,
        pairing_limit=limit,
    )
    await world.store.append_events([NewEvent(world.message(sender=sender, address=address), record)])
    return await world.notices(address) == [f"code {code}"]


async def codes(world: World) -> list[str]:
    return [request.code for request in await world.store.pairing_requests()]


async def test_one_request_a_person_and_three_an_account(world: World) -> None:
    assert [await ask(world, name, f"C-{name}") for name in ("a", "a", "b", "c", "d")] == [
        True,
        False,
        True,
        True,
        False,
    ]
    assert await ask(world, "d", "C-d2", account="second")
    world.clock.advance(1)
    assert await codes(world) == ["C-a", "C-b", "C-c", "C-d2"]


async def test_a_code_that_is_taken_is_not_given_twice(world: World) -> None:
    assert await ask(world, "a", "SAME")
    assert not await ask(world, "b", "SAME", account="second")


async def test_a_request_expires_and_makes_room(world: World) -> None:
    assert await ask(world, "a", "OLD", limit=1)
    world.clock.advance(3600)
    assert await codes(world) == []
    assert await world.store.approve_pairing("telegram", "OLD", may_own=True) is None
    assert await world.store.reject_pairing("telegram", "OLD") is None
    assert await ask(world, "a", "NEW", limit=1)


async def test_an_approved_sender_is_admitted_for_ever(world: World) -> None:
    await ask(world, "a", "CODE")
    found = await world.store.approve_pairing("telegram", " code ", may_own=False)
    assert found is not None
    request, address, owns = found
    assert (request.sender, address.chat, owns) == ("a", "dm-a", False)
    assert await world.store.approve_pairing("telegram", "CODE", may_own=False) is None
    await world.restart()
    assert await world.store.allowed_senders() == {("telegram", "default"): {"a"}}
    assert await world.store.owners() == frozenset()
    assert await codes(world) == []


async def test_a_code_counts_on_its_own_channel_only(world: World) -> None:
    await ask(world, "a", "CODE")
    assert await world.store.approve_pairing("discord", "CODE", may_own=True) is None
    assert await codes(world) == ["CODE"]


async def test_the_first_approval_from_the_machine_makes_the_owner_and_no_later_one(world: World) -> None:
    await ask(world, "a", "A")
    await ask(world, "b", "B")
    await ask(world, "c", "C")
    owns = []
    for code, may_own in (("A", False), ("B", True), ("C", True)):
        found = await world.store.approve_pairing("telegram", code, may_own=may_own)
        assert found is not None
        owns.append(found[2])
    assert owns == [False, True, False]
    assert await world.store.owners() == {"telegram:b"}
    assert (await world.store.contacts())["telegram:b"].chat == "dm-b"


async def test_a_rejected_request_is_forgotten(world: World) -> None:
    await ask(world, "a", "CODE")
    rejected = await world.store.reject_pairing("telegram", "code")
    assert rejected is not None
    assert rejected.sender == "a"
    assert await world.store.allowed_senders() == {}
    assert await ask(world, "a", "AGAIN")


async def test_contacts_are_the_newest_first(world: World) -> None:
    await world.store.note_contact("telegram:1", HERE)
    world.clock.advance(1)
    await world.store.note_contact("discord:2", THERE)
    assert list((await world.store.contacts()).items()) == [("discord:2", THERE), ("telegram:1", HERE)]
    world.clock.advance(1)
    await world.store.note_contact("telegram:1", THERE)
    await world.restart()
    assert list((await world.store.contacts()).items()) == [("telegram:1", THERE), ("discord:2", THERE)]


async def test_cooldowns_are_kept_replaced_and_forgotten(world: World) -> None:
    await world.store.put_cooldown("p", "m", "k", 100, 1, "rate")
    await world.store.put_cooldown("p", "m", "other", 50, 1, "rate")
    await world.store.put_cooldown("p", "m", "k", 200, 2, "billing")
    await world.store.put_cooldown("p", "m", "other", 0, 0, "")
    await world.restart()
    assert await world.store.load_cooldowns() == [("p", "m", "k", 200, 2, "billing")]
