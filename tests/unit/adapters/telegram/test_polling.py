"""Long polling: nothing is confirmed before it is stored, and every way it can fail has a name."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from fakes.connected_bot import Told, connected, given_token
from fakes.event_loop import on_loop
from fakes.fake_telegram import WEBHOOK_ACTIVE, FakeTelegram, Fault
from tidegate.adapters.telegram.polling import Cursor
from tidegate.clock import DAY, ManualClock
from tidegate.errors import AdapterConfigError, AdapterConflict, AdapterUnavailable
from tidegate.events import EventKind


@on_loop
async def test_entering_makes_one_call_and_the_first_poll_does_not_wait() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        assert bot.username == "tide_bot"
        assert [method for method, _ in platform.calls] == ["getMe"]
        platform.user_says(7, "hi")
        async with aclosing(bot.events(None)) as batches:
            await anext(batches)
        assert platform.called("getUpdates")[0]["timeout"] == 0


@on_loop
async def test_updates_are_confirmed_only_when_the_next_batch_is_asked_for() -> None:
    told = Told()
    async with FakeTelegram() as platform, connected(platform, told) as bot, aclosing(bot.events(None)) as batches:
        platform.user_says(7, "one")
        batch = await anext(batches)
        assert platform.waiting
        assert not told.confirmed
        platform.user_says(7, "two")
        following = await anext(batches)
        assert told.confirmed == [batch.cursor]
        assert [event.text for event in following.events] == ["two"]
        assert platform.called("getUpdates")[-1]["offset"] == 1001


@on_loop
async def test_a_cursor_confirms_what_an_earlier_process_stored() -> None:
    async with FakeTelegram() as platform:
        platform.user_says(7, "stored")
        async with connected(platform) as bot, aclosing(bot.events(None)) as batches:
            cursor = (await anext(batches)).cursor
        platform.user_says(7, "new")
        async with connected(platform) as bot, aclosing(bot.events(cursor)) as batches:
            assert [event.text for event in (await anext(batches)).events] == ["new"]


@pytest.mark.parametrize("cursor", ["5000@2/1800000000", "nonsense", "", "9@1/1"])
@on_loop
async def test_a_cursor_of_another_bot_or_time_hides_no_update(cursor: str) -> None:
    async with FakeTelegram() as platform, connected(platform, clock=ManualClock()) as bot:
        platform.user_says(7, "must not be lost")
        async with aclosing(bot.events(cursor)) as batches:
            assert [event.text for event in (await anext(batches)).events] == ["must not be lost"]


def test_a_cursor_is_read_back_as_it_was_written() -> None:
    cursor = Cursor(1001, "1", 1_800_000_000)
    assert Cursor.parse(str(cursor), "1", 1_800_000_100) == cursor
    assert Cursor.parse(str(cursor), "1", 1_800_000_000 + 4 * DAY // 1_000_000) is None
    assert Cursor.parse("77", "1", 5) == Cursor(77, "1", 5)


@on_loop
async def test_an_unreadable_update_is_passed_over_and_confirmed() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot, aclosing(bot.events(None)) as batches:
        platform.push({"message": {"chat": "broken"}})
        platform.push({"something_new": {}})
        assert (await anext(batches)).events == []
        platform.user_says(7, "good")
        assert [event.text for event in (await anext(batches)).events] == ["good"]
        assert len(platform.waiting) == 1


@on_loop
async def test_a_press_is_answered_once_it_is_stored() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot, aclosing(bot.events(None)) as batches:
        shown = platform.user_says(7, "?")
        await anext(batches)
        press = platform.press(7, shown, "yes")
        (event,) = (await anext(batches)).events
        assert (event.kind, event.text) == (EventKind.BUTTON, "yes")
        assert not platform.called("answerCallbackQuery")
        async with asyncio.TaskGroup() as group:
            group.create_task(anext(batches))  # type: ignore[arg-type]
            assert (await platform.wait_call("answerCallbackQuery"))["callback_query_id"] == press
            platform.user_says(7, "go on")


@on_loop
async def test_reactions_are_asked_for_only_where_they_are_heard() -> None:
    async with FakeTelegram() as platform:
        for hears in (True, False):
            async with connected(platform, hears_reactions=hears) as bot, aclosing(bot.events(None)) as batches:
                platform.user_says(7, "x")
                await anext(batches)
            assert ("message_reaction" in platform.called("getUpdates")[-1]["allowed_updates"]) is hears


@on_loop
async def test_a_forgotten_webhook_is_removed_and_nothing_is_dropped() -> None:
    async with FakeTelegram() as platform:
        platform.webhook = {"url": "http://127.0.0.1:1/"}
        async with connected(platform) as bot, aclosing(bot.events(None)) as batches:
            platform.user_says(7, "kept")
            assert [event.text for event in (await anext(batches)).events] == ["kept"]
        assert (
            "drop_pending_updates" not in platform.called("deleteWebhook")[0]
            or not platform.called("deleteWebhook")[0]["drop_pending_updates"]
        )


async def failing_poll(platform: FakeTelegram) -> None:
    """Poll until it fails."""
    async with connected(platform) as bot, aclosing(bot.events(None)) as batches:
        await anext(batches)


@on_loop
async def test_R066_R069_a_second_poller_is_a_conflict_that_names_its_cause() -> None:
    async with FakeTelegram() as platform:
        platform.fail("getUpdates", 409)
        with pytest.raises(AdapterConflict, match="another program"):
            await failing_poll(platform)


@on_loop
async def test_a_webhook_that_comes_back_at_once_is_a_conflict() -> None:
    async with FakeTelegram() as platform:
        platform.fail("getUpdates", 409, times=2, description=WEBHOOK_ACTIVE)
        with pytest.raises(AdapterConflict):
            await failing_poll(platform)


@pytest.mark.parametrize("code", [401, 404])
@on_loop
async def test_a_rejected_token_stops_the_account_and_says_what_to_do(code: int) -> None:
    async with FakeTelegram("1:SECRET") as platform:
        platform.fail("getMe", code)
        with pytest.raises(AdapterConfigError, match="BotFather") as raised:
            await failing_poll(platform)
        assert "SECRET" not in str(raised.value)


@on_loop
async def test_calls_go_through_the_configured_proxy() -> None:
    async with FakeTelegram() as platform:
        async with connected(platform, api_root="http://telegram.invalid", proxy=platform.base) as bot:
            assert bot.username == "tide_bot"
        with pytest.raises(AdapterConfigError, match="proxy"):
            async with connected(platform, proxy="socks5://x"):
                pass


@pytest.mark.parametrize(
    "fault",
    [
        Fault(cut="before"),
        Fault(cut="after"),
        Fault(status=502, body=b"<html>Bad Gateway</html>"),
        Fault(status=200, body=b"no json"),
        Fault(status=200, body=b"[]"),
        Fault(status=301, body=b""),
    ],
)
@on_loop
async def test_passing_trouble_is_retried_by_the_core(fault: Fault) -> None:
    async with FakeTelegram("1:SECRET") as platform:
        platform.spoil("getUpdates", fault)
        with pytest.raises(AdapterUnavailable) as raised:
            await failing_poll(platform)
        assert "SECRET" not in str(raised.value)


@on_loop
async def test_a_wait_that_telegram_asks_for_is_passed_on() -> None:
    async with FakeTelegram() as platform:
        platform.fail("getUpdates", 429, retry_after=17)
        with pytest.raises(AdapterUnavailable) as raised:
            await failing_poll(platform)
        assert raised.value.retry_after == 17


@on_loop
async def test_a_platform_that_is_not_there_is_unavailable_and_the_token_stays_secret() -> None:
    platform = FakeTelegram("1:SECRET")
    platform.base = "http://127.0.0.1:1"
    with pytest.raises(AdapterUnavailable) as raised:
        await failing_poll(platform)
    text = repr(raised.value) + repr(raised.value.__cause__) + repr(raised.value.__context__)
    assert "SECRET" not in text


@on_loop
async def test_two_bots_receive_their_own_updates() -> None:
    async with FakeTelegram("1:A") as one, FakeTelegram("2:B") as two:
        async with connected(one) as first, connected(two, account="second", token=given_token("2:B")) as second:
            one.user_says(7, "to one")
            two.user_says(7, "to two")
            async with aclosing(first.events(None)) as batches:
                (event,) = (await anext(batches)).events
                assert (event.text, event.address.account) == ("to one", "default")
            async with aclosing(second.events(None)) as batches:
                (event,) = (await anext(batches)).events
                assert (event.text, event.address.account) == ("to two", "second")


@on_loop
async def test_a_server_that_holds_no_poll_is_not_asked_without_end() -> None:
    async with FakeTelegram() as platform, connected(platform) as bot:
        platform.spoil("getUpdates", Fault(status=200, body=b'{"ok": true, "result": []}'), times=1000)
        async with aclosing(bot.events(None)) as batches:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(batches), 0.2)
        assert len(platform.called("getUpdates")) == 2
