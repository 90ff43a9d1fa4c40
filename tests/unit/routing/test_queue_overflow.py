"""More messages than a queue holds: bounded, in order, and never silent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.events import Address, Sender
from tidegate.routing.queue_overflow import MAX_LINE, overflow, summarize
from tidegate.routing.queue_policy import QueuedItem
from tidegate.routing.queue_settings import DropPolicy

HERE = Address("telegram", "default", "1")
THERE = Address("telegram", "default", "1", "5")


def item(
    seq: int, text: str = "x", *, is_solo: bool = False, is_owner: bool = False, address: Address = HERE
) -> QueuedItem:
    return QueuedItem(seq, address, Sender("a"), text, is_owner=is_owner, is_solo=is_solo)


@given(st.lists(st.booleans(), max_size=12), st.booleans(), st.integers(-1, 6), st.sampled_from(DropPolicy))
def test_every_message_is_kept_or_reported_and_the_queue_stays_bounded(
    solos: list[bool], is_solo: bool, cap: int, drop: DropPolicy
) -> None:
    waiting = [item(n, is_solo=solo) for n, solo in enumerate(solos)]
    incoming = item(100, is_solo=is_solo)
    found = overflow(waiting, incoming, cap, drop)
    after = [*found.kept, *([incoming] if found.is_accepted else [])]
    assert sorted([*after, *found.dropped], key=lambda one: one.seq) == [*waiting, incoming]
    assert [one.seq for one in after] == sorted(one.seq for one in after)
    assert not any(one.is_solo for one in found.dropped)
    protected = sum(solos) + is_solo
    if drop is not DropPolicy.NEW:
        assert is_solo or len(after) <= max(cap, 1, protected + 1)
    else:
        assert len(after) <= max(cap, 1, len(waiting)) or is_solo


def test_the_policies_differ_in_who_gives_way() -> None:
    waiting = [item(1, "A"), item(2, "B")]
    old = overflow(waiting, item(3, "C"), 2, DropPolicy.OLD)
    new = overflow(waiting, item(3, "C"), 2, DropPolicy.NEW)
    told = overflow(waiting, item(3, "C"), 2, DropPolicy.SUMMARIZE)
    assert [one.text for one in old.kept] == ["B"]
    assert not new.is_accepted
    assert told.is_summarized
    assert [one.text for one in told.dropped] == ["A"]


def test_summaries_keep_routes_and_rights_apart_and_count_everything() -> None:
    dropped = [item(n, f"m{n}", is_owner=n % 2 == 0, address=THERE if n > 5 else HERE) for n in range(8)]
    found = summarize(dropped, 2)
    assert {(one.address, one.is_owner) for one in found} == {(a, o) for a in (HERE, THERE) for o in (True, False)}
    assert sum(one.count for one in found) == 8
    assert found[0].lines == ("m2", "m4")
    assert "3 messages were left out" in found[0].text()
    assert "m5" not in found[0].text()


def test_a_summary_line_is_short_and_on_one_line() -> None:
    (found,) = summarize([item(1, "a\n\n b " + "x" * 500)], 5)
    assert found.lines[0].startswith("a b xxx")
    assert len(found.lines[0]) == MAX_LINE
