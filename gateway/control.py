"""What the command line can ask and do, as plain methods over plain data; the control plane says who may."""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from tidegate import __version__
from tidegate.adapters.base import Poll
from tidegate.agent_runtime.transcript import decode_message
from tidegate.clock import SECOND, Clock
from tidegate.config.sections.channels import AVAILABLE_CHANNELS
from tidegate.events import Address
from tidegate.gateway import replies
from tidegate.gateway.connections import Connections, ConnectionState
from tidegate.gateway.parts import edit_draft, poll_draft, text_drafts
from tidegate.gateway.people import People
from tidegate.gateway.plane.methods.endings import told_of
from tidegate.gateway.program import hint
from tidegate.gateway.rendering import Renderers
from tidegate.routing.keys import parse as parse_key
from tidegate.sessions.devices import RequestKey
from tidegate.sessions.model import Delivery, DeliveryKind, DeliveryState, Draft, SessionSummary
from tidegate.sessions.store import Store
from tidegate.sessions.wakeups import LANES, Wakeups

MAX_LISTED = 1000
"""Sessions that one answer lists."""
TROUBLE_STATES = (DeliveryState.UNKNOWN, DeliveryState.DEAD, DeliveryState.EXPIRED)
RECENT_TROUBLE = 24 * 3600 * SECOND
"""Microseconds for which `status` goes on showing parts that did not certainly arrive."""
_CHATS: Mapping[str, tuple[re.Pattern[str], str]] = {
    "telegram": (re.compile(r"-?[0-9]+|@[A-Za-z][A-Za-z0-9_]{3,}"), "a number, or @name for a public group or channel"),
}
"""What the chats of a platform look like (https://core.telegram.org/bots/api#sendmessage)."""


