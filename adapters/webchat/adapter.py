"""Hands answers to the control plane. It is always connected: the plane keeps what was said in the transcript."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Self

from tidegate.adapters.base import AdapterHooks, Capabilities, EventBatch, Outbound, TextPart
from tidegate.events import Address

CHANNEL = "webchat"
ACCOUNT = "default"
PERSON = "operator"
MAX_TEXT = 1_000_000
ALIVE_SECONDS = 30.0
SEEN_TOKENS = 1_000
"""Parts handed over, remembered so that a repeat is not shown again."""

Show = Callable[[Outbound], None]
"""Takes one part; returns at once."""


def address_of(session_key: str) -> Address:
    """Return where clients that talk into a session get their answers, whichever connection they use."""
    return Address(CHANNEL, ACCOUNT, session_key)


class WebchatAdapter:
    """The adapter. Messages do not come through it: the plane stores them itself, with their session."""

    channel = CHANNEL
    account = ACCOUNT
    username = ""
    capabilities = Capabilities(max_text=MAX_TEXT, idempotent_send=True)

    def __init__(self, show: Show, hooks: AdapterHooks) -> None:
        self._show = show
        self._hooks = hooks
        self._seen: deque[str] = deque(maxlen=SEEN_TOKENS)

    async def __aenter__(self) -> Self:
        """Nothing to connect."""
        self._hooks.alive()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing to disconnect."""

    async def events(self, cursor: str | None) -> AsyncGenerator[EventBatch, None]:
        """Yield nothing, and stay alive."""
        del cursor
        while True:
            await asyncio.sleep(ALIVE_SECONDS)
            self._hooks.alive()
            yield EventBatch([])

    def render(self, markdown: str) -> Sequence[TextPart]:
        """Return the text as it is; clients render Markdown themselves."""
        return render(markdown)

    async def send(self, part: Outbound) -> str:
        """Hand a part over, once."""
        if part.token not in self._seen:
            self._seen.append(part.token)
            self._show(part)
        return part.token


def render(markdown: str) -> tuple[TextPart, ...]:
    """Return a text as one part; nothing for an empty one."""
    return (TextPart(markdown, markdown),) if markdown.strip() else ()
