"""Sending: each outcome is told for what it is, and nothing is sent twice or to another place."""

from __future__ import annotations

import asyncio

import pytest

from fakes.connected_bot import connected
from fakes.event_loop import on_loop
from fakes.fake_telegram import FakeTelegram, Fault
from tidegate.adapters.base import Button, Outbound, Poll, TextPart
from tidegate.adapters.telegram.adapter import TelegramAdapter
from tidegate.errors import (
    DeliveryDeferred,
    DeliveryError,
    DeliveryRefused,
    DeliveryUnavailable,
    DeliveryUnknown,
)
from tidegate.events import Address

ANN = Address("telegram", "default", "7")
HI = TextPart("hi", "hi")


def part(text: TextPart = HI, address: Address = ANN, **more: object) -> Outbound:
    return Outbound(address, "t", text, **more)  # type: ignore[arg-type]


async def outcome(bot: TelegramAdapter, sent: Outbound) -> DeliveryError | str:
    """Return the message id or the error of a send."""
    try:
        return await bot.send(sent)
    except DeliveryError as error:
        return error


@on_loop
async def test_a_quick_answer_is_one_call_without_markup() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        assert await bot.send(part()) == "1"
        (call,) = platform.called("sendMessage")
        assert call == {"chat_id": 7, "text": "hi"}


@on_loop
async def test_buttons_replies_and_previews_are_asked_for() -> None:
    async with FakeTelegram() as platform, connected(platform, link_preview=False) as bot:
        message = platform.user_says(7, "?")
        await bot.send(part(reply_to=str(message), buttons=((Button("Yes", "y"), Button("No", "n")),)))
        (call,) = platform.called("sendMessage")
        assert call["reply_parameters"] == {"message_id": message, "allow_sending_without_reply": True}
        assert call["reply_markup"]["inline_keyboard"] == [
            [{"text": "Yes", "callback_data": "y"}, {"text": "No", "callback_data": "n"}]
        ]
        assert call["link_preview_options"] == {"is_disabled": True}


@on_loop
async def test_an_answer_to_a_deleted_message_is_sent_all_the_same() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        assert await bot.send(part(reply_to="999"))


@pytest.mark.parametrize(("thread", "named"), [("42", 42), ("1", None), (None, None)])
@on_loop
async def test_R046_answers_go_to_their_topic_and_general_is_not_named(thread: str | None, named: int | None) -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        platform.topics[-100] = {42}
        await bot.send(part(address=Address("telegram", "default", "-100", thread)))
        (call,) = platform.called("sendMessage")
        assert call.get("message_thread_id") == named


@on_loop
async def test_R047_a_topic_that_a_private_chat_lost_does_not_lose_the_answer() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        platform.topics[7] = set()
        await bot.send(part(address=Address("telegram", "default", "7", "12")))
        assert platform.texts(7) == ["hi"]


@on_loop
async def test_a_closed_topic_of_a_group_never_spills_into_another() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        platform.topics[-100] = set()
        with pytest.raises(DeliveryRefused, match="thread not found"):
            await bot.send(part(address=Address("telegram", "default", "-100", "42")))
        assert platform.texts(-100) == []


@on_loop
async def test_a_place_that_telegram_cannot_have_is_refused() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        with pytest.raises(DeliveryRefused, match="not an id"):
            await bot.send(part(address=Address("telegram", "default", "7", "news")))


@on_loop
async def test_R082_markup_that_is_refused_is_sent_plain() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        await bot.send(part(TextPart("<b>a", "a")))
        assert platform.texts(7) == ["a"]


@on_loop
async def test_a_group_that_moved_is_followed_at_once_and_from_then_on() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        group = Address("telegram", "default", "-5")
        platform.fail("sendMessage", 400, description="Bad Request: group chat was upgraded", migrate_to_chat_id=-1005)
        await bot.send(part(address=group))
        await bot.send(part(address=group))
        assert platform.texts(-1005) == ["hi", "hi"]
        assert len(platform.called("sendMessage")) == 3


@on_loop
async def test_an_edit_replaces_the_text() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        message = await bot.send(part())
        assert await bot.send(part(TextPart("<b>new</b>", "new"), edit_of=message)) == message
        assert platform.texts(7) == ["new"]


@on_loop
async def test_an_edit_that_changes_nothing_has_worked() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        message = await bot.send(part())
        assert await bot.send(part(edit_of=message)) == message


