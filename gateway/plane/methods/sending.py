"""Sending through channels: texts and polls go through the outbox, once; reactions and deletions go at once.

One check of where a message may go holds for every verb. The key of a request that sends is stored together with what
is sent, so that a repeat, also after a crash, finds the parts of the first time and waits for their receipt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from tidegate.adapters.base import Deletes, Poll, Reactions
from tidegate.errors import AdapterUnavailable, DeliveryError
from tidegate.events import Address
from tidegate.gateway.plane.contract import Call, Code, Method, Params, RpcError, RunId, Said, Scope, Text, Waiting
from tidegate.gateway.plane.methods.desk import Desk
from tidegate.gateway.plane.methods.talk import CALLER
from tidegate.gateway.ruleset import OWN_CHANNELS
from tidegate.sessions.devices import RequestKey
from tidegate.sessions.model import Delivery, DeliveryState

RECEIPT_SECONDS = 15.0
"""How long a request to send waits for the platform's receipt."""
CALL_SECONDS = 30.0
"""How long the platform may take for a reaction or a deletion."""
LOOK_SECONDS = 0.05
MAX_SECONDS = 604_800
_OPEN = (DeliveryState.DUE, DeliveryState.SENDING)
_ACTIONS = ("send", "react", "edit", "delete", "poll")


class Send(Params):
    """`send`."""

    to: Text
    idempotencyKey: RunId
    message: Said | None = None
    channel: str | None = None
    accountId: str | None = None
    agentId: str | None = None
    threadId: str | None = None
    replyToId: str | None = None
    sessionKey: str | None = None
    silent: bool | None = None
    mediaUrl: str | None = None
    mediaUrls: list[str] | None = None
    buffer: str | None = None
    filename: str | None = None
    contentType: str | None = None
    asVoice: bool | None = None
    gifPlayback: bool | None = None
    forceDocument: bool | None = None
    parseMode: str | None = None


class MessageAction(Params):
    """`message.action`."""

    channel: Text
    action: Text
    params: dict[str, Any]
    idempotencyKey: RunId
    accountId: str | None = None
    requesterAccountId: str | None = None
    requesterSenderId: str | None = None
    senderIsOwner: bool | None = None
    sessionKey: str | None = None
    sessionId: str | None = None
    inboundTurnKind: str | None = None
    agentId: str | None = None
    reply: dict[str, Any] | None = None
    toolContext: dict[str, Any] | None = None
    conversationReadOrigin: str | None = None


class PollCall(Params):
    """`poll`."""

    to: Text
    question: Text
    options: Annotated[list[Text], Field(max_length=12)]
    idempotencyKey: RunId
    maxSelections: Annotated[int, Field(ge=1, le=12)] | None = None
    durationSeconds: Annotated[int, Field(ge=1, le=MAX_SECONDS)] | None = None
    durationHours: Annotated[int, Field(ge=1)] | None = None
    silent: bool | None = None
    isAnonymous: bool | None = None
    threadId: str | None = None
    channel: str | None = None
    accountId: str | None = None


