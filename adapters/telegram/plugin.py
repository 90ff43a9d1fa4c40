"""Telegram as the registry sees it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidegate.adapters.base import API_VERSION, Adapter, AdapterHooks
from tidegate.adapters.registry import AccountSpec, AdapterServices
from tidegate.adapters.telegram.adapter import TelegramAdapter
from tidegate.adapters.telegram.render import render_for
from tidegate.adapters.telegram.settings import CHANNEL, Settings, fingerprint, read_settings
from tidegate.config.load import Loaded


class TelegramPlugin:
    """Makes an account of each enabled bot."""

    api_version = API_VERSION

    def accounts(self, loaded: Loaded, services: AdapterServices) -> Sequence[AccountSpec]:
        """Return the enabled bots."""
        configured = loaded.config.channels.telegram
        if configured is None:
            return ()
        specs = []
        for account, options in configured.account_options().items():
            if not options.enabled:
                continue
            settings = read_settings(account, options, loaded)
            specs.append(
                AccountSpec(
                    CHANNEL,
                    account,
                    partial(_build, settings, services),
                    partial(render_for, settings),
                    fingerprint(settings, options, loaded.environment),
                )
            )
        return specs


def _build(settings: Settings, services: AdapterServices, hooks: AdapterHooks) -> Adapter:
    return TelegramAdapter(settings, services.http, services.clock, hooks)


plugin = TelegramPlugin()
