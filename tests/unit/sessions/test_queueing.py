"""The rules of a queue, for any queue."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from contract.store.world import HERE, THERE
from tidegate.events import MessageEvent, Peer, PeerKind, Sender
from tidegate.sessions.model import Enqueue, QueuedEvent, QueueRule
from tidegate.sessions.queueing import (
    MAX_QUIET_STRETCH,
    MAX_WINDOW_STRETCH,
    STEERING,
    QueueState,
    belongs_to_turn,
    make_room,
    overflow_of,
    times_after,
)

RULES = st.builds(
    QueueRule,
    mode=st.sampled_from(["collect", "steer", "followup", "steer-backlog", "interrupt"]),
    debounce=st.integers(0, 1_000),
    cap=st.integers(1, 5),
    drop=st.sampled_from(["old", "new", "summarize"]),
    window=st.sampled_from([0, 300]),
)


def event(text: str = "", place: object = HERE) -> MessageEvent:
    return MessageEvent(place, Peer(PeerKind.DIRECT, "p"), Sender("s"), text, text)  # type: ignore[arg-type]


def queue_of(marks: list[tuple[bool, bool, bool, str]]) -> list[QueuedEvent]:
    """Return waiting events from (is here, is owner, joins, mode)."""
    return [
        QueuedEvent(seq, event(f"m{seq}", HERE if here else THERE), owner, joins, mode, seq)
        for seq, (here, owner, joins, mode) in enumerate(marks, 1)
    ]


MARKS = st.tuples(st.booleans(), st.booleans(), st.booleans(), st.sampled_from(["collect", "steer", "followup"]))


@given(st.lists(MARKS, max_size=15), RULES, st.booleans(), st.booleans())
def test_the_queue_fits_its_cap_and_nothing_vanishes_unsaid(
    marks: list[tuple[bool, bool, bool, str]], rule: QueueRule, is_owner: bool, is_running: bool
) -> None:
    waiting = queue_of(marks)
    room = make_room(waiting, event("new"), Enqueue("k", "a", rule, is_owner), is_running=is_running)
    gone = [*room.summarized, *room.dropped]
    assert len(set(gone)) == len(gone)
    assert set(gone) <= set(waiting)
    if room.refused:
        assert (rule.drop, gone) == ("new", [])
        return
    if is_running and rule.mode not in STEERING:
        assert not [item for item in gone if item.mode in STEERING and not item.joins], "on its way into the turn"
    assert rule.drop == "summarize" or not room.summarized
    dropped_starts = sum(1 for item in room.dropped if not item.joins)
    assert len(room.notices) >= dropped_starts
    assert all(notice in [item.event for item in room.dropped] for notice in room.notices)


@given(st.lists(MARKS.map(lambda m: (m[0], m[1], False, m[3])), max_size=15), RULES)
def test_an_idle_queue_never_holds_more_than_its_cap(
    marks: list[tuple[bool, bool, bool, str]], rule: QueueRule
) -> None:
    waiting = queue_of(marks)
    room = make_room(waiting, event("new"), Enqueue("k", "a", rule, is_owner=True), is_running=False)
    left = len(waiting) - len(room.summarized) - len(room.dropped) + (not room.refused)
    assert left <= max(rule.cap, len(waiting) if room.refused else 0)
    assert {item.event.address for item in room.summarized} <= {HERE}
    assert all(item.is_owner for item in room.summarized)


@given(RULES, st.lists(st.integers(0, 2_000), max_size=40), st.booleans())
def test_waiting_ends_however_messages_arrive(rule: QueueRule, gaps: list[int], behind: bool) -> None:
    state = QueueState(head=1, done=1, touched_at=0) if not behind else QueueState(head=2, done=1, behind=True)
    now = 0
    first = None
    for gap in gaps:
        now += gap
        if first is not None and now >= state.not_before:
            break
        first = now if first is None else first
        times = times_after(state, rule, now)
        assert times.not_before <= max(now, first) + MAX_QUIET_STRETCH * rule.debounce + (
            2 * MAX_WINDOW_STRETCH * rule.window
        )
        state = replace(
            state,
            head=state.head + 1,
            not_before=times.not_before,
            behind=times.behind,
            burst_until=times.burst_until,
            burst_ends=times.burst_ends,
        )
    if first is not None:
        assert state.not_before - first <= MAX_QUIET_STRETCH * rule.debounce + 2 * MAX_WINDOW_STRETCH * rule.window


@given(RULES)
def test_an_idle_session_without_a_window_is_taken_at_once(rule: QueueRule) -> None:
    times = times_after(QueueState(head=3, done=3), replace(rule, window=0), 1_000)
    assert (times.not_before, times.behind) == (0, False)


def test_a_summary_is_for_its_own_place_and_for_no_more_rights() -> None:
    mine, guests = QueuedEvent(1, event("a"), True, False, ""), QueuedEvent(2, event("b"), False, False, "")
    assert belongs_to_turn(mine, HERE, is_owner=True)
    assert belongs_to_turn(mine, HERE, is_owner=False)
    assert belongs_to_turn(guests, HERE, is_owner=False)
    assert not belongs_to_turn(guests, HERE, is_owner=True)
    assert not belongs_to_turn(mine, THERE, is_owner=True)


def test_pieces_of_one_message_count_once_in_a_summary() -> None:
    items = [QueuedEvent(1, event("a"), True, False, ""), QueuedEvent(2, event("b"), True, True, "")]
    assert overflow_of(items).count == 1
    assert overflow_of(items[1:]).texts == ("b",)
