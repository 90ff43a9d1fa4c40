"""A Bot API server on loopback, as strict as the real one, with scripted faults.

It keeps updates until they are confirmed, refuses a second poller, counts text after entity parsing in UTF-16 units,
refuses HTML that Telegram refuses, and knows topics. Source of its rules: https://core.telegram.org/bots/api.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
from aiohttp import web

from fakes.telegram_html import BadMarkup, read_html, utf16

Json = dict[str, Any]

CONFLICT = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
WEBHOOK_ACTIVE = (
    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
)
NOT_MODIFIED = (
    "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a "
    "current content and reply markup of the message"
)
MAX_DOWNLOAD = 20 << 20
_TEXTS = {
    401: "Unauthorized",
    403: "Forbidden: bot was blocked by the user",
    404: "Not Found",
    409: CONFLICT,
    500: "Internal Server Error",
    502: "Bad Gateway",
}


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one call.

    Attributes:
        status: Answer with this HTTP status and `body`, doing nothing.
        cut: `before`: close the connection before the body is read; `after`: do the call, then close it unanswered.
        delay: Wait so many seconds first.
    """

    status: int = 0
    body: bytes = b""
    cut: str = ""
    delay: float = 0.0


class Refusal(Exception):
    """The call is refused with a status and a description."""

    def __init__(self, code: int, description: str, parameters: Json | None = None) -> None:
        super().__init__(description)
        self.code, self.description, self.parameters = code, description, parameters


