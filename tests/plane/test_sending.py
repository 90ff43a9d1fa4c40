"""What operators do on channels: reactions, edits, deletions and polls, each once and only where it may go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fakes.event_loop import on_loop
from harness.platform import CHANNEL, Platform, PlatformAdapter, render
from plane.talking import Talk, talking
from tidegate.adapters.registry import AccountSpec
from tidegate.errors import DeliveryRefused, DeliveryUnknown
from tidegate.events import Address

HERE = Address("telegram", "default", "12345")


@dataclass
class Erasable(Platform):
    """A platform on which messages can be taken back."""

    def spec(self) -> AccountSpec:
        return AccountSpec(CHANNEL, self.account, lambda hooks: ErasingAdapter(self, hooks), render, "1")


class ErasingAdapter(PlatformAdapter):
    async def delete(self, address: Address, message_id: str) -> None:
        self._platform.bubbles = [b for b in self._platform.bubbles if b.id != message_id]


def act(action: str, key: str, **params: Any) -> dict[str, Any]:
    params = {"to": "telegram:12345", **params}
    return {"channel": "telegram", "action": action, "params": params, "idempotencyKey": key}


async def sent(talk: Talk, key: str = "s1") -> str:
    found: str = (await talk.ok("message.action", **act("send", key, message="hi")))["messageId"]
    return found


@on_loop
async def test_a_message_is_reacted_to_edited_and_deleted(tmp_path: Path) -> None:
    platform = Erasable(edit_interval=0.0)
    async with talking(tmp_path, platform=platform) as talk:
        message = await sent(talk)
        assert (await talk.ok("message.action", **act("react", "k1", messageId=message, emoji="👍")))["ok"] is True
        await talk.ok("message.action", **act("react", "k2", messageId=message, remove=True))
        assert platform.reactions == [(HERE, message, "👍"), (HERE, message, None)]
        edited = await talk.ok("message.action", **act("edit", "k3", messageId=message, message="hello"))
        assert (edited["messageId"], platform.texts("12345")) == (message, ["hello"])
        await talk.ok("message.action", **act("edit", "k3", messageId=message, message="other"))
        assert platform.texts("12345") == ["hello"]
        assert (await talk.ok("message.action", **act("unsend", "k4", messageId=message)))["deleted"] is True
        assert platform.texts("12345") == []


@on_loop
async def test_an_edit_of_a_message_that_is_gone_sends_nothing_new(tmp_path: Path) -> None:
    platform = Erasable(edit_interval=0.0)
    async with talking(tmp_path, platform=platform) as talk:
        message = await sent(talk)
        platform.faults.append(DeliveryRefused("message to edit not found"))
        error = await talk.error("message.action", **act("edit", "k1", messageId=message, message="new"))
        assert error["details"]["code"] == "OUTBOUND_DELIVERY_DEAD"
        assert platform.texts("12345") == ["hi"]


@on_loop
async def test_what_the_platform_cannot_do_is_said_before_anything_is_stored(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        message = await sent(talk)
        for action, params, words in (
            ("edit", {"messageId": message, "message": "x"}, "telegram cannot edit messages"),
            ("delete", {"messageId": message}, "telegram cannot delete messages"),
            ("poll", {"pollQuestion": "q", "pollOption": ["a", "b"]}, "telegram has no polls"),
            ("pin", {"messageId": message}, "does not support the action 'pin'"),
            ("react", {"messageId": message}, "emoji required"),
            ("react", {"emoji": "x"}, "messageId required"),
            ("react", {"messageId": message, "emoji": "x", "to": "nowhere"}, "is no chat of telegram"),
            ("delete", {"messageId": message, "to": "../1"}, "is no chat of telegram"),
        ):
            error = await talk.error("message.action", **act(action, f"k-{action}", **params))
            assert words in error["message"], action
        error = await talk.error(
            "message.action", **{**act("react", "k", messageId="1", emoji="x"), "channel": "pigeon"}
        )
        assert "pigeon" in error["message"]
        assert talk.stage.rows("SELECT count(*) FROM deliveries") == [(1,)]


@on_loop
async def test_a_poll_is_sent_once(tmp_path: Path) -> None:
    platform = Platform(polls=True)
    async with talking(tmp_path, platform=platform) as talk:
        poll = {"to": "12345", "question": "Lunch?", "options": ["soup", "rice"], "idempotencyKey": "p1"}
        first = await talk.ok("poll", maxSelections=2, durationSeconds=60, **poll)
        assert (first["runId"], first["channel"]) == ("p1", "telegram")
        assert (await talk.ok("poll", **poll))["messageId"] == first["messageId"]
        assert platform.texts("12345") == ["[poll Lunch?: soup, rice]"]
        told = platform.attempts[0].poll
        assert told is not None
        assert (told.multiple, told.anonymous, told.seconds) == (True, True, 60)
        again = act("poll", "p2", pollQuestion="Tea?", pollOption=["yes", "no"], pollDurationHours=1)
        await talk.ok("message.action", **again)
        assert platform.attempts[1].poll is not None
        assert platform.attempts[1].poll.seconds == 3600
        assert "poll" not in talk.client.hello["features"]["methods"]


@on_loop
async def test_a_poll_of_unknown_fate_is_never_sent_again(tmp_path: Path) -> None:
    platform = Platform(polls=True)
    platform.faults.append(DeliveryUnknown("no answer came"))
    async with talking(tmp_path, platform=platform) as talk:
        poll = {"to": "12345", "question": "q", "options": ["a", "b"], "idempotencyKey": "p1"}
        for _ in range(2):
            error = await talk.error("poll", **poll)
            assert error["details"]["code"] == "OUTBOUND_DELIVERY_UNKNOWN"
        assert len(platform.attempts) == 1


@on_loop
async def test_a_poll_without_a_choice_is_refused(tmp_path: Path) -> None:
    async with talking(tmp_path, platform=Platform(polls=True)) as talk:
        for question, options in (("q", ["a"]), (" ", ["a", "b"]), ("q", ["a", " "])):
            error = await talk.error("poll", to="12345", question=question, options=options, idempotencyKey="p")
            assert error["code"] == "INVALID_REQUEST"
        error = await talk.error("poll", to="12345", question="q", options=["a"] * 13, idempotencyKey="p")
        assert "must not have more than 12 items" in error["message"]


@on_loop
async def test_a_refused_text_is_refused_again_under_its_key_and_another_key_is_free(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        for _ in range(2):
            error = await talk.error("send", to="12345", message=" ", idempotencyKey="k1")
            assert "nothing to send" in error["message"]
        error = await talk.error("send", to="nowhere", message="x", idempotencyKey="k2")
        assert "is no chat" in error["message"]
        # Where it may not go was said before the key was taken.
        assert (await talk.ok("send", to="12345", message="x", idempotencyKey="k2"))["messageId"]


@on_loop
async def test_nobody_is_told_to_repeat_what_can_never_be_sent(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        # As versions left it that stored the key before the parts, and were cut off in between.
        await talk.gateway.store.claim_key("operator", "send", "k1", "")
        error = await talk.error("send", to="12345", message="x", idempotencyKey="k1")
        assert (error["code"], error.get("retryable")) == ("INVALID_REQUEST", None)
        assert "use another one" in error["message"]


@on_loop
async def test_a_repeat_that_comes_while_the_first_is_on_its_way_has_its_receipt(tmp_path: Path) -> None:
    platform = Platform()
    async with talking(tmp_path, platform=platform) as talk:
        for number in range(3):
            params = {"to": "12345", "message": "once", "idempotencyKey": "k1"}
            await talk.client.socket.send_json({"type": "req", "id": f"s{number}", "method": "send", "params": params})
        answers = [(await talk.client.answer(f"s{number}"))["payload"]["messageId"] for number in range(3)]
        assert len(set(answers)) == 1
        assert platform.texts("12345") == ["once"]
