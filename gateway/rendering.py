"""How each account splits and marks up text; known without a connection, so a reply can always be stored."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.adapters.base import TextPart
from tidegate.adapters.registry import AccountSpec, Renderer
from tidegate.adapters.terminal.adapter import ACCOUNT, CHANNEL
from tidegate.adapters.terminal.adapter import render as render_terminal
from tidegate.events import Address


class Renderers:
    """The renderers of all configured accounts."""

    def __init__(self) -> None:
        self._renderers: dict[tuple[str, str], Renderer] = {(CHANNEL, ACCOUNT): render_terminal}

    def use(self, specs: Sequence[AccountSpec]) -> None:
        """Take the accounts of a configuration. Earlier ones stay: replies to them may still be under way."""
        for spec in specs:
            self._renderers[spec.channel, spec.account] = spec.render

    def knows(self, channel: str, account: str) -> bool:
        """Tell whether an account is configured."""
        return (channel, account) in self._renderers

    def names(self) -> list[str]:
        """Return `channel/account` of every configured account."""
        return sorted(f"{channel}/{account}" for channel, account in self._renderers)

    def render(self, address: Address, markdown: str) -> tuple[TextPart, ...]:
        """Split a text for the platform of an address; as it is where the account is not known."""
        renderer = self._renderers.get((address.channel, address.account), render_terminal)
        return renderer(markdown)
