"""`/v1`: agents behind OpenAI's formats. A request is a message like any other: stored, queued, answered by a turn."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog
from aiohttp import web

from tidegate.adapters.webchat.adapter import PERSON, address_of
from tidegate.agent_runtime.transcript import encode_message
from tidegate.clock import SECOND, Clock
from tidegate.config.load import Loaded
from tidegate.errors import StoreError
from tidegate.events import Attachment, MessageEvent, Peer, PeerKind, Sender
from tidegate.gateway.admission import MAX_TEXT
from tidegate.gateway.bus import EventBus
from tidegate.gateway.client_tools import HandedTools
from tidegate.gateway.http.access import Access, read_limited
from tidegate.gateway.http.answers import Answers
from tidegate.gateway.http.headers import READ, add_route, json_answer
from tidegate.gateway.http.openai_shapes import ChatShape, ResponsesShape
from tidegate.gateway.http.openai_tools import read_tools
from tidegate.gateway.http.openai_wait import ONCE, Shape, Waiting, check, stream, tokens_of
from tidegate.gateway.http.openai_wire import (
    INVALID_MODEL,
    MAX_BODY,
    MAX_USER,
    ApiError,
    Asked,
    model_entry,
    model_names,
    named_agent,
    read_body,
    read_chat,
    read_responses,
)
from tidegate.gateway.inbound import Inbound
from tidegate.gateway.plane.contract import Code, RpcError
from tidegate.gateway.plane.methods.attachments import decode_base64, image_type, store_file
from tidegate.ids import new_id
from tidegate.routing.keys import KeyShape, parse, resolve_main_alias, shape_of
from tidegate.routing.normalize import optional_agent_id
from tidegate.sessions.blobs import BlobStore
from tidegate.sessions.model import AppendStatus, SessionChange
from tidegate.sessions.store import Store
from tidegate.sessions.wakeups import Wakeups

KEEP_LONE = 500
"""Sessions of Chat Completions without a conversation that are kept, for people who look what was asked."""
PRUNE_EVERY = 50
ANY_ID = "????????-????-????-????-????????????"
"""Matches what `new_id` makes, and hardly a name that a person gives."""
BY_REQUEST = "modelByRequest"
"""The setting of a session that says that a request chose its model."""
MAX_MODEL = 200
MAX_RESPONSES = 1_000
"""Responses that others can follow; the oldest are forgotten first."""
_PLAIN_USER = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
_NOT_PLAIN = re.compile(r"[^a-z0-9._@+-]+")

log = structlog.get_logger("http")

Read = Callable[[dict[str, object]], Asked]


class ApiGateway(Protocol):
    """What the interfaces for programs need of the gateway."""

    loaded: Loaded
    store: Store
    inbound: Inbound
    bus: EventBus
    clock: Clock
    blobs: BlobStore
    handed_tools: HandedTools


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request is answered.

    Attributes:
        passing: The session lasts only for one request.
        lone: It belongs to no conversation that has a name, and is forgotten in the end.
    """

    agent: str
    key: str
    passing: bool
    lone: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the two formats."""

    name: str
    read: Read
    shape: Callable[[Asked, int], Shape]


CHAT = Kind(
    "openai", read_chat, lambda asked, now: ChatShape(f"chatcmpl_{new_id()}", now, asked.model, asked.include_usage)
)
RESPONSES = Kind(
    "openresponses",
    read_responses,
    lambda asked, now: ResponsesShape(f"resp_{new_id()}", f"msg_{new_id()}", now, asked.model),
)


def default_agent(loaded: Loaded) -> str:
    """Return the agent of a request that names none."""
    agents = loaded.config.agents
    return agents.default_agent_id or next(iter(agents.members()))


def lone_keys(loaded: Loaded, kind: Kind) -> list[str]:
    """Return patterns of the keys that requests without a conversation are given, and of no others."""
    return [f"agent:{agent}:{kind.name}:{ANY_ID}" for agent in loaded.config.agents.members()]


def place_of_key(loaded: Loaded, given: str, agent: str) -> Place:
    """Return the session that a caller names; a key without an agent belongs to `agent`. Raises ApiError."""
    if len(given) > MAX_USER or shape_of(given) is KeyShape.MALFORMED_AGENT:
        raise ApiError(400, "Invalid session key.")
    named = resolve_main_alias(given, agent, loaded.config.session.main_key)
    parsed = parse(named) or parse(f"agent:{agent}:{named}")
    if parsed is None:
        raise ApiError(400, "Invalid session key.")
    if parsed.agent not in loaded.config.agents.members():
        raise ApiError(400, f"Unknown agent '{parsed.agent}'.")
    return Place(parsed.agent, f"agent:{parsed.agent}:{parsed.rest}", passing=False)


class OpenAiApi:
    """The routes below `/v1`. Each is there only while the configuration says so."""

    def __init__(self, gateway: ApiGateway, access: Access, wakeups: Wakeups) -> None:
        self._gateway = gateway
        self._access = access
        self._wakeups = wakeups
        self._answers = Answers(gateway.bus)
        self._responses: OrderedDict[str, Place] = OrderedDict()
        # The first request tidies up too: a program that starts often must not keep everything.
        self._passed = PRUNE_EVERY - 1

    def attach(self, app: web.Application) -> None:
        """Add the routes."""
        add_route(app, "/v1/models", self._guarded(self._models), *READ)
        add_route(app, "/v1/models/{id:.+}", self._guarded(self._model), *READ)
        add_route(app, "/v1/chat/completions", self._guarded(self._chat), "POST")
        add_route(app, "/v1/responses", self._guarded(self._respond), "POST")

    def _guarded(
        self, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Check that the route is on and who calls. A named boundary: whatever goes wrong is an answer."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            endpoints = self._gateway.loaded.config.gateway.http.endpoints
            chat, responses = endpoints.chat_completions.enabled, endpoints.responses.enabled
            is_on = {"/v1/chat/completions": chat, "/v1/responses": responses}.get(request.path, chat or responses)
            if not is_on:
                return await self._off(request)
            try:
                await self._access.check(request)
                return await handler(request)
            except ApiError as error:
                return json_answer(error.body, status=error.status, headers=error.headers)
            except StoreError:
                log.exception("request.not_stored", path=request.path)
                return json_answer(ApiError(503, "the store cannot be used", "api_error").body, status=503)
            except Exception:
                log.exception("request.failed", path=request.path)
                return json_answer(ApiError(500, "internal error", "api_error").body, status=500, headers=ONCE)

        return guarded

    async def _off(self, request: web.Request) -> web.StreamResponse:
        """Answer that there is nothing here; the operator hears why."""
        try:
            await self._access.check(request)
        except ApiError:
            return web.Response(status=404, text="Not Found")
        key = "responses" if request.path == "/v1/responses" else "chatCompletions"
        error = ApiError(404, f"This interface is off: set gateway.http.endpoints.{key}.enabled to true.", "not_found")
        return json_answer(error.body, status=404)

    async def _models(self, _: web.Request) -> web.StreamResponse:
        names = model_names(self._gateway.loaded.config.agents.members())
        return json_answer({"object": "list", "data": [model_entry(name) for name in names]})

    async def _model(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["id"]
        if named_agent(name) is None:
            raise ApiError(400, "Invalid model id.")
        if name not in (*model_names(self._gateway.loaded.config.agents.members()), "tidegate", "tidegate/default"):
            raise ApiError(404, f"Model '{name[:MAX_USER]}' not found.")
        return json_answer(model_entry(name))

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._ask(request, CHAT)

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        return await self._ask(request, RESPONSES)

    async def _ask(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        body = read_body(await read_limited(request, MAX_BODY))
        asked, brought = kind.read(body), read_tools(body)
        place = self._place(request, asked, kind.name)
        shape = kind.shape(asked, self._gateway.clock.now() // SECOND)
        if isinstance(shape, ResponsesShape):
            self._remember(shape.id, place)
        pictures = await take_pictures(self._gateway.blobs, asked.pictures)
        model = backend_model(request.headers.get("x-openclaw-model", ""))
        message_id = f"api-{new_id()}"
        answer = self._answers.expect(message_id)
        if answer is None:
            raise ApiError(503, "Too many requests wait for an answer.", "api_error")
        try:
            calls = self._gateway.handed_tools.offer(message_id, brought).calls if brought is not None else []
            await self._choose(place, model)
            await self._say(place, asked, message_id, pictures)
            waiting = Waiting(request, self._gateway, self._wakeups, place.key, answer, calls, passing=place.passing)
            if asked.stream:
                return await stream(waiting, shape)
            while not answer.state:
                await waiting.more()
            check(answer)
            return json_answer(shape.whole(answer.visible() if calls else answer.text, tokens_of(answer), calls))
        finally:
            self._answers.forget(message_id)
            self._gateway.handed_tools.forget(message_id)
            await self._prune(asked, place)

    async def _choose(self, place: Place, model: str) -> None:
        """Let a session ask the model that a request names; one that names none asks the configured one again."""
        store = self._gateway.store
        held = None if place.passing else await store.session(place.key)
        ours = held is not None and bool(held.settings.get(BY_REQUEST))
        if model:
            settings: dict[str, object] = {"model": model, BY_REQUEST: True}
            await store.change_session(place.key, SessionChange(settings=settings), place.agent)
        elif ours:
            await store.change_session(place.key, SessionChange(settings={"model": None, BY_REQUEST: None}))

    async def _prune(self, asked: Asked, place: Place) -> None:
        """Forget the sessions of requests that name no conversation, all but the newest."""
        if asked.user or not place.lone:
            return
        self._passed += 1
        if self._passed % PRUNE_EVERY:
            return
        try:
            store, loaded = self._gateway.store, self._gateway.loaded
            gone = await store.prune_sessions(lone_keys(loaded, CHAT), KEEP_LONE)
            # Whoever follows a response that is still known finds its session.
            gone += await store.prune_sessions(lone_keys(loaded, RESPONSES), MAX_RESPONSES)
        except StoreError as error:
            log.warning("sessions.not_pruned", reason=str(error))
            return
        log.info("sessions.pruned", sessions=gone)

    def _place(self, request: web.Request, asked: Asked, prefix: str) -> Place:
        loaded = self._gateway.loaded
        wanted = named_agent(asked.model)
        if wanted is None:
            raise ApiError(400, INVALID_MODEL)
        wanted = request.headers.get("x-openclaw-agent-id", "").strip() or wanted
        agent = optional_agent_id(wanted) if wanted else default_agent(loaded)
        if agent not in loaded.config.agents.members():
            raise ApiError(400, f"Unknown agent '{wanted[:MAX_USER]}'.")
        key = request.headers.get("x-openclaw-session-key", "").strip()
        if key:
            return place_of_key(loaded, key, agent)
        if asked.previous:
            before = self._responses.get(asked.previous)
            if before is None:
                raise ApiError(400, f"Previous response with id '{asked.previous}' not found.")
            return before
        if asked.user:
            return Place(agent, f"agent:{agent}:{prefix}-user:{user_part(asked.user)}", passing=False)
        return Place(agent, f"agent:{agent}:{prefix}:{new_id()}", passing=prefix == CHAT.name, lone=True)

    def _remember(self, response: str, place: Place) -> None:
        self._responses[response] = place
        while len(self._responses) > MAX_RESPONSES:
            self._responses.popitem(last=False)

    async def _say(self, place: Place, asked: Asked, message_id: str, pictures: tuple[Attachment, ...]) -> None:
        """Make the message durable in its session; a session that knows nothing yet is told what was said before."""
        gateway = self._gateway
        text = asked.opening if await self._begin(place, asked) else asked.text
        if len(text) > MAX_TEXT:
            raise ApiError(400, f"The message is longer than {MAX_TEXT} characters.")
        event = MessageEvent(
            address_of(place.key),
            Peer(PeerKind.DIRECT, PERSON),
            Sender(PERSON),
            message_id,
            text,
            received_at=gateway.clock.now(),
            attachments=pictures,
        )
        appended = await gateway.inbound.receive_for(event, place.key, place.agent, commands=False)
        if appended.status is AppendStatus.REFUSED:
            raise ApiError(429, "Too many messages wait in this session.", "rate_limit_error")

    async def _begin(self, place: Place, asked: Asked) -> bool:
        store = self._gateway.store
        if not place.passing:
            known = await store.session(place.key)
            if known is not None and (known.messages or known.waiting or known.running):
                return False
        for message in asked.context:
            if await store.add_message(place.key, encode_message(message), place.agent) is None:
                return False
        return True


async def take_pictures(blobs: BlobStore, urls: Sequence[str]) -> tuple[Attachment, ...]:
    """Return pictures as attachments, stored. Raises ApiError for what is none that a model takes."""
    found = []
    for number, url in enumerate(urls, start=1):
        head, _, data = url.partition(",")
        try:
            if not head.endswith(";base64"):
                raise RpcError(Code.INVALID_REQUEST, f"picture {number}: must be base64")
            content = await asyncio.to_thread(decode_base64, data, f"picture {number}")
            if not image_type(content):
                raise RpcError(Code.INVALID_REQUEST, f"picture {number}: is no PNG, JPEG, GIF or WebP")
            found.append(await store_file(blobs, f"picture-{number}", "", content))
        except RpcError as error:
            raise ApiError(400, error.message) from error
    return tuple(found)


def backend_model(named: str) -> str:
    """Return the model that `x-openclaw-model` asks for; empty for none. Raises ApiError for what cannot be one."""
    named = named.strip()
    provider, slash, model = named.partition("/")
    if named and not (slash and provider and model and len(named) <= MAX_MODEL):
        raise ApiError(400, "Invalid `x-openclaw-model`. Use `<provider>/<model>`.")
    return named


def user_part(user: str) -> str:
    """Return `user` as keys write it: as it is when it is plain, else made plain, with a mark that keeps it unique."""
    if _PLAIN_USER.fullmatch(user):
        return user
    readable = _NOT_PLAIN.sub("-", user.lower()).strip("-")[:40] or "user"
    return f"{readable}-{hashlib.blake2b(user.encode(), digest_size=6).hexdigest()}"
