"""Asks models in order until one answers, and remembers who was out of order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tidegate.agent_runtime.models.base import ModelProvider, ModelReply, ModelRequest, OnText
from tidegate.clock import SECOND, Clock
from tidegate.errors import ModelError, ModelRefused, ModelUnavailable

RETRY_BUDGET = 90.0
"""Seconds after which a request waits for nothing and repeats nothing; untried models are still asked."""
TOTAL_BUDGET = 900.0
"""Seconds after which a request starts no further attempt at all."""
MAX_PAUSE = 30.0
"""Seconds that a request waits for a model to come back."""
_SHORT = (30.0, 60.0, 300.0)
"""Seconds of the first, second and every later cool-down after a passing failure."""
_BILLING, _BILLING_MAX = 600.0, 86_400.0
_AUTH, _AUTH_MAX = 600.0, 3_600.0
_FORGET = 86_400.0
"""Seconds after which earlier failures do not count any more."""
_QUICK_RETRY = frozenset({"timeout", "network", "server", "overloaded"})


@dataclass(frozen=True, slots=True)
class Candidate:
    """One model behind one key.

    Attributes:
        ref: `provider/model`.
        model: The provider's own model id.
        key_id: Tells keys of one provider apart; not the key itself.
    """

    ref: str
    model: str
    provider: ModelProvider
    key_id: str = ""

    @property
    def id(self) -> str:
        """What cool-downs are kept under: provider, model and key."""
        return f"{self.ref}#{self.key_id}"


@dataclass(frozen=True, slots=True)
class Cooldown:
    """Why and until when a candidate is left alone; times in microseconds UTC."""

    until: int
    failures: int
    kind: str
    failed_at: int


class Cooldowns(Protocol):
    """Where cool-downs are kept, so that they outlive the process and are shared by sessions."""

    async def get_many(self, ids: Sequence[str]) -> Mapping[str, Cooldown]:
        """Return the cool-downs that exist for `ids`."""
        ...

    async def put(self, candidate_id: str, cooldown: Cooldown | None) -> None:
        """Store a cool-down; None forgets it."""
        ...


class MemoryCooldowns:
    """Cool-downs of one process, for tests and for the demo."""

    def __init__(self) -> None:
        self._rows: dict[str, Cooldown] = {}

    async def get_many(self, ids: Sequence[str]) -> Mapping[str, Cooldown]:
        """Return the cool-downs that exist for `ids`."""
        return {key: self._rows[key] for key in ids if key in self._rows}

    async def put(self, candidate_id: str, cooldown: Cooldown | None) -> None:
        """Store a cool-down; None forgets it."""
        if cooldown is None:
            self._rows.pop(candidate_id, None)
        else:
            self._rows[candidate_id] = cooldown


Sleep = Callable[[float], Awaitable[None]]


class ModelChain:
    """A primary model and its fallbacks as one `ModelProvider`. Holds no state of its own; share it freely.

    Args:
        candidates: The primary with each of its keys, then every fallback with its keys.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        cooldowns: Cooldowns,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        if not candidates:
            raise ValueError("a chain needs a model")
        self._candidates = tuple(candidates)
        self._cooldowns = cooldowns
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or random.Random()

    async def complete(self, request: ModelRequest, on_text: OnText) -> ModelReply:
        """Return the first answer that a model gives.

        `request.model` is replaced by each candidate's own. Once text of a failed attempt was shown, later
        attempts stay silent: their text comes with the reply only.

        Raises:
            ContextTooLong: Another model is no cure; the transcript must shrink.
            ModelRefused: The model declined, or no candidate works until a person changes something.
            ModelUnavailable: No candidate answers now.
        """
        attempt = _Attempt(request, on_text, self._clock.monotonic())
        known = dict(await self._cooldowns.get_many([candidate.id for candidate in self._candidates]))
        ready = [candidate for candidate in self._candidates if not self._is_cooling(known, candidate)]
        reply = await self._try_all(ready, known, attempt)
        while reply is None and (later := self._next_probe(known, attempt)) is not None:
            candidate, pause = later
            if pause > 0:
                await self._sleep(pause)
            attempt.probed.add(candidate.id)
            reply = await self._try(candidate, known, attempt)
        if reply is not None:
            return self._named(reply)
        raise attempt.worst(self._seconds_to_wait(known))

    async def _try_all(
        self, candidates: Sequence[Candidate], known: dict[str, Cooldown], attempt: _Attempt
    ) -> ModelReply | None:
        for candidate in candidates:
            if candidate.ref in attempt.useless:
                continue
            reply = await self._try(candidate, known, attempt)
            if reply is not None:
                return reply
            if self._clock.monotonic() >= attempt.started + TOTAL_BUDGET:
                break
        return None

    async def _try(self, candidate: Candidate, known: dict[str, Cooldown], attempt: _Attempt) -> ModelReply | None:
        """Ask one candidate, twice if the first failure may pass at once; None when it cannot answer."""
        for is_retry in (False, True):
            try:
                reply = await candidate.provider.complete(
                    replace(attempt.request, model=candidate.model), attempt.text_sink()
                )
            except (ModelUnavailable, ModelRefused) as error:
                attempt.note(candidate, error)
                if error.kind == "refused":
                    raise
                if not is_retry and self._may_retry(error, attempt):
                    await self._sleep(0.5 + self._rng.random())
                    continue
                await self._cool_down(candidate, known, error, attempt)
                return None
            if candidate.id in known:
                await self._cooldowns.put(candidate.id, None)
            return replace(reply, model=candidate.ref)
        return None

    def _may_retry(self, error: ModelError, attempt: _Attempt) -> bool:
        wait = error.retry_after if isinstance(error, ModelUnavailable) else None
        return error.kind in _QUICK_RETRY and not wait and self._clock.monotonic() + 2 < attempt.deadline

    async def _cool_down(
        self, candidate: Candidate, known: dict[str, Cooldown], error: ModelError, attempt: _Attempt
    ) -> None:
        if error.kind in ("not_found", "format"):
            attempt.useless.add(candidate.ref)  # another key will not help; another request may
            return
        now = self._clock.now()
        old = known.get(candidate.id)
        counts = old is not None and now - old.failed_at < _FORGET * SECOND
        failures = (old.failures if old is not None and counts else 0) + 1
        seconds = cooldown_seconds(error, failures)
        cooldown = Cooldown(now + int(seconds * SECOND), failures, error.kind, now)
        known[candidate.id] = cooldown
        await self._cooldowns.put(candidate.id, cooldown)

    def _is_cooling(self, known: Mapping[str, Cooldown], candidate: Candidate) -> bool:
        cooldown = known.get(candidate.id)
        return cooldown is not None and cooldown.until > self._clock.now()

    def _next_probe(self, known: Mapping[str, Cooldown], attempt: _Attempt) -> tuple[Candidate, float] | None:
        """Return a cooling candidate worth a try and the seconds to wait for it first.

        Those that fail for a passing reason are waited for. One that was cooling before this request is asked
        without a wait when nobody else is left, unless its server named a later time: a person waits, and
        the trouble may be over.
        """
        left = attempt.deadline - self._clock.monotonic()
        best: tuple[float, Candidate] | None = None
        for candidate in self._candidates:
            cooldown = known.get(candidate.id)
            if cooldown is None or candidate.id in attempt.probed or candidate.ref in attempt.useless:
                continue
            pause = max(0.0, (cooldown.until - self._clock.now()) / SECOND)
            if candidate.id not in attempt.failed and cooldown.kind != "rate_limit":
                pause = 0.0
            elif cooldown.kind in ("auth", "billing"):
                continue
            if pause <= min(left, MAX_PAUSE) and (best is None or pause < best[0]):
                best = (pause, candidate)
        return (best[1], best[0]) if best is not None and left > 0 else None

    def _seconds_to_wait(self, known: Mapping[str, Cooldown]) -> float:
        """Return the seconds until the first cool-down ends."""
        ends = [cooldown.until for cooldown in known.values()]
        return max(0.0, (min(ends) - self._clock.now()) / SECOND) if ends else 0.0

    def _named(self, reply: ModelReply) -> ModelReply:
        primary = self._candidates[0].ref
        return replace(reply, fallback_from=primary if reply.model != primary else "")