class Sending:
    """The methods."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def send(self, call: Call) -> Any:
        """Send a text, and answer with the platform's receipt."""
        params: Send = call.params
        if params.mediaUrl or params.mediaUrls or params.buffer:
            raise RpcError(Code.INVALID_REQUEST, "sending files this way is not supported")
        where = self._where(params.channel, params.accountId, params.to, params.threadId)
        key = RequestKey(CALLER, "send", params.idempotencyKey)
        parts = await self._queued(self._desk.gateway.control.text(where, params.message or "", key))
        return self._when_sent(where, parts, {"runId": params.idempotencyKey, "channel": where.channel})

    async def poll(self, call: Call) -> Any:
        """Send a poll, and answer with the platform's receipt."""
        params: PollCall = call.params
        where = self._where(params.channel, params.accountId, params.to, params.threadId)
        seconds = params.durationSeconds or (params.durationHours or 0) * 3600
        poll = Poll(
            params.question.strip(),
            tuple(option.strip() for option in params.options),
            (params.maxSelections or 1) > 1,
            params.isAnonymous is not False,
            seconds,
        )
        parts = await self._poll(RequestKey(CALLER, "poll", params.idempotencyKey), where, poll)
        return self._when_sent(where, parts, {"runId": params.idempotencyKey, "channel": where.channel})

    async def message_action(self, call: Call) -> Any:
        """Do something on a channel."""
        params: MessageAction = call.params
        said, channel = params.params, params.channel.strip().lower()
        action = {"unsend": "delete"}.get(params.action, params.action)
        if action not in _ACTIONS:
            text = f"{channel} does not support the action {params.action!r} here; it supports {', '.join(_ACTIONS)}"
            raise RpcError(Code.INVALID_REQUEST, text)
        to = said.get("to") or said.get("target") or said.get("chatId")
        if not isinstance(to, str | int) or isinstance(to, bool) or not str(to):
            raise RpcError(Code.UNAVAILABLE, "ToolInputError: to required")
        if said.get("dryRun"):
            return {"channel": channel, "to": str(to), "dryRun": True, "messageId": None}
        where = self._where(channel, params.accountId, str(to), said.get("threadId"))
        doing = await self._act(action, where, said, RequestKey(CALLER, "message.action", params.idempotencyKey))

        async def answer() -> dict[str, Any]:
            ids: dict[str, Any] = await doing.answer()
            return {"ok": True, "channel": channel, "to": str(to), **ids, "result": ids}

        return Waiting(answer)

    async def _act(self, action: str, where: Address, said: dict[str, Any], key: RequestKey) -> Waiting:
        text, control = str(said.get("message") or said.get("text") or ""), self._desk.gateway.control
        if action == "send":
            return self._when_sent(where, await self._queued(control.text(where, text, key)))
        if action == "poll":
            return self._when_sent(where, await self._poll(key, where, _poll_of(said)))
        message = said.get("messageId")
        if not isinstance(message, str | int) or isinstance(message, bool) or not str(message):
            raise RpcError(Code.UNAVAILABLE, "ToolInputError: messageId required")
        if action == "react":
            return self._react(where, str(message), said)
        if action == "delete":
            return self._delete(where, str(message))
        adapter = self._desk.gateway.connections.adapter_for(where)
        if adapter is not None and adapter.capabilities.edit_interval is None:
            raise RpcError(Code.INVALID_REQUEST, f"{where.channel} cannot edit messages")
        return self._when_sent(where, await self._queued(control.edit(where, str(message), text, key)))

    @staticmethod
    async def _queued(queueing: Awaitable[list[int]]) -> list[int]:
        """Return the parts of a request once they are in the outbox. Raises RpcError when it cannot be sent."""
        try:
            return await queueing
        except ValueError as error:
            raise RpcError(Code.INVALID_REQUEST, f"Error: {error}") from error

    async def _poll(self, key: RequestKey, where: Address, poll: Poll) -> list[int]:
        if not poll.question or not all(poll.options) or len(poll.options) < 2:
            raise RpcError(Code.INVALID_REQUEST, "a poll needs a question and at least two options")
        if not self._connected(where).capabilities.polls:
            raise RpcError(Code.INVALID_REQUEST, f"{where.channel} has no polls")
        return await self._queued(self._desk.gateway.control.poll(where, poll, key))

    def _react(self, where: Address, message: str, said: dict[str, Any]) -> Waiting:
        adapter = self._connected(where)
        if not isinstance(adapter, Reactions):
            raise RpcError(Code.INVALID_REQUEST, f"{where.channel} has no reactions")
        emoji = str(said.get("emoji") or "")
        if not emoji and not said.get("remove"):
            raise RpcError(Code.UNAVAILABLE, "ToolInputError: emoji required")
        shown = None if said.get("remove") or not emoji else emoji
        done = {"messageId": message, "chatId": where.chat, "removed": shown is None}
        return self._at_once(where, lambda: adapter.react(where, message, shown), done)

    def _delete(self, where: Address, message: str) -> Waiting:
        adapter = self._connected(where)
        if not isinstance(adapter, Deletes):
            raise RpcError(Code.INVALID_REQUEST, f"{where.channel} cannot delete messages")
        done = {"messageId": message, "chatId": where.chat, "deleted": True}
        return self._at_once(where, lambda: adapter.delete(where, message), done)

    def _connected(self, where: Address) -> Any:
        adapter = self._desk.gateway.connections.adapter_for(where)
        if adapter is None:
            text = f"{where.channel} account {where.account!r} is not connected"
            raise RpcError(Code.UNAVAILABLE, text, retryable=True)
        return adapter

    @staticmethod
    def _at_once(where: Address, work: Callable[[], Awaitable[None]], done: dict[str, Any]) -> Waiting:
        """Do what may be done twice without harm, so that nothing of it has to outlive its caller."""

        async def answer() -> dict[str, Any]:
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    await work()
            except (DeliveryError, AdapterUnavailable, TimeoutError) as error:
                raise RpcError(Code.UNAVAILABLE, f"Error: {where.channel}: {error or 'no answer in time'}") from error
            except ValueError as error:
                raise RpcError(Code.INVALID_REQUEST, f"Error: {where.channel}: not an id that it knows") from error
            return done

        return Waiting(answer)

    def _where(self, channel: str | None, account: str | None, to: str, thread: Any) -> Address:
        """Return the chat that is meant. Raises RpcError when nothing may go there."""
        name = (channel or self._only_channel()).strip().lower()
        target, _, topic = to.strip().removeprefix(f"{name}:").partition(":topic:")
        place = str(thread) if thread else topic or None
        try:
            return self._desk.gateway.control.address(name, target, account or self._default(name), place)
        except ValueError as error:
            raise RpcError(Code.INVALID_REQUEST, f"Error: {error}") from error

    def _default(self, channel: str) -> str:
        names = [row.account for row in self._desk.gateway.connections.all() if row.channel == channel]
        return "default" if "default" in names or not names else names[0]

    def _only_channel(self) -> str:
        names = {row.channel for row in self._desk.gateway.connections.all() if row.channel not in OWN_CHANNELS}
        if len(names) != 1:
            known = ", ".join(sorted(names)) or "none"
            raise RpcError(Code.INVALID_REQUEST, f"channel required (configured channels: {known})")
        return names.pop()

    def _when_sent(self, where: Address, parts: Sequence[int], about: Mapping[str, Any] | None = None) -> Waiting:
        """Answer with the platform's receipt."""

        async def answer() -> dict[str, Any]:
            return {**(about or {}), **await self._receipt(where, parts)}

        return Waiting(answer)

    async def _receipt(self, where: Address, parts: Sequence[int]) -> dict[str, Any]:
        """Wait until the platform has taken all parts. Raises RpcError when it does not, or not yet."""
        try:
            async with asyncio.timeout(RECEIPT_SECONDS):
                while True:
                    found = [part for number in parts if (part := await self._desk.store.delivery(number))]
                    if all(part.state not in _OPEN for part in found):
                        return _receipt(where.channel, where.chat, found)
                    # The outbox is another task, perhaps one day another process: the store is where they meet.
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            details = {"code": "OUTBOUND_DELIVERY_QUEUED", "deliveries": list(parts)}
            text = f"{where.channel} has not taken the message yet; it is queued and will be sent"
            raise RpcError(Code.UNAVAILABLE, text, details) from None