class FakeTelegram:
    """One bot's server. Use it as an async context manager; `base` is its apiRoot.

    Attributes:
        calls: Every call that was read, in order: (method, parameters).
        messages: What the chats show, by (chat, message id).
        topics: Topics of forums, by chat; a chat that is not listed takes any thread.
    """

    def __init__(self, token: str = "1:TEST", *, username: str = "tide_bot", has_topics: bool = False) -> None:
        self.token = token
        self.me: Json = {
            "id": int(token.split(":", maxsplit=1)[0]),
            "is_bot": True,
            "first_name": "Tide",
            "username": username,
            "can_join_groups": True,
            "can_read_all_group_messages": False,
            "supports_inline_queries": False,
            "has_topics_enabled": has_topics,
        }
        self.calls: list[tuple[str, Json]] = []
        self.messages: dict[tuple[int, int], Json] = {}
        self.files: dict[str, tuple[str, bytes, int]] = {}
        self.topics: dict[int, set[int]] = {}
        self.webhook: Json | None = None
        self.waiting: list[Json] = []
        self.base = ""
        self._faults: dict[str, deque[Fault]] = defaultdict(deque)
        self._update_ids = itertools.count(1000)
        self._message_ids = itertools.count(1)
        self._press_ids = itertools.count(1)
        self._poller = 0
        self._news = asyncio.Condition()
        self._pushing = asyncio.Lock()
        self._tasks: asyncio.TaskGroup | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listen; returns the address."""
        app = web.Application(client_max_size=64 << 20)
        app.router.add_get("/file/bot{token}/{path:.*}", self._file)
        app.router.add_route("*", "/bot{token}/{method}", self._dispatch)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self._tasks = asyncio.TaskGroup()
        await self._tasks.__aenter__()
        self._pushers: set[asyncio.Task[None]] = set()
        self.base = f"http://{host}:{self._runner.addresses[0][1]}"
        return self.base

    async def stop(self) -> None:
        """Listen no more; what waits and what was sent stays, so that it may start again."""
        for task in self._pushers:
            task.cancel()
        assert self._tasks is not None
        await self._tasks.__aexit__(None, None, None)
        await self._runner.cleanup()

    # What people do.

    def user_says(
        self,
        chat_id: int,
        text: str,
        *,
        user_id: int | None = None,
        chat_type: str | None = None,
        thread: int | None = None,
        **extra: Any,
    ) -> int:
        """Let a person write a message; returns its id."""
        message = self.message(chat_id, text, user_id=user_id, chat_type=chat_type, thread=thread, **extra)
        self.push({"message": message})
        return int(message["message_id"])

    def message(
        self,
        chat_id: int,
        text: str | None,
        *,
        user_id: int | None = None,
        chat_type: str | None = None,
        thread: int | None = None,
        **extra: Any,
    ) -> Json:
        """Return a message as Telegram would write it, with its entities, without pushing it."""
        number = next(self._message_ids)
        chat: Json = {"id": chat_id, "type": chat_type or ("private" if chat_id > 0 else "supergroup")}
        chat |= {"first_name": "Ann"} if chat_id > 0 else {"title": "room"}
        message: Json = {
            "message_id": number,
            "date": int(time.time()),
            "chat": chat,
            "from": person(user_id or abs(chat_id)),
        }
        if text is not None:
            message["text"] = text
            entities = self._entities(text)
            if entities:
                message["entities"] = entities
        if thread is not None:
            message |= {"message_thread_id": thread, "is_topic_message": True}
            if chat_id < 0:
                chat["is_forum"] = True
        message |= extra
        self.messages[chat_id, number] = message
        return message

    def press(self, chat_id: int, message_id: int, data: str, user_id: int | None = None) -> str:
        """Let a person press a button; returns the id of the press."""
        press = str(next(self._press_ids))
        shown = self.messages[chat_id, message_id]
        query = {"id": press, "chat_instance": "x", "data": data, "message": shown}
        self.push({"callback_query": query | {"from": person(user_id or abs(chat_id))}})
        return press

    def add_file(self, file_id: str, content: bytes, path: str = "documents/file.bin", size: int | None = None) -> None:
        """Let a file exist; `size` is what Telegram states, where that is not the truth."""
        self.files[file_id] = (path, content, len(content) if size is None else size)

    def push(self, update: Json) -> int:
        """Let something happen; returns the update id."""
        number = next(self._update_ids)
        self.waiting.append({"update_id": number, **update})
        assert self._tasks is not None
        task = self._tasks.create_task(self._deliver())
        self._pushers.add(task)
        task.add_done_callback(self._pushers.discard)
        return number

    # What goes wrong.

    def fail(self, method: str, code: int, times: int = 1, description: str | None = None, **parameters: Any) -> None:
        """Refuse the next calls of a method."""
        wait = parameters.get("retry_after", 1)
        text = description or _TEXTS.get(
            code, f"Too Many Requests: retry after {wait}" if code == 429 else "Bad Request"
        )
        body: Json = {"ok": False, "error_code": code, "description": text}
        if parameters:
            body["parameters"] = parameters
        self.spoil(method, Fault(status=code, body=json.dumps(body).encode()), times)

    def spoil(self, method: str, fault: Fault, times: int = 1) -> None:
        """Let the next calls of a method go wrong."""
        self._faults[method].extend([fault] * times)

    async def wait_call(self, method: str, n: int = 1, timeout: float = 5.0) -> Json:
        """Return the parameters of the n-th call of a method, waiting for it."""
        try:
            async with asyncio.timeout(timeout), self._news:
                await self._news.wait_for(lambda: len(self.called(method)) >= n)
        except TimeoutError:
            raise AssertionError(f"{method} x{n} did not come; saw {[name for name, _ in self.calls]}") from None
        return self.called(method)[n - 1]

    def called(self, method: str) -> list[Json]:
        """Return the parameters of every call of a method so far."""
        return [parameters for name, parameters in self.calls if name == method]

    def texts(self, chat_id: int) -> list[str]:
        """Return what the bot shows in a chat, oldest first, as people see it."""
        return [
            str(message["text"])
            for (chat, _), message in sorted(self.messages.items())
            if chat == chat_id and message["from"]["id"] == self.me["id"] and "text" in message
        ]

    # The server.

    def _entities(self, text: str) -> list[Json]:
        if text.startswith("/"):
            return [{"type": "bot_command", "offset": 0, "length": utf16(text.split()[0])}]
        name = "@" + self.me["username"]
        at = text.lower().find(name.lower())
        return [{"type": "mention", "offset": utf16(text[:at]), "length": utf16(name)}] if at >= 0 else []

    async def _deliver(self) -> None:
        async with self._news:
            self._news.notify_all()
        if self.webhook is None:
            return
        async with self._pushing, aiohttp.ClientSession() as http:
            while self.waiting and self.webhook is not None:
                headers = {"X-Telegram-Bot-Api-Secret-Token": str(self.webhook.get("secret_token", ""))}
                try:
                    async with http.post(self.webhook["url"], json=self.waiting[0], headers=headers) as response:
                        if response.status // 100 == 2:
                            self.waiting.pop(0)
                            continue
                        self.webhook["last_error_message"] = f"Wrong response from the webhook: {response.status}"
                except aiohttp.ClientError:
                    self.webhook["last_error_message"] = "Connection refused"
                await asyncio.sleep(0.05)

    async def _file(self, request: web.Request) -> web.Response:
        for path, content, _ in self.files.values():
            if path == request.match_info["path"] and request.match_info["token"] == self.token:
                return web.Response(body=content)
        return web.Response(status=404)

    async def _dispatch(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        fault = self._faults[method].popleft() if self._faults[method] else Fault()
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.cut == "before":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        parameters = await _parameters(request)
        self.calls.append((method, parameters))
        async with self._news:
            self._news.notify_all()
        if fault.status:
            return web.Response(status=fault.status, body=fault.body, content_type="application/json")
        try:
            if request.match_info["token"] != self.token:
                raise Refusal(401, "Unauthorized")
            handler: Callable[[Json], Awaitable[Any]] | None = getattr(self, f"_do_{method}", None)
            result = await handler(parameters) if handler is not None else True
        except Refusal as refusal:
            body: Json = {"ok": False, "error_code": refusal.code, "description": refusal.description}
            if refusal.parameters:
                body["parameters"] = refusal.parameters
            return web.json_response(body, status=refusal.code)
        if fault.cut == "after":
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"ok": True, "result": result})

    async def _do_getMe(self, parameters: Json) -> Json:
        return self.me

    async def _do_getUpdates(self, parameters: Json) -> list[Json]:
        if self.webhook is not None:
            raise Refusal(409, WEBHOOK_ACTIVE)
        self._poller += 1
        mine, offset = self._poller, int(parameters.get("offset", 0))
        self.waiting = [update for update in self.waiting if update["update_id"] >= offset]
        wanted = parameters.get("allowed_updates")
        async with self._news:
            self._news.notify_all()
            try:
                async with asyncio.timeout(float(parameters.get("timeout", 0))):
                    await self._news.wait_for(lambda: self.waiting or mine != self._poller)
            except TimeoutError:
                pass
        if mine != self._poller:
            raise Refusal(409, CONFLICT)
        if wanted:
            self.waiting = [update for update in self.waiting if any(kind in update for kind in wanted)]
        return self.waiting[: int(parameters.get("limit", 100))]

    async def _do_setWebhook(self, parameters: Json) -> bool:
        self.webhook = dict(parameters) if parameters.get("url") else None
        return True

    async def _do_deleteWebhook(self, parameters: Json) -> bool:
        self.webhook = None
        if str(parameters.get("drop_pending_updates", "")).lower() == "true":
            self.waiting.clear()
        return True

    async def _do_getWebhookInfo(self, parameters: Json) -> Json:
        hook = self.webhook or {}
        info = {"url": hook.get("url", ""), "has_custom_certificate": False, "pending_update_count": len(self.waiting)}
        return info | ({"last_error_message": hook["last_error_message"]} if "last_error_message" in hook else {})

    async def _do_sendMessage(self, parameters: Json) -> Json:
        text, entities = _shown(parameters, "text", 4096)
        return self._post(parameters, {"text": text, "shown_entities": entities})

    async def _do_editMessageText(self, parameters: Json) -> Json:
        message = self.messages.get((int(parameters["chat_id"]), int(parameters["message_id"])))
        if message is None:
            raise Refusal(400, "Bad Request: message to edit not found")
        if message["from"]["id"] != self.me["id"]:
            raise Refusal(400, "Bad Request: message can't be edited")
        text, entities = _shown(parameters, "text", 4096)
        new = {"text": text, "shown_entities": entities, "reply_markup": parameters.get("reply_markup")}
        if all(message.get(key) == value for key, value in new.items()):
            raise Refusal(400, NOT_MODIFIED)
        message |= {**new, "edit_date": int(time.time())}
        return _public(message)

    async def _do_deleteMessage(self, parameters: Json) -> bool:
        if self.messages.pop((int(parameters["chat_id"]), int(parameters["message_id"])), None) is None:
            raise Refusal(400, "Bad Request: message to delete not found")
        return True

    async def _do_getFile(self, parameters: Json) -> Json:
        if parameters["file_id"] not in self.files:
            raise Refusal(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
        path, _, size = self.files[parameters["file_id"]]
        if size > MAX_DOWNLOAD:
            raise Refusal(400, "Bad Request: file is too big")
        return {"file_id": parameters["file_id"], "file_unique_id": "u", "file_size": size, "file_path": path}

    async def _do_sendPoll(self, parameters: Json) -> Json:
        options = [option["text"] if isinstance(option, dict) else option for option in parameters["options"]]
        if not 2 <= len(options) <= 12:
            raise Refusal(400, "Bad Request: poll must have at least 2 option")
        poll = {
            "id": "P1",
            "question": parameters["question"],
            "options": [{"text": text, "voter_count": 0, "persistent_id": text} for text in options],
            "total_voter_count": 0,
            "is_closed": False,
            "is_anonymous": parameters.get("is_anonymous", True),
            "type": "regular",
            "allows_multiple_answers": parameters.get("allows_multiple_answers", False),
            "allows_revoting": True,
        }
        return self._post(parameters, {"poll": poll})

    async def _do_sendPhoto(self, parameters: Json) -> Json:
        size = {"file_id": "P1", "file_unique_id": "p1", "width": 1, "height": 1}
        return self._post_file(parameters, "photo", [size])

    async def _do_sendDocument(self, parameters: Json) -> Json:
        return self._post_file(parameters, "document", {"file_id": "D1", "file_unique_id": "d1"})

    async def _do_sendAudio(self, parameters: Json) -> Json:
        return self._post_file(parameters, "audio", {"file_id": "A1", "file_unique_id": "a1", "duration": 1})

    async def _do_sendVoice(self, parameters: Json) -> Json:
        return self._post_file(parameters, "voice", {"file_id": "V1", "file_unique_id": "v1", "duration": 1})

    def _post_file(self, parameters: Json, field: str, shown: object) -> Json:
        name, content = parameters[field]
        if not content:
            raise Refusal(400, "Bad Request: file must be non-empty")
        extra: Json = {field: shown, "sent_file": (name, content)}
        if "caption" in parameters:
            extra["caption"], extra["shown_entities"] = _shown(parameters, "caption", 1024)
        return self._post(parameters, extra)

    def _post(self, parameters: Json, extra: Json) -> Json:
        chat, thread = int(parameters["chat_id"]), parameters.get("message_thread_id")
        if thread is not None and (int(thread) == 1 or int(thread) not in self.topics.get(chat, {int(thread)})):
            raise Refusal(400, "Bad Request: message thread not found")
        answered = parameters.get("reply_parameters")
        is_lost = answered and (chat, int(answered["message_id"])) not in self.messages
        if is_lost and not answered.get("allow_sending_without_reply"):
            raise Refusal(400, "Bad Request: message to be replied not found")
        number = next(self._message_ids)
        message = {
            "message_id": number,
            "date": int(time.time()),
            "from": self.me,
            "chat": {"id": chat, "type": "private" if chat > 0 else "supergroup"},
            "message_thread_id": int(thread) if thread is not None else None,
            "reply_markup": parameters.get("reply_markup"),
            **extra,
        }
        self.messages[chat, number] = {key: value for key, value in message.items() if value is not None}
        return _public(message)


def person(number: int) -> Json:
    """Return a person as Telegram describes one."""
    return {"id": number, "is_bot": False, "first_name": "Ann", "username": "ann", "language_code": "en"}


def _public(message: Json) -> Json:
    return {
        key: value for key, value in message.items() if value is not None and not key.startswith(("shown_", "sent_"))
    }


def _shown(parameters: Json, field: str, limit: int) -> tuple[str, list[tuple[str, str, str]]]:
    text, entities = str(parameters.get(field, "")), []
    if parameters.get("parse_mode") == "HTML":
        try:
            text, entities = read_html(text)
        except BadMarkup as error:
            raise Refusal(400, f"Bad Request: can't parse entities: {error}") from error
    text = text.strip()
    if not text and field == "text":
        raise Refusal(400, "Bad Request: message text is empty")
    if utf16(text) > limit:
        raise Refusal(400, f"Bad Request: message {'caption ' if field == 'caption' else ''}is too long")
    return text, entities


async def _parameters(request: web.Request) -> Json:
    parameters: Json = dict(request.query)
    if request.content_type == "application/json":
        parameters |= await request.json()
    elif request.can_read_body:
        for key, value in (await request.post()).items():
            parameters[key] = value if isinstance(value, str) else (value.filename, value.file.read())
    for key, value in parameters.items():
        if key not in ("text", "caption", "data") and isinstance(value, str) and value[:1] in ("[", "{"):
            parameters[key] = json.loads(value)
    return parameters
