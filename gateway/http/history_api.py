"""`/sessions/{key}/history`: what was said in a session, for programs that hold the token."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from aiohttp import web

from tidegate.config.load import Loaded
from tidegate.errors import StoreError
from tidegate.gateway.http.access import Access
from tidegate.gateway.http.headers import READ, add_route, json_answer
from tidegate.gateway.http.openai_api import default_agent, place_of_key
from tidegate.gateway.http.openai_wire import ApiError
from tidegate.gateway.plane.methods.rows import messages
from tidegate.sessions.store import Store

USUAL = 200
MOST = 1_000

log = structlog.get_logger("http")


class HistoryApi:
    """The route."""

    def __init__(self, access: Access, loaded: Callable[[], Loaded], store: Store) -> None:
        self._access = access
        self._loaded = loaded
        self._store = store

    def attach(self, app: web.Application) -> None:
        """Add the route."""
        add_route(app, "/sessions/{key}/history", self._serve, *READ)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        """Answer a request. A named boundary: whatever goes wrong is an answer."""
        try:
            await self._access.check(request)
            return json_answer(await self._history(request))
        except ApiError as error:
            return json_answer(error.body, status=error.status, headers=error.headers)
        except StoreError:
            log.exception("request.not_stored", path=request.path)
            return json_answer(ApiError(503, "the store cannot be used", "api_error").body, status=503)
        except Exception:
            log.exception("request.failed", path=request.path)
            return json_answer(ApiError(500, "internal error", "api_error").body, status=500)

    async def _history(self, request: web.Request) -> dict[str, object]:
        loaded = self._loaded()
        place = place_of_key(loaded, request.match_info["key"], default_agent(loaded))
        limit, before = _number(request, "limit", USUAL), _number(request, "cursor", 0)
        row = await self._store.session(place.key)
        if row is None:
            raise ApiError(404, f"Session not found: {place.key}", "not_found")
        lines = await self._store.lines(row.conversation, min(limit, MOST), before) if row.conversation else ()
        shown = messages(lines, row.started_at // 1000, row.conversation)
        answer: dict[str, object] = {"sessionKey": place.key, "items": shown, "messages": shown}
        has_more = bool(lines) and lines[0].seq > 1
        return {**answer, "hasMore": has_more, **({"nextCursor": str(lines[0].seq)} if has_more else {})}


def _number(request: web.Request, name: str, otherwise: int) -> int:
    given = request.query.get(name)
    if given is None:
        return otherwise
    if not given.isascii() or not given.isdecimal() or not 0 < int(given) < 1 << 53:
        raise ApiError(400, f"{name}: must be a whole number above 0")
    return int(given)