def _poll_of(said: dict[str, Any]) -> Poll:
    """Return the poll of a `message.action`, in the names that command lines use."""
    options = said.get("pollOption") or said.get("options") or []
    options = [options] if isinstance(options, str) else options
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        raise RpcError(Code.UNAVAILABLE, "ToolInputError: pollOption required")
    seconds, hours = said.get("pollDurationSeconds"), said.get("pollDurationHours")
    length = seconds if isinstance(seconds, int) else hours * 3600 if isinstance(hours, int) else 0
    if not 0 <= length <= MAX_SECONDS:
        raise RpcError(Code.INVALID_REQUEST, f"a poll lasts at most {MAX_SECONDS} seconds")
    return Poll(
        str(said.get("pollQuestion") or said.get("question") or "").strip(),
        tuple(option.strip() for option in options),
        bool(said.get("pollMulti")),
        said.get("pollAnonymous") is not False and not said.get("pollPublic"),
        length,
    )


def _receipt(channel: str, to: str, parts: Sequence[Delivery]) -> dict[str, Any]:
    bad = next((part for part in parts if part.state is not DeliveryState.SENT), None)
    if bad is not None:
        details = {"code": f"OUTBOUND_DELIVERY_{bad.state.value.upper()}", "deliveries": [part.id for part in parts]}
        raise RpcError(Code.UNAVAILABLE, f"Error: {channel}: {bad.reason or bad.state.value}", details)
    ids = [part.platform_id for part in parts if part.platform_id]
    return {"messageId": ids[-1] if ids else None, "messageIds": ids, "chatId": to}


def sending_methods(desk: Desk) -> list[Method]:
    """Return the methods."""
    s = Sending(desk)
    return [
        Method("send", Send, s.send, Scope.WRITE),
        Method("message.action", MessageAction, s.message_action, Scope.WRITE),
        Method("poll", PollCall, s.poll, Scope.WRITE, hidden=True),
    ]
