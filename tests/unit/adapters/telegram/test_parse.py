"""Telegram's updates become events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.fake_telegram import FakeTelegram, person
from tidegate.adapters.base import Button
from tidegate.adapters.telegram.buttons import data_of, keyboard
from tidegate.adapters.telegram.mentions import Me
from tidegate.adapters.telegram.parse import Reader
from tidegate.adapters.telegram.polling import read_updates
from tidegate.events import Address, EventKind, MediaKind, MentionFacts, MessageEvent, Peer, PeerKind, Sender

ME = Me("1", "tide_bot")
READER = Reader(ME, "default", 20 << 20)
TELEGRAM = FakeTelegram("1:TEST")


def read(update: dict[str, Any], reader: Reader = READER) -> MessageEvent:
    event = reader.read({"update_id": 5, **update}, 123)
    assert event is not None
    return event


def message(_chat: int, _text: str | None, _reader: Reader = READER, **extra: Any) -> MessageEvent:
    return read({"message": TELEGRAM.message(_chat, _text, **extra)}, _reader)


def test_a_private_message_is_between_us_and_that_person() -> None:
    event = message(7, "hi")
    assert event.address == Address("telegram", "default", "7")
    assert event.peer == Peer(PeerKind.DIRECT, "7")
    assert event.sender == Sender("7", "Ann", "ann")
    assert (event.event_id, event.received_at, event.kind) == ("5", 123, EventKind.MESSAGE)


def test_a_group_is_its_own_peer() -> None:
    event = message(-100, "hi", user_id=7)
    assert event.peer == Peer(PeerKind.GROUP, "-100")
    assert event.parent_peer is None
    assert event.chat_title == "room"


def test_a_topic_hangs_under_its_group() -> None:
    event = message(-100, "hi", user_id=7, thread=42)
    assert event.peer == Peer(PeerKind.GROUP, "-100:topic:42")
    assert event.parent_peer == Peer(PeerKind.GROUP, "-100")
    assert event.address.thread == "42"


@pytest.mark.parametrize("extra", [{}, {"message_thread_id": 1}, {"message_thread_id": 77}])
def test_what_is_in_no_topic_of_a_forum_is_in_general(extra: dict[str, Any]) -> None:
    forum = {"id": -100, "type": "supergroup", "title": "f", "is_forum": True}
    event = message(-100, "hi", user_id=7, chat=forum, **extra)
    assert event.address.thread == "1"
    assert event.peer.id == "-100:topic:1"


def test_a_reply_thread_of_an_ordinary_group_is_no_topic() -> None:
    assert message(-100, "hi", user_id=7, message_thread_id=77).address.thread is None


@pytest.mark.parametrize(("has_topics", "thread"), [(True, "3"), (False, None)])
def test_topics_in_private_chats_count_where_the_bot_has_them(has_topics: bool, thread: str | None) -> None:
    event = message(7, "hi", Reader(Me("1", "tide_bot", has_topics), "default", 1), thread=3)
    assert event.address.thread == thread
    assert event.peer == Peer(PeerKind.DIRECT, "7")


def test_an_anonymous_administrator_writes_as_the_group() -> None:
    event = message(-100, "hi", user_id=1087968824, sender_chat={"id": -100, "type": "supergroup", "title": "room"})
    assert event.sender == Sender("-100", "room")


def test_a_channel_post_comes_from_the_channel() -> None:
    chat = {"id": -5, "type": "channel", "title": "News"}
    event = read({"channel_post": {"message_id": 3, "date": 1, "chat": chat, "sender_chat": chat, "text": "x"}})
    assert event.peer == Peer(PeerKind.CHANNEL, "-5")
    assert event.sender.name == "News"


@pytest.mark.parametrize("text", ["hey @tide_bot", "😀😀 @TIDE_bot hi", "/status@Tide_Bot"])
def test_our_name_is_a_mention_in_any_case_and_after_any_emoji(text: str) -> None:
    name = text.lower().index("@tide_bot")
    start = 0 if text.startswith("/") else len(text[:name].encode("utf-16-le")) // 2
    length = len("/status@tide_bot") if text.startswith("/") else len("@tide_bot")
    kind = "bot_command" if text.startswith("/") else "mention"
    event = message(-100, text, entities=[{"type": kind, "offset": start, "length": length}])
    assert event.mentions == MentionFacts(explicit=True, any=True)


def test_somebody_elses_name_is_a_mention_of_somebody() -> None:
    event = message(-100, "@tide_bot2 hi", entities=[{"type": "mention", "offset": 0, "length": 10}])
    assert event.mentions == MentionFacts(explicit=False, any=True)


def test_a_mention_without_a_username_goes_by_id() -> None:
    entity = {"type": "text_mention", "offset": 0, "length": 4, "user": {"id": 1, "is_bot": True}}
    assert message(-100, "Tide hi", entities=[entity]).mentions.explicit


def test_our_name_in_plain_words_is_no_mention() -> None:
    assert message(-100, "tide_bot is nice").mentions == MentionFacts()


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ({"type": "user", "sender_user": person(9)}, "Ann"),
        ({"type": "hidden_user", "sender_user_name": "Bob"}, "Bob"),
        ({"type": "channel", "chat": {"id": -5, "title": "News"}, "message_id": 1}, "News"),
        ({"type": "new_type"}, "somebody"),
    ],
)
def test_forwarded_words_are_not_the_senders_own(origin: dict[str, Any], name: str) -> None:
    event = message(7, "/stop", forward_origin=origin)
    assert event.text == f"[forwarded from {name}]\n/stop"
    assert event.sender.id == "7"


def test_links_that_hide_behind_words_are_shown() -> None:
    entities = [
        {"type": "text_link", "offset": 2, "length": 4, "url": "https://x.y"},
        {"type": "text_link", "offset": 7, "length": 3, "url": "https://z"},
    ]
    assert message(7, "😀here and", entities=entities).text == "😀here (https://x.y) and (https://z)"


def test_a_reply_names_what_it_answers_and_whether_that_is_ours() -> None:
    ours = TELEGRAM.message(-100, "we said", **{"from": TELEGRAM.me})
    reply = message(-100, "yes", reply_to_message=ours).reply_to
    assert reply is not None
    assert (reply.message_id, reply.is_ours, reply.text) == (str(ours["message_id"]), True, "we said")


def test_the_start_of_a_topic_is_nothing_that_is_answered() -> None:
    start = {"message_id": 42, "date": 1, "chat": {"id": -100, "type": "supergroup"}, "forum_topic_created": {}}
    assert message(-100, "hi", thread=42, reply_to_message=start).reply_to is None


def test_an_edit_is_a_new_event_about_the_same_message() -> None:
    edited = TELEGRAM.message(7, "better", edit_date=99)
    event = read({"edited_message": edited})
    assert (event.kind, event.revision, event.message_id) == (EventKind.EDIT, "99", str(edited["message_id"]))


def test_a_press_carries_the_value_of_its_button() -> None:
    shown = TELEGRAM.message(7, "?", reply_markup={"inline_keyboard": keyboard([[Button("Yes", "y")]])})
    query = {"id": "31", "data": "y", "message": shown, "from": person(7), "chat_instance": "x"}
    event = read({"callback_query": query})
    assert (event.kind, event.text, event.revision) == (EventKind.BUTTON, "y", "31")
    assert event.peer == Peer(PeerKind.DIRECT, "7")


def test_a_press_on_a_button_with_a_long_value_carries_its_label() -> None:
    button = Button("Book it", "please book the flight at half past two " * 3)
    shown = TELEGRAM.message(-100, "?", reply_markup={"inline_keyboard": keyboard([[button]])})
    data = data_of(button)
    assert len(data.encode()) <= 64
    query = {"id": "31", "data": data, "message": shown, "from": person(7), "chat_instance": "x"}
    assert read({"callback_query": query}).text == "Book it"


@given(st.text(min_size=1, max_size=200))
def test_button_data_always_fits(value: str) -> None:
    assert 1 <= len(data_of(Button("x", value)).encode("utf-8", "replace")) <= 64


def test_a_reaction_carries_its_emoji() -> None:
    reaction = {
        "chat": {"id": 7, "type": "private"},
        "message_id": 12,
        "user": person(7),
        "date": 1,
        "old_reaction": [],
        "new_reaction": [{"type": "emoji", "emoji": "👍"}],
    }
    event = read({"message_reaction": reaction})
    assert (event.kind, event.text, event.message_id) == (EventKind.REACTION, "👍", "12")


def test_the_parts_of_an_album_belong_together() -> None:
    photo = [{"file_id": "s", "width": 9, "height": 9}, {"file_id": "l", "width": 90, "height": 90, "file_size": 5}]
    event = message(7, None, photo=photo, caption="two cats", media_group_id="g1")
    assert (event.album, event.text) == ("g1", "two cats")
    (attachment,) = event.attachments
    assert (attachment.kind, attachment.remote, attachment.mime) == (MediaKind.IMAGE, "l", "image/jpeg")


@pytest.mark.parametrize(
    ("field", "content", "kind"),
    [
        ("document", {"file_name": "a.pdf", "mime_type": "application/pdf"}, MediaKind.DOCUMENT),
        ("document", {"file_name": "a.png", "mime_type": "image/png"}, MediaKind.IMAGE),
        ("audio", {"title": "Song"}, MediaKind.AUDIO),
        ("voice", {}, MediaKind.VOICE),
        ("video", {}, MediaKind.VIDEO),
        ("video_note", {}, MediaKind.VIDEO),
        ("animation", {}, MediaKind.VIDEO),
        ("sticker", {"emoji": "🎉"}, MediaKind.STICKER),
    ],
)
def test_every_sort_of_file_is_an_attachment(field: str, content: dict[str, Any], kind: MediaKind) -> None:
    (attachment,) = message(7, None, **{field: {"file_id": "F", **content}}).attachments
    assert (attachment.kind, attachment.remote) == (kind, "F")
    assert attachment.name
    assert not attachment.problem


def test_R089_a_file_beyond_the_platform_limit_says_so_at_once() -> None:
    (attachment,) = message(7, None, document={"file_id": "F", "file_size": 22_900_000}).attachments
    assert "20 MB" in attachment.problem


def test_a_place_is_told_by_its_name_and_coordinates() -> None:
    spot = {"latitude": 52.5, "longitude": 13.4}
    assert message(7, None, location=spot).attachments[0].name == "52.500000, 13.400000"
    venue = {"location": spot, "title": "Bar", "address": "Street 1"}
    assert message(7, None, location=spot, venue=venue).attachments[0].name.startswith("Bar, Street 1")


def test_a_text_that_was_cut_by_the_app_waits_for_its_rest() -> None:
    assert message(7, "x" * 4000).continues
    assert not message(7, "x" * 3999).continues


@pytest.mark.parametrize(
    ("text", "clean"), [("a\x00b", "a\ufffdb"), ("a\ud83d", "a\ufffd"), ("\u202eabc", "\u202eabc")]
)
def test_text_is_clean(text: str, clean: str) -> None:
    assert message(7, text, entities=[]).text == clean


def test_what_we_wrote_ourselves_is_marked() -> None:
    assert message(-100, "x", **{"from": TELEGRAM.me}).author_is_self


@pytest.mark.parametrize(
    "update",
    [
        {"message": TELEGRAM.message(-100, None, new_chat_members=[person(3)])},
        {"message": TELEGRAM.message(-100, None, migrate_to_chat_id=-200)},
        {"my_chat_member": {}},
        {"poll": {}},
    ],
)
def test_service_messages_are_no_events(update: dict[str, Any]) -> None:
    assert READER.read({"update_id": 1, **update}, 0) is None


def test_a_malformed_update_harms_no_other() -> None:
    good = {"update_id": 3, "message": TELEGRAM.message(7, "good")}
    broken: list[Any] = [{"update_id": 1, "message": None}, {"update_id": 2, "message": {"chat": 5}}, {}, 7, None]
    assert [event.text for event in read_updates(READER, [*broken, good, *broken], 0)] == ["good"]


NAMES = [
    "message",
    "chat",
    "id",
    "type",
    "from",
    "text",
    "entities",
    "photo",
    "offset",
    "message_id",
    "data",
    "update_id",
    "callback_query",
    "reply_to_message",
    "edited_message",
    "message_reaction",
    "new_reaction",
    "user",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=25,
)


@given(st.lists(JSON, max_size=3))
def test_no_update_can_break_the_reading(updates: list[Any]) -> None:
    read_updates(READER, updates, 0)
