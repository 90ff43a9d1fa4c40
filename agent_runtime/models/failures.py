"""Turns what a provider's server answered into one of our errors. No server text gets into a message."""

from __future__ import annotations

import email.utils
import json
import re
from collections.abc import Mapping
from typing import Any

import aiohttp

from tidegate.errors import ContextTooLong, ModelError, ModelRefused, ModelUnavailable

MAX_RETRY_AFTER = 24 * 3600.0
"""Seconds; a longer wait is not believed."""

_OVERFLOW = re.compile(
    r"context[_ ](?:length|window|size|limit)[\w ]*(?:exceed|overflow)|exceed\w*[\w ]*context|maximum context"
    r"|prompt is too long|too many (?:input )?tokens|input (?:length|tokens?)[\w ]*exceed|input is too long"
    r"|exceeds? the (?:available|maximum|model'?s?) (?:context|number of tokens|input)|reduce the length"
    r"|maximum (?:prompt|input) (?:length|tokens)|larger than (?:the )?context|> ?context_window"
    r"|slot context|上下文长度|超过最大长度",
    re.I,
)
_BILLING = re.compile(
    r"insufficient[_ ](?:quota|credit|balance|funds)|out of credit|credit balance|billing|spending[_ ]limit"
    r"|key[_ ]limit[_ ]exceeded|payment required|exceeded your current quota",
    re.I,
)
_TEMPORARY = re.compile(r"try again|window|resets? (?:at|in)|per (?:minute|hour|day)|retry", re.I)
_NOT_FOUND = re.compile(
    r"model\w*[^.]{0,60}(?:not[_ ]found|not exist|unknown)|no endpoints|not a valid model|unknown model", re.I
)
_FILTERED = re.compile(r"content[_ ](?:filter|policy)|safety (?:system|policy)|usage polic", re.I)
_AUTH = re.compile(
    r"(?:invalid|incorrect|missing|expired)[\w ]*api[_ ]key|api[_ ]key not valid|unauthori[sz]ed|authentication", re.I
)
_RATE_LIMIT = re.compile(r"rate[_ -]?limit|too many requests", re.I)
_OVERLOADED = re.compile(r"overloaded|capacity|engine is busy", re.I)

_SAID = {
    "auth": "refused its key",
    "billing": "says that its account cannot be charged",
    "rate_limit": "limits requests",
    "overloaded": "is overloaded",
    "timeout": "did not answer in time",
    "network": "cannot be reached",
    "server": "had an internal problem",
    "not_found": "knows no such model",
    "format": "answered in a way that cannot be used",
    "empty": "gave no answer",
    "context_overflow": "says that the conversation is too long",
    "refused": "declined to answer",
}
"""What a provider did, in the words of a sentence about it; for the operator, in logs and in the owner's chats."""


def failure_of_status(provider: str, status: int, headers: Mapping[str, str], body: bytes, now: float) -> ModelError:
    """Return the error that an HTTP answer means.

    Args:
        now: Seconds since 1970 UTC, for a Retry-After that is a date (RFC 9110, 10.2.3).
    """
    text = _error_text(body)
    kind = _kind(status, text)
    return failure_of_kind(provider, kind, f"HTTP {status}", _retry_after(headers, now))


def failure_of_event(provider: str, error: Any) -> ModelError:
    """Return the error that an `error` object inside a stream means."""
    status = error.get("code") if isinstance(error, dict) else None
    text = json.dumps(error)[:4000]
    number = int(status) if isinstance(status, int | str) and str(status).isdecimal() else 500
    return failure_of_kind(provider, _kind(number, text), "an error inside the stream", None)


def unreachable(provider: str, error: Exception) -> ModelError:
    """Return the error of a server that could not be reached, with the address where nobody answered."""
    what = type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        what = f"the certificate of {error.host} is not trusted"
    elif isinstance(error, aiohttp.ClientConnectorDNSError):
        what = f"the name {error.host} is not known"
    elif isinstance(error, aiohttp.ClientConnectorError):
        what = f"nobody answers at {error.host}:{error.port}"
    elif isinstance(error, aiohttp.ServerDisconnectedError):
        what = "it broke the connection off"
    return failure_of_kind(provider, "network", what)


def failure_of_kind(provider: str, kind: str, what: str, retry_after: float | None = None) -> ModelError:
    """Return the error of a failure class."""
    message = f"{provider} {_SAID.get(kind, kind)} ({what})"
    if kind == "context_overflow":
        return ContextTooLong(message)
    if kind in ("auth", "billing", "not_found", "format", "refused"):
        return ModelRefused(message, kind)
    return ModelUnavailable(message, kind, retry_after)


def _kind(status: int, text: str) -> str:
    """Return the failure class of a status and what the server wrote."""
    if status in (400, 413, 422, 500) and _OVERFLOW.search(text):
        return "context_overflow"
    if _BILLING.search(text) and status in (400, 401, 402, 403, 429):
        return "billing"
    if status == 402:
        return "rate_limit" if _TEMPORARY.search(text) else "billing"
    if status == 429 and _OVERLOADED.search(text):
        return "overloaded"
    if (
        status == 429
        or (status in (400, 422) and _RATE_LIMIT.search(text))
        or (status >= 500 and _RATE_LIMIT.search(text))
    ):
        return "rate_limit"
    if status in (503, 529) or (status >= 500 and _OVERLOADED.search(text)):
        return "overloaded"
    if status in (408, 504, 524):
        return "timeout"
    if status >= 500 or 300 <= status < 400:
        return "server"
    if status in (401, 403):
        return "refused" if _FILTERED.search(text) else "auth"
    if status == 404 or _NOT_FOUND.search(text):
        return "not_found"
    if _FILTERED.search(text):
        return "refused"
    return "auth" if _AUTH.search(text) else "format"


def _error_text(body: bytes) -> str:
    return body[:16_000].decode("utf-8", "replace")


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the wait a server asked for, in seconds."""
    millis = headers.get("retry-after-ms", "")
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(millis) / 1000 if millis else float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - now
        except ValueError:
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER) if seconds == seconds else None
