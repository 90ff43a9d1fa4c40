"""Events are stored as compact JSON and come back as they were."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tidegate.events import (
    Address,
    Attachment,
    EventKind,
    MediaKind,
    MentionFacts,
    MessageEvent,
    Peer,
    PeerKind,
    ReplyTo,
    Sender,
)
from tidegate.sessions.codec import decode_event, encode_event, event_identity

TEXT = st.text(max_size=8)
MAYBE = st.none() | TEXT
PEER = st.builds(Peer, st.sampled_from(PeerKind), TEXT)
EVENTS = st.builds(
    MessageEvent,
    address=st.builds(Address, TEXT, TEXT, TEXT, MAYBE),
    peer=PEER,
    sender=st.builds(Sender, TEXT, TEXT, TEXT, st.booleans()),
    message_id=TEXT,
    text=TEXT,
    event_id=TEXT,
    kind=st.sampled_from(EventKind),
    revision=TEXT,
    received_at=st.integers(0, 2**53),
    parent_peer=st.none() | PEER,
    guild=st.none() | st.text(min_size=1, max_size=4),
    team=st.none() | st.text(min_size=1, max_size=4),
    roles=st.lists(TEXT, max_size=2).map(tuple),
    attachments=st.lists(
        st.builds(
            Attachment, st.sampled_from(MediaKind), TEXT, TEXT, TEXT, st.none() | st.integers(0, 2**40), MAYBE, TEXT
        ),
        max_size=2,
    ).map(tuple),
    reply_to=st.none() | st.builds(ReplyTo, TEXT, TEXT, st.booleans(), TEXT),
    mentions=st.builds(MentionFacts, st.booleans(), st.booleans(), st.booleans()),
    chat_title=TEXT,
    album=TEXT,
    continues=st.booleans(),
    author_is_self=st.booleans(),
)


@given(EVENTS)
def test_an_event_comes_back_as_it_was(event: MessageEvent) -> None:
    assert decode_event(encode_event(event)) == event


@given(EVENTS)
def test_without_text_nothing_that_was_said_or_sent_is_kept(event: MessageEvent) -> None:
    secret = replace(
        event,
        text="SECRET",
        attachments=(Attachment(MediaKind.IMAGE, "SECRET", "SECRET"),),
        reply_to=ReplyTo("1", text="SECRET"),
    )
    kept = encode_event(secret, keep_text=False)
    assert "SECRET" not in kept
    found = decode_event(kept)
    assert (found.sender, found.address, found.message_id) == (event.sender, event.address, event.message_id)


@given(EVENTS, EVENTS)
def test_identities_are_equal_only_for_the_same_event(one: MessageEvent, other: MessageEvent) -> None:
    assert event_identity(one) == event_identity(replace(one, text="other", received_at=1, sender=Sender("x")))
    if event_identity(one) == event_identity(other):
        assert (one.event_id, one.message_id, one.kind, one.revision) == (
            other.event_id,
            other.message_id,
            other.kind,
            other.revision,
        )


def test_parts_of_an_identity_do_not_run_into_each_other() -> None:
    place = Address("c", "a", "chat")
    base = MessageEvent(place, Peer(PeerKind.DIRECT, "p"), Sender("s"), "12", "", event_id="3")
    assert event_identity(base) != event_identity(replace(base, message_id="2", event_id="31"))


def test_a_plain_message_is_stored_in_few_bytes() -> None:
    place = Address("telegram", "default", "123456")
    event = MessageEvent(place, Peer(PeerKind.DIRECT, "123456"), Sender("123456", "Ann"), "1", "hello", "77")
    text = encode_event(event)
    assert len(text) < 150
    assert set(json.loads(text)) == {"a", "p", "s", "m", "t", "r", "e"}
