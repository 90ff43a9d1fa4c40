"""What one bot needs of the configuration."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate.config.load import Loaded
from tidegate.config.secrets import read_private_file
from tidegate.config.sections.base import SecretRef
from tidegate.config.sections.telegram import DEFAULT_ACCOUNT, TelegramAccount
from tidegate.errors import ConfigError

CHANNEL = "telegram"
TOKEN_VARIABLE = "TELEGRAM_BOT_TOKEN"
"""Holds the token of the account `default` when the configuration names none."""
MAX_TOKEN_FILE = 4096


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Where updates are pushed to.

    Attributes:
        secret: Returns what pushed updates must carry; may take seconds.
        certificate: Given to Telegram when it is self-signed.
    """

    url: str
    secret: Callable[[], str]
    path: str
    host: str
    port: int
    certificate: Path | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """One bot.

    Attributes:
        token: Returns the token; reads files or runs a command, so it may take seconds. Raises ConfigError.
        text_limit: Longest text of one message, in UTF-16 units.
        tables: How tables are shown: block, code, bullets or off.
        chunk_mode: Where long texts are cut: `length` or `newline` (at paragraphs).
        own_server: A Bot API server of our own, which hands out and takes files up to 2 GB.
        hears_reactions: Reactions are asked for.
    """

    account: str
    token: Callable[[], str]
    api_root: str
    proxy: str | None = None
    text_limit: int = 4000
    tables: str = "block"
    chunk_mode: str = "length"
    link_preview: bool = True
    own_server: bool = False
    file_roots: tuple[Path, ...] = ()
    hears_reactions: bool = True
    webhook: WebhookSettings | None = None


def read_settings(account: str, options: TelegramAccount, loaded: Loaded) -> Settings:
    """Return what one bot needs; secrets are only looked up when asked for."""
    return Settings(
        account=account,
        token=lambda: _token(account, options, loaded),
        api_root=options.api_root,
        proxy=options.proxy,
        text_limit=options.text_chunk_limit,
        tables=options.markdown.tables,
        chunk_mode=str(getattr(options.streaming, "chunk_mode", "length")),
        link_preview=options.link_preview,
        own_server=bool(options.trusted_local_file_roots),
        file_roots=tuple(Path(root).expanduser() for root in options.trusted_local_file_roots),
        hears_reactions=options.reaction_notifications != "off",
        webhook=_webhook(account, options, loaded),
    )


def fingerprint(settings: Settings, options: TelegramAccount, environment: Mapping[str, str]) -> str:
    """Return a digest of everything that needs a new connection when it changes. No secret can be read from it."""
    hook = settings.webhook
    matters = {
        "token": _spelled(options.bot_token),
        "variable": environment.get(TOKEN_VARIABLE) if settings.account == DEFAULT_ACCOUNT else None,
        "token_file": options.token_file,
        "api_root": settings.api_root,
        "proxy": settings.proxy,
        "text": [settings.text_limit, settings.tables, settings.chunk_mode, settings.link_preview],
        "files": [str(root) for root in settings.file_roots],
        "reactions": settings.hears_reactions,
        "webhook": [hook.url, hook.path, hook.host, hook.port, str(hook.certificate)] if hook else None,
        "webhook_secret": _spelled(options.webhook_secret),
    }
    return hashlib.sha256(json.dumps(matters, sort_keys=True).encode()).hexdigest()[:16]


def _webhook(account: str, options: TelegramAccount, loaded: Loaded) -> WebhookSettings | None:
    if not options.webhook_url:
        return None

    def secret() -> str:
        if options.webhook_secret is None:
            raise ConfigError(
                f"channels.telegram ({account}): webhookUrl needs webhookSecret, so that nobody else can post updates. "
                "Set it to a random text of 1-256 letters, digits, _ and -."
            )
        return loaded.secrets.resolve_secret(options.webhook_secret)

    certificate = Path(options.webhook_cert_path).expanduser() if options.webhook_cert_path else None
    return WebhookSettings(
        options.webhook_url, secret, options.webhook_path, options.webhook_host, options.webhook_port, certificate
    )


def _token(account: str, options: TelegramAccount, loaded: Loaded) -> str:
    try:
        if options.bot_token is not None:
            found = loaded.secrets.resolve_secret(options.bot_token)
        elif options.token_file is not None:
            found = read_private_file(Path(options.token_file).expanduser(), MAX_TOKEN_FILE)
        elif account == DEFAULT_ACCOUNT:
            found = loaded.environment.get(TOKEN_VARIABLE, "")
        else:
            found = ""
    except ConfigError as error:
        raise ConfigError(f"channels.telegram ({account}): no bot token: {error}") from error
    found = found.strip()
    if not found:
        raise ConfigError(
            f"channels.telegram ({account}): no bot token. Get one from @BotFather and set botToken or tokenFile"
            + (f", or the variable {TOKEN_VARIABLE}." if account == DEFAULT_ACCOUNT else ".")
        )
    if ":" not in found or any(sign.isspace() or sign == "/" for sign in found):
        raise ConfigError(f"channels.telegram ({account}): the bot token is not of the form <number>:<letters>.")
    return found


def _spelled(secret: str | SecretRef | None) -> str | None:
    return secret if isinstance(secret, str) or secret is None else secret.model_dump_json()