@pytest.mark.parametrize("method", ["sendMessage", "editMessageText"])
@on_loop
async def test_R070_a_stated_wait_is_passed_on_in_full(method: str) -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        platform.fail(method, 429, retry_after=30)
        error = await outcome(bot, part(edit_of="1" if method == "editMessageText" else None))
        assert isinstance(error, DeliveryDeferred)
        assert error.retry_after == 30


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault(status=429, body=b"slow down"), DeliveryDeferred),
        (Fault(status=400, body=b'{"ok":false,"description":"Bad Request: chat not found"}'), DeliveryRefused),
        (
            Fault(status=403, body=b'{"ok":false,"description":"Forbidden: bot was blocked by the user"}'),
            DeliveryRefused,
        ),
        (Fault(status=413, body=b"too large"), DeliveryRefused),
        (Fault(status=401, body=b'{"ok":false,"description":"Unauthorized"}'), DeliveryUnavailable),
        (Fault(status=500, body=b"{}"), DeliveryUnknown),
        (Fault(status=502, body=b"<html>"), DeliveryUnknown),
        (Fault(status=200, body=b"<html>"), DeliveryUnknown),
        (Fault(cut="before"), DeliveryUnknown),
        (Fault(cut="after"), DeliveryUnknown),
    ],
)
@on_loop
async def test_each_failure_is_what_the_outbox_has_to_know(fault: Fault, kind: type[DeliveryError]) -> None:
    async with FakeTelegram("1:SECRET") as platform, connected(platform) as bot:
        platform.spoil("sendMessage", fault)
        error = await outcome(bot, part())
        assert type(error) is kind
        assert "SECRET" not in str(error)
        assert len(platform.called("sendMessage")) == (0 if fault.cut == "before" else 1)


@on_loop
async def test_a_server_that_is_not_there_got_nothing() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        await platform.stop()
        error = await outcome(bot, part())
        assert type(error) is DeliveryUnavailable
        await platform.start()


@on_loop
async def test_a_connection_that_the_server_closed_meanwhile_costs_nothing() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        port = int(platform.base.rsplit(":", 1)[1])
        for number in range(3):
            assert await bot.send(part(TextPart(str(number), str(number))))
            await platform.stop()
            await platform.start(port=port)
        assert platform.texts(7) == ["0", "1", "2"]


@on_loop
async def test_a_send_that_is_given_up_leaves_the_bot_usable() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        platform.spoil("sendMessage", Fault(delay=5))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(bot.send(part()), 0.1)
        assert await bot.send(part())
        assert platform.texts(7) == ["hi"]


@on_loop
async def test_many_sends_at_once_each_get_their_own_answer() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(bot.send(part(TextPart(str(n), str(n)), Address("telegram", "default", str(n)))))
                for n in range(1, 33)
            ]
        for number, task in enumerate(tasks, 1):
            assert platform.messages[number, int(task.result())]["text"] == str(number)


@pytest.mark.parametrize(("thread", "named"), [("1", 1), ("42", 42), (None, None)])
@on_loop
async def test_typing_shows_in_the_topic_and_general_is_named(thread: str | None, named: int | None) -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        await bot.typing(Address("telegram", "default", "-100", thread))
        (call,) = platform.called("sendChatAction")
        assert (call["chat_id"], call["action"], call.get("message_thread_id")) == (-100, "typing", named)


@on_loop
async def test_reactions_are_set_and_removed() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        await bot.react(ANN, "5", "👀")
        await bot.react(ANN, "5", None)
        first, second = platform.called("setMessageReaction")
        assert first["reaction"] == [{"type": "emoji", "emoji": "👀"}]
        assert second["reaction"] == []


@on_loop
async def test_deleting_what_is_already_gone_is_no_error() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        message = await bot.send(part())
        await bot.delete(ANN, message)
        await bot.delete(ANN, message)
        assert platform.texts(7) == []
        platform.fail("deleteMessage", 400, description="Bad Request: message can't be deleted")
        with pytest.raises(DeliveryRefused):
            await bot.delete(ANN, message)


@on_loop
async def test_the_menu_takes_only_what_telegram_takes() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        many = [(f"c{number}", "x" * 300) for number in range(120)]
        await bot.publish_commands([("New", "start anew"), ("dock-here", ""), ("no!", "x"), *many])
        (call,) = platform.called("setMyCommands")
        assert len(call["commands"]) == 100
        assert call["commands"][:2] == [
            {"command": "new", "description": "start anew"},
            {"command": "dock_here", "description": "dock_here"},
        ]
        assert all(len(one["description"]) <= 256 for one in call["commands"])


@on_loop
async def test_a_poll_is_one_call_in_its_topic() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        assert bot.capabilities.polls
        lunch = Poll("Lunch?", ("soup", "rice"), multiple=True, anonymous=False, seconds=60)
        assert await bot.send(Outbound(Address("telegram", "default", "-100", "5"), "t", poll=lunch)) == "1"
        (call,) = platform.called("sendPoll")
        assert (call["question"], call["message_thread_id"], call["open_period"]) == ("Lunch?", 5, 60)
        assert (call["is_anonymous"], call["allows_multiple_answers"]) == (False, True)


@pytest.mark.parametrize(
    "poll",
    [
        Poll("", ("a", "b")),
        Poll("q" * 301, ("a", "b")),
        Poll("q", ("a",)),
        Poll("q", ("a",) * 13),
        Poll("q", ("a", "b" * 101)),
        Poll("q", ("a", "b"), seconds=4),
        Poll("q", ("a", "b"), seconds=601),
    ],
)
@on_loop
async def test_a_poll_that_telegram_would_refuse_is_not_sent(poll: Poll) -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        assert isinstance(await outcome(bot, Outbound(ANN, "t", poll=poll)), DeliveryRefused)
        assert not platform.called("sendPoll")