class Control:
    """The methods. Works with a running gateway, and with a bare store when none runs."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        wakeups: Wakeups,
        people: People,
        connections: Connections,
        renderers: Renderers,
        *,
        facts: Callable[[], Mapping[str, Any]] = dict,
        may_own: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store = store
        self._clock = clock
        self._wakeups = wakeups
        self._people = people
        self._connections = connections
        self._renderers = renderers
        self._facts = facts
        self._may_own = may_own
        self._reload: Callable[[], Awaitable[Mapping[str, Any]]] | None = None

    def use_reload(self, reload: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        """Take what reads the configuration again; only a running gateway has it."""
        self._reload = reload

    async def status(self) -> dict[str, Any]:
        """Return how the gateway stands."""
        totals = await self._store.totals()
        troubled = await self._store.troubled(20)
        recent = await self._store.deliveries(TROUBLE_STATES, self._clock.now() - RECENT_TROUBLE, 20)
        return {
            "version": __version__,
            "now": self._clock.now(),
            **self._facts(),
            "connections": [
                {
                    "channel": row.channel,
                    "account": row.account,
                    "state": row.state.value,
                    "reason": row.reason,
                    "alive_at": row.alive_at,
                    "received": row.received,
                }
                for row in self._connections.all()
            ],
            "sessions": {"total": totals.sessions, "running": totals.running, "waiting": totals.waiting},
            "events": {"stored": totals.stored, **totals.events},
            "deliveries": dict(totals.deliveries),
            "troubled": [_part(part) for part in troubled],
            "recent_trouble": [_part(part) for part in recent],
            "store": dict(self._store.statistics()),
            "asking": await self._asking(),
        }

    async def _asking(self) -> list[dict[str, Any]]:
        """Return the devices that wait to be let in."""
        return [
            {
                "request": row.id,
                "device": row.device,
                "name": row.about.label or row.about.name or row.about.client_id,
                "role": row.role,
                "scopes": list(row.scopes),
            }
            for row in await self._store.device_requests()
        ]

    async def concerns(self) -> dict[str, Any]:
        """Return what a person who just came should know: notes, and what only a person can help."""
        down = (ConnectionState.STOPPED, ConnectionState.CONFLICT)
        return {
            "notes": list(self._facts().get("notes", ())),
            "connections": [
                {"channel": row.channel, "account": row.account, "state": row.state.value, "reason": row.reason}
                for row in self._connections.all()
                if row.state in down
            ],
            "asking": await self._asking(),
        }

    async def sessions_list(self, limit: int = 50) -> list[dict[str, Any]]:
        """Return the sessions, the most recently used first."""
        return [
            {
                "key": row.key,
                "agent": row.agent,
                "title": await self._title(row),
                "conversation": row.conversation,
                "running": row.running,
                "waiting": row.waiting,
                "messages": row.messages,
                "started_at": row.started_at,
                "touched_at": row.touched_at,
                "settings": dict(row.settings),
            }
            for row in await self._store.sessions(max(1, min(int(limit), MAX_LISTED)))
        ]

    async def _title(self, row: SessionSummary) -> str:
        """Return the name that somebody gave a session, else what its conversation began with."""
        given = row.settings.get("label") or row.settings.get("displayName")
        if given or not row.messages:
            return str(given or "")
        conversations = await self._store.conversations(row.key, 1)
        return conversations[0].title if conversations else ""

    async def _session(self, name: str) -> SessionSummary:
        """Return a session by its key, or by what stands behind the agent in it. Raises ValueError."""
        row = await self._store.session(name)
        if row is None and not name.lower().startswith("agent:"):
            agents = {known.agent for known in await self._store.sessions(MAX_LISTED)}
            keys = {str(key) for agent in agents if (key := parse_key(f"agent:{agent}:{name}")) is not None}
            found = [session for key in sorted(keys) if (session := await self._store.session(key)) is not None]
            if len(found) > 1:
                raise ValueError(f"more than one agent has {name!r}: name {' or '.join(row.key for row in found)}")
            row = found[0] if found else None
        if row is None:
            raise ValueError(f"there is no session {name!r}; {hint('sessions list')} names them")
        return row

    async def sessions_show(self, key: str, conversation: str = "", limit: int = 50) -> dict[str, Any]:
        """Return one session with its conversations and the last messages of one of them (the current one)."""
        row = await self._session(key)
        chosen = conversation or row.conversation
        lines = await self._store.lines(chosen, max(1, min(int(limit), 1000))) if chosen else []
        decoded = [(line, decode_message(line.body)) for line in lines]
        return {
            "key": row.key,
            "agent": row.agent,
            "conversation": chosen,
            "running": row.running,
            "waiting": row.waiting,
            "conversations": [
                {
                    "id": item.id,
                    "title": item.title,
                    "messages": item.messages,
                    "started_at": item.started_at,
                    "ended_at": item.ended_at,
                    "end_reason": item.end_reason,
                }
                for item in await self._store.conversations(row.key, 50)
            ],
            "messages": [
                {
                    "seq": line.seq,
                    "role": message.role.value,
                    "text": message.text,
                    "tools": [call.name for call in message.tool_calls],
                    "is_error": message.is_error,
                    "ended": line.ending.state.value if line.ending is not None else "",
                    "told": told_of(line.ending) if line.ending is not None else "",
                }
                for line, message in decoded
            ],
        }

    async def deliveries_list(self, states: Sequence[str] = (), limit: int = 50) -> list[dict[str, Any]]:
        """Return outgoing parts in the given states (those in trouble when none is given), the newest first."""
        wanted = [DeliveryState(state) for state in states] or TROUBLE_STATES
        return [_part(part) for part in await self._store.deliveries(wanted, 0, max(1, min(int(limit), 1000)))]

    async def deliveries_show(self, id: int) -> dict[str, Any]:
        """Return one outgoing part with its text."""
        part = await self._store.delivery(int(id))
        if part is None:
            raise ValueError(f"there is no delivery {id}; {hint('deliveries list')} names those in trouble")
        text = part.payload.get("body", "")
        return {**_part(part), "text": text if isinstance(text, str) else ""}

    async def pairing_list(self, channel: str = "") -> list[dict[str, Any]]:
        """Return the pending pairing requests."""
        return [
            {
                "channel": row.channel,
                "account": row.account,
                "sender": row.sender,
                "name": row.name,
                "code": row.code,
                "expires_at": row.expires_at,
            }
            for row in await self._store.pairing_requests()
            if channel in ("", row.channel, f"{row.channel}/{row.account}")
        ]

    async def _has_asked(self, channel: str, code: str) -> bool:
        """Tell whether a request stands where a channel that names an account too says."""
        rows = await self.pairing_list(channel)
        return "/" not in channel or any(str(row["code"]).upper() == code.strip().upper() for row in rows)

    async def pairing_approve(self, channel: str, code: str, notify: bool = True) -> dict[str, Any]:
        """Admit somebody; the first one admitted on this machine becomes the owner where none is configured."""
        found = None
        if await self._has_asked(channel, code):
            found = await self._store.approve_pairing(_channel(channel), code, may_own=self._may_own())
        if found is None:
            raise _no_request(channel, code)
        request, address, owns = found
        await self._people.load()
        if notify:
            text = replies.PAIRED_OWNER if owns else replies.PAIRED
            await self._queue(address, text, DeliveryKind.NOTICE)
        return {"channel": request.channel, "sender": request.sender, "name": request.name, "owner": owns}

    async def pairing_reject(self, channel: str, code: str) -> dict[str, Any]:
        """Forget a request."""
        request = None
        if await self._has_asked(channel, code):
            request = await self._store.reject_pairing(_channel(channel), code)
        if request is None:
            raise _no_request(channel, code)
        return {"channel": request.channel, "sender": request.sender, "name": request.name}

    async def send(
        self, channel: str, to: str, text: str, account: str = "default", thread: str | None = None
    ) -> dict[str, Any]:
        """Put a message into the outbox."""
        ids = await self.text(self.address(channel, to, account, thread), text)
        return {"deliveries": ids, "parts": len(ids)}

    async def text(self, address: Address, text: str, once: RequestKey | None = None) -> list[int]:
        """Put a text into the outbox; with a key once, and a repeat returns the parts of the first time.

        Raises:
            ValueError: There is nothing to send, or the key stands for something else.
        """
        if not text.strip():
            raise ValueError("there is nothing to send")
        return await self._queue(address, text, DeliveryKind.SEND, once)

    def address(self, channel: str, to: str, account: str = "default", thread: str | None = None) -> Address:
        """Return a chat of a configured account. Raises ValueError, which says what is wrong."""
        if not self._renderers.knows(channel, account):
            raise ValueError(self._no_account(channel, account))
        shape = _CHATS.get(channel)
        if shape is not None and not shape[0].fullmatch(to):
            raise ValueError(f"{to!r} is no chat of {channel}: it is {shape[1]}")
        return Address(channel, account, to, thread)

    def _no_account(self, channel: str, account: str) -> str:
        names = self._renderers.names()
        known = ", ".join(names) or "none"
        channels = {name.partition("/")[0] for name in names} | AVAILABLE_CHANNELS
        if channel in channels:
            how = f"; {hint('doctor')} says what {channel} needs" if channel in AVAILABLE_CHANNELS else ""
            return f"{channel} account {account!r} is not configured; configured: {known}{how}"
        close = difflib.get_close_matches(channel.lower(), sorted(channels), n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ";"
        return f"there is no channel {channel!r}{meant} configured: {known}"

    async def edit(self, address: Address, message_id: str, text: str, once: RequestKey | None = None) -> list[int]:
        """Put the replacement of one of our messages into the outbox. Raises ValueError for what fits no message."""
        parts = self._renderers.render(address, text)
        if len(parts) != 1:
            raise ValueError("the text does not fit one message" if parts else "there is nothing to send")
        return await self._put([edit_draft(address, parts[0], message_id)], once)

    async def poll(self, address: Address, poll: Poll, once: RequestKey | None = None) -> list[int]:
        """Put a poll into the outbox."""
        return await self._put([poll_draft(address, poll)], once)

    async def reload(self) -> dict[str, Any]:
        """Read the configuration again."""
        if self._reload is None:
            raise ValueError("no gateway runs")
        return dict(await self._reload())

    async def is_busy(self, session: str, address: Address) -> bool:
        """Tell whether a session still works on something, or something is still on its way to an address."""
        row = await self._store.session(session) if session else None
        if row is not None and (row.running or row.waiting):
            return True
        if any(command.event.address == address for command in await self._store.pending_commands()):
            return True
        return address in await self._store.open_lanes(address.channel, address.account)

    async def _queue(
        self, address: Address, text: str, kind: DeliveryKind, once: RequestKey | None = None
    ) -> list[int]:
        return await self._put(text_drafts(address, self._renderers.render(address, text), kind=kind), once)

    async def _put(self, drafts: Sequence[Draft], once: RequestKey | None = None) -> list[int]:
        if once is None:
            ids: Sequence[int] | None = await self._store.add_deliveries(drafts)
        else:
            ids = await self._store.add_deliveries_once(once, drafts)
        if ids is None:
            raise ValueError("the idempotency key stands for a request that sent nothing; use another one")
        self._wakeups.announce(LANES, {draft.address for draft in drafts})
        return list(ids)


def _part(part: Delivery) -> dict[str, Any]:
    return {
        "id": part.id,
        "lane": str(part.address),
        "state": part.state.value,
        "reason": part.reason,
        "attempt": part.attempt,
        "created_at": part.created_at,
    }


def _channel(text: str) -> str:
    """Return the channel of `channel` or `channel/account`."""
    return text.partition("/")[0]


def _no_request(channel: str, code: str) -> ValueError:
    return ValueError(f"no pending request on {channel} has the code {code!r}; see {hint('pairing list')}")
