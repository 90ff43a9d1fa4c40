"""From what a gateway, a proxy or the network says to an error that tells a person what to do."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp
from aiohttp.client_exceptions import UnixClientConnectorError

from tidegate.gateway.client.errors import (
    ClientError,
    Denied,
    Forbidden,
    NotAGateway,
    NotPaired,
    OtherProtocol,
    RateLimited,
    Refused,
    TlsFailed,
    TurnedDown,
    Unreachable,
    WrongSecret,
)
from tidegate.gateway.program import NAME, hint

_SECRETS = {
    "AUTH_TOKEN_MISSING": "this gateway wants its token: set TIDEGATE_GATEWAY_TOKEN or name a file with --token-file "
    "(on its machine it is in <state>/gateway.token)",
    "AUTH_PASSWORD_MISSING": "this gateway wants its password: set TIDEGATE_GATEWAY_PASSWORD or name a file with "
    "--password-file",
    "AUTH_TOKEN_MISMATCH": "the token is not this gateway's; on its machine it is in <state>/gateway.token",
    "AUTH_PASSWORD_MISMATCH": "the password is not this gateway's",
    "AUTH_DEVICE_TOKEN_MISMATCH": "the token of this device is not valid there any more, it was revoked or replaced: "
    "run this again, with the gateway's token once more (TIDEGATE_GATEWAY_TOKEN or --token-file)",
}


def denied(error: Mapping[str, Any], name: str) -> ClientError:
    """Return the error for a handshake that was refused.

    Args:
        name: What people call the gateway.
    """
    found = error.get("details")
    details: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    code, text = str(details.get("code", "")), str(error.get("message", "it gave no reason"))
    if code == "PAIRING_REQUIRED":
        return _not_paired(details)
    if code == "PAIRING_REJECTED":
        return TurnedDown(f"{name}: what this device asked for was turned down; run this again to ask once more", code)
    if code == "AUTH_RATE_LIMITED":
        seconds = _number(error.get("retryAfterMs")) / 1000
        return RateLimited(f"{name}: too many wrong secrets came from here; try again in {_span(seconds)}", seconds)
    if code == "PROTOCOL_MISMATCH":
        theirs = details.get("expectedProtocol", "another version")
        return OtherProtocol(f"{name} speaks protocol {theirs}, this program 4: use the same version on both", code)
    if code in _SECRETS:
        return WrongSecret(
            f"{name}: {_SECRETS[code]}",
            code,
            is_device_token=code == "AUTH_DEVICE_TOKEN_MISMATCH",
            try_device_token=details.get("canRetryWithDeviceToken") is True,
        )
    if code == "AUTH_SCOPE_MISMATCH":
        return Denied(f"{name}: this device asks for more than it was given: {text}", code)
    if code == "DEVICE_AUTH_SIGNATURE_EXPIRED":
        return Denied(f"{name}: the clocks of this machine and the gateway differ by more than two minutes", code)
    if error.get("code") == "UNAVAILABLE":
        return Unreachable(f"{name} cannot take connections now: {text}; try again")
    return Denied(f"{name} does not let this device in: {text}", code)


def _not_paired(details: Mapping[str, Any]) -> NotPaired:
    request, reason = str(details.get("requestId", "")), str(details.get("reason", ""))
    asked = details.get("requestedScopes")
    scopes = ", ".join(_short(scope) for scope in asked) if isinstance(asked, list) else ""
    what = {
        "scope-upgrade": f"this device asks for more rights ({scopes})",
        "role-upgrade": "this device asks to come in again",
        "metadata-upgrade": "this device changed and has to be approved again",
    }.get(reason, f"this device is new there and asks for: {scopes}")
    return NotPaired(what, request, reason, approval(request))


def approval(request: str) -> str:
    """Return the command that approves a request on the gateway's machine."""
    return f"{NAME} devices approve {request}"


def _short(scope: Any) -> str:
    return str(scope).removeprefix("operator.")


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else 0.0


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(1, round(seconds))} s"


def refused(error: Any) -> Refused:
    """Return the error for a request that was answered with one."""
    if not isinstance(error, Mapping):
        return Refused("the gateway refused without a reason")
    found = error.get("details")
    details: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    text = str(error.get("message", "")).removeprefix("Error: ") or "the gateway refused without a reason"
    if details.get("code") == "MISSING_SCOPE":
        scope = str(details.get("missingScope", ""))
        return Forbidden(f"this device may not do that: it does not hold {scope}", scope)
    return Refused(text, str(error.get("code", "")), details)


def unreachable(error: BaseException, name: str, host: str) -> ClientError:
    """Return the error for a connection that could not be made."""
    if isinstance(error, aiohttp.WSServerHandshakeError):
        return _no_socket(error, name)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        return TlsFailed(f"the certificate of {host} was not accepted: {reason}; SSL_CERT_FILE names a CA of your own")
    if isinstance(error, aiohttp.ClientConnectorSSLError | ssl.SSLError):
        return TlsFailed(f"no TLS with {name}: perhaps this port speaks plain ws://")
    if isinstance(error, aiohttp.ClientConnectorDNSError | socket.gaierror):
        return Unreachable(f"the name {host} leads nowhere; check --url")
    if isinstance(error, TimeoutError):
        return Unreachable(f"{name} does not answer; check --url, the network and firewalls")
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(error, UnixClientConnectorError):
        if isinstance(cause, ConnectionRefusedError | FileNotFoundError):
            return Unreachable(f"no gateway runs here; start one with {hint('up')} or {hint('gateway run')}")
        return Unreachable(f"the gateway on this machine cannot be reached: {cause}")
    if isinstance(cause, ConnectionRefusedError):
        return Unreachable(f"no gateway answers on {name}: start it there ({hint('up')}) or check --url")
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientResponseError | ValueError):
        return NotAGateway(f"what answers on {name} is no gateway; check --url")
    text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return Unreachable(f"{name} cannot be reached: {text}; check --url")


def _no_socket(error: aiohttp.WSServerHandshakeError, name: str) -> ClientError:
    if error.status == 403:
        return Denied(f"{name} refuses that name for itself: name it in gateway.controlUi.allowedOrigins there")
    if error.status == 503:
        return Unreachable(f"{name} takes no more connections now; try again")
    if error.status in (502, 504):
        return Unreachable(f"a proxy answers on {name}, and no gateway behind it")
    return NotAGateway(f"what answers on {name} is no gateway (HTTP {error.status}); check --url")
