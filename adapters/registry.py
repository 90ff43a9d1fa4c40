"""Finds the adapters that a configuration asks for, and loads no others."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol, cast

import aiohttp

from tidegate.adapters.base import API_VERSION, Adapter, AdapterHooks, TextPart
from tidegate.clock import Clock
from tidegate.config.load import Loaded
from tidegate.errors import ConfigError

BUILT_IN = {"telegram": "tidegate.adapters.telegram.plugin"}
"""Channels that come with Tidegate, by the module that holds their `plugin`."""
GROUP = "tidegate.adapters"
"""The entry point group of channels that others bring."""

Renderer = Callable[[str], tuple[TextPart, ...]]
"""Splits a Markdown text into parts that each fit one message."""


@dataclass(frozen=True, slots=True)
class AdapterServices:
    """What an adapter may use.

    Attributes:
        http: Shared with the rest of the gateway; an adapter never closes it.
        state_dir: Where an adapter may keep files of its own, in a folder with its channel's name.
    """

    http: aiohttp.ClientSession
    clock: Clock
    state_dir: Path


@dataclass(frozen=True, slots=True)
class AccountSpec:
    """One configured account.

    Attributes:
        build: Makes the adapter, not connected. Raises ConfigError for a secret that cannot be had.
        render: Works without a connection, so that a reply can be stored while the platform is down.
        fingerprint: Changes when the account has to be connected anew after a reload.
    """

    channel: str
    account: str
    build: Callable[[AdapterHooks], Adapter]
    render: Renderer
    fingerprint: str


class Plugin(Protocol):
    """A channel, as its package offers it."""

    api_version: int

    def accounts(self, loaded: Loaded, services: AdapterServices) -> Sequence[AccountSpec]:
        """Return the enabled accounts that the configuration asks for. Connects nothing."""
        ...


def configured_accounts(loaded: Loaded, services: AdapterServices) -> list[AccountSpec]:
    """Return every enabled account of every channel that the configuration names.

    Raises:
        ConfigError: A channel's plugin was made for another version of this interface.
    """
    named = loaded.config.raw.get("channels", {})
    specs: list[AccountSpec] = []
    for channel in named if isinstance(named, dict) else ():
        plugin = _plugin(str(channel))
        if plugin is not None:
            specs.extend(plugin.accounts(loaded, services))
    return specs


def _plugin(channel: str) -> Plugin | None:
    module = BUILT_IN.get(channel)
    if module is not None:
        found = importlib.import_module(module).plugin
    else:
        offered = [entry for entry in entry_points(group=GROUP) if entry.name == channel]
        if not offered:
            return None
        found = offered[0].load()
    if getattr(found, "api_version", None) != API_VERSION:
        raise ConfigError(
            f"channels.{channel}: its plugin speaks version {getattr(found, 'api_version', None)} of the adapter "
            f"interface, this gateway speaks {API_VERSION}. Install matching versions."
        )
    return cast("Plugin", found)