class _Attempt:
    """What happened so far to one request."""

    def __init__(self, request: ModelRequest, on_text: OnText, started: float) -> None:
        self.request = request
        self.started = started
        self.deadline = started + RETRY_BUDGET
        self.failed: set[str] = set()
        self.probed: set[str] = set()
        self.useless: set[str] = set()
        self._errors: list[ModelError] = []
        self._on_text = on_text
        self._has_shown_text = False

    def text_sink(self) -> OnText:
        """Return where the next attempt's text goes."""
        if self._has_shown_text:
            return _drop_text

        def show(text: str) -> None:
            self._has_shown_text = True
            self._on_text(text)

        return show

    def note(self, candidate: Candidate, error: ModelError) -> None:
        """Remember a failure."""
        self.failed.add(candidate.id)
        self._errors.append(error)

    def worst(self, retry_after: float) -> ModelError:
        """Return the error to raise: the first one, which is what a person must hear about."""
        if self._errors:
            return self._errors[0]
        return ModelUnavailable("every model is cooling down", "rate_limit", retry_after)


def _drop_text(_text: str) -> None:
    """Drop text of an attempt that follows one which was seen."""


def cooldown_seconds(error: ModelError, failures: int) -> float:
    """Return how long a candidate is left alone after its `failures`-th failure in a row."""
    if error.kind == "billing":
        return min(_BILLING * 2.0 ** min(failures - 1, 20), _BILLING_MAX)
    if error.kind == "auth":
        return min(_AUTH * 2.0 ** min(failures - 1, 20), _AUTH_MAX)
    seconds = _SHORT[min(failures, len(_SHORT)) - 1]
    retry_after = error.retry_after if isinstance(error, ModelUnavailable) else None
    return max(retry_after, 1.0) if retry_after is not None else seconds
