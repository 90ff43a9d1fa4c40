"""Connecting again and again: what is worth another try, and how long to wait before it."""

from __future__ import annotations

import random

from tidegate.gateway.client.errors import ClientError, NotAGateway, NotPaired, RateLimited, TlsFailed, Unreachable

FIRST_SECONDS, MOST_SECONDS = 0.25, 10.0
PAIRING_SECONDS = 3.0
"""Between two looks whether somebody has let us in."""


class Patience:
    """How long to wait before the next attempt: longer each time, never in step with others."""

    def __init__(self, *, waits_for_pairing: bool = False) -> None:
        self._failures = 0
        self._waits_for_pairing = waits_for_pairing

    def reset(self) -> None:
        """Begin anew, after an attempt that went well."""
        self._failures = 0

    def seconds(self, error: ClientError) -> float | None:
        """Return how long to wait after a failure; None when only a person can help."""
        if isinstance(error, RateLimited):
            return max(1.0, error.seconds)
        if isinstance(error, NotPaired):
            return PAIRING_SECONDS if self._waits_for_pairing else None
        if not isinstance(error, Unreachable) or isinstance(error, NotAGateway | TlsFailed):
            return None
        self._failures += 1
        longest = min(MOST_SECONDS, FIRST_SECONDS * 2 ** min(self._failures, 8))
        return random.uniform(FIRST_SECONDS, longest)
