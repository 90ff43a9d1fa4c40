"""Who may come in: the shared secret of the gateway, checked in constant time, the same way for HTTP and WebSocket."""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tidegate.config.exposure import exposures
from tidegate.config.paths import format_path
from tidegate.config.sections.gateway import GatewaySection
from tidegate.errors import ConfigError
from tidegate.gateway.plane.contract import Code, RpcError
from tidegate.gateway.plane.limits import AttemptLimiter, AttemptRules, SecretKind
from tidegate.gateway.plane.peers import Network, Peer, parse_networks

Mode = Literal["none", "token", "password", "trusted-proxy"]
TOKEN_VARIABLE = "TIDEGATE_GATEWAY_TOKEN"
TOKEN_FILE = "gateway.token"
SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """What the configuration says about coming in; replaced as a whole when it changes.

    Attributes:
        secret: The token or password that `mode` asks for; empty in the other modes.
        user_header: In mode `trusted-proxy`: the header with the person's name.
        allow_users: Those people only; empty: all whom the proxy lets through.
        auto_approve_local: New devices on this machine that show the shared secret are paired at once.
    """

    mode: Mode
    secret: str = field(default="", repr=False)
    trusted_proxies: tuple[Network, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    bind_host: str = ""
    rules: AttemptRules = field(default_factory=AttemptRules)
    user_header: str = "x-forwarded-user"
    allow_users: tuple[str, ...] = ()
    auto_approve_local: bool = True


@dataclass(frozen=True, slots=True)
class Offered:
    """The secrets that a client shows."""

    token: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    device_token: str = field(default="", repr=False)
    bootstrap_token: str = field(default="", repr=False)

    @property
    def any(self) -> bool:
        """Whether there is one at all."""
        return bool(self.token or self.password or self.device_token or self.bootstrap_token)


def read_settings(config: GatewaySection, state_dir: Path, environ: Mapping[str, str]) -> AuthSettings:
    """Return the settings of a configuration; the token is made, and kept in the state directory, if there is none.

    Raises:
        ConfigError: The mode asks for a password and there is none, a proxy's address is not one, or the secret would
            cross a network in the clear.
    """
    check_exposure(config)
    mode = config.auth.effective_mode
    limit = config.auth.rate_limit
    return AuthSettings(
        mode,
        _secret(config, mode, state_dir, environ),
        parse_networks(config.trusted_proxies),
        tuple(config.control_ui.allowed_origins),
        config.custom_bind_host or "",
        AttemptRules(limit.max_attempts, limit.window_ms / 1000, limit.lockout_ms / 1000, limit.exempt_loopback),
        config.auth.trusted_proxy.user_header.lower(),
        tuple(config.auth.trusted_proxy.allow_users),
        config.nodes.pairing.auto_approve_local,
    )


def check_exposure(config: GatewaySection) -> None:
    """Refuse settings with which the gateway would stand open. Raises ConfigError, which says what to change."""
    for found in exposures(config):
        raise ConfigError(f"{format_path(found.path)}: {found.message} ({found.hint})")


def _secret(config: GatewaySection, mode: Mode, state_dir: Path, environ: Mapping[str, str]) -> str:
    if mode == "password":
        return str(config.auth.password)
    if mode != "token":
        return ""
    written = config.auth.token or environ.get(TOKEN_VARIABLE, "").strip()
    return str(written) if written else keep_secret(state_dir / TOKEN_FILE)


def keep_secret(path: Path) -> str:
    """Return the secret in a file that only this user can read; it is made when the file is not there."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        found = path.read_text(encoding="ascii").strip()
        if len(found) < SECRET_BYTES:
            raise ConfigError(f"{path}: holds no secret; delete it, a new one is made at the next start") from None
        path.chmod(0o600)
        return found
    made = secrets.token_urlsafe(SECRET_BYTES)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(made + "\n")
    return made


def same(one: str, other: str) -> bool:
    """Compare in a time that does not tell how much of it is right."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))


_TEXTS = {
    "token_mismatch": "gateway token mismatch (use this gateway's gateway.auth.token or pair the device)",
    "token_missing": "gateway token missing (send this gateway's gateway.auth.token)",
    "password_mismatch": "gateway password mismatch (use this gateway's gateway.auth.password)",
    "password_missing": "gateway password missing (send this gateway's gateway.auth.password)",
    "device_token_mismatch": "device token mismatch (rotate/reissue device token)",
    "scope_mismatch": "device token scope mismatch (re-pair or approve scope upgrade)",
    "bootstrap_token_invalid": "setup code is wrong, used or expired (make a new one)",
    "identity_header_required": "the proxy sent no identity (check gateway.auth.trustedProxy.userHeader)",
    "verified_user_required": "this person is not allowed (check gateway.auth.trustedProxy.allowUsers)",
    "unauthorized": "this gateway takes direct connections from its own machine only",
}
_CODES = {"unauthorized": "AUTH_UNAUTHORIZED"}


def unauthorized(reason: str, *, next_step: str = "update_auth_credentials", can_retry: bool = False) -> RpcError:
    """Return the refusal of a connection, with the codes that clients branch on."""
    return RpcError(
        Code.INVALID_REQUEST,
        f"unauthorized: {_TEXTS[reason]}",
        {
            "code": _CODES.get(reason, f"AUTH_{reason.upper()}"),
            "authReason": reason,
            "canRetryWithDeviceToken": can_retry,
            "recommendedNextStep": next_step,
        },
    )


def rate_limited(seconds: float) -> RpcError:
    """Return the refusal of an address that showed too many wrong secrets."""
    details = {
        "code": "AUTH_RATE_LIMITED",
        "authReason": "rate_limited",
        "canRetryWithDeviceToken": False,
        "recommendedNextStep": "wait_then_retry",
    }
    text = "unauthorized: too many failed authentication attempts (retry later)"
    return RpcError(Code.INVALID_REQUEST, text, details, retryable=True, retry_after_ms=max(1, int(seconds * 1000)))


class Doorkeeper:
    """Checks shared secrets against the present settings; there is no copy that could stay behind a reload."""

    def __init__(self, settings: AuthSettings, limiter: AttemptLimiter) -> None:
        self.settings = settings
        self.limiter = limiter

    def use(self, settings: AuthSettings) -> bool:
        """Go on with other settings; True when what was a valid proof may be none now."""
        changed = (settings.mode, settings.secret) != (self.settings.mode, self.settings.secret)
        self.settings = settings
        self.limiter.rules = settings.rules
        return changed

    async def check_not_locked(self, peer: Peer, kind: SecretKind) -> None:
        """Raise RpcError when this address showed too many wrong secrets of a kind."""
        await self.limiter.take_turn(peer.neighbourhood, kind)
        wait = self.limiter.seconds_locked(peer.neighbourhood, kind)
        if wait > 0:
            raise rate_limited(wait)

    def method_of(self, peer: Peer, offered: Offered, headers: Mapping[str, str]) -> str | None:
        """Return how the connection is authenticated (`token`, `password`, `none`, `trusted-proxy`), or None.

        Raises:
            RpcError: The mode decides alone and says no.
        """
        settings = self.settings
        if settings.mode == "none":
            if not peer.is_local:
                raise unauthorized("unauthorized")
            return "none"
        if settings.mode == "trusted-proxy":
            return self._by_proxy(peer, headers)
        first, second = offered.token, offered.password
        if settings.mode == "password":
            first, second = second, first
        # The secret may come in either field; when both are sent, the mode says which one counts.
        return settings.mode if settings.secret and same(first or second, settings.secret) else None

    def _by_proxy(self, peer: Peer, headers: Mapping[str, str]) -> str:
        settings = self.settings
        user = headers.get(settings.user_header, "").strip() if peer.proxied_by_trusted else ""
        if not user:
            raise unauthorized("identity_header_required", next_step="review_auth_configuration")
        if settings.allow_users and user not in settings.allow_users:
            raise unauthorized("verified_user_required", next_step="review_auth_configuration")
        return "trusted-proxy"

    async def check_http(self, peer: Peer, authorization: str | None, headers: Mapping[str, str]) -> str:
        """Return how an HTTP request is authenticated.

        Raises:
            RpcError: It is not, or the address is locked out.
        """
        await self.check_not_locked(peer, SecretKind.SHARED)
        scheme, _, value = (authorization or "").partition(" ")
        token = value.strip() if scheme.lower() == "bearer" else ""
        method = self.method_of(peer, Offered(token=token), headers)
        if method is not None:
            await self.limiter.succeeded(peer.neighbourhood, SecretKind.SHARED)
            return method
        if not token:
            raise unauthorized(f"{self.settings.mode}_missing")
        await self.limiter.failed(peer.neighbourhood, SecretKind.SHARED, is_local=peer.is_local)
        raise unauthorized(f"{self.settings.mode}_mismatch")
