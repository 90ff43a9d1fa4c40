"""Every error Tidegate raises itself, classed by who can act on it.

TidegateError
├── ConfigError                    the operator acts: file, line, column, what was expected
├── AdapterError
│   ├── AdapterConfigError         fatal for the account: a person must change something
│   ├── AdapterConflict            somebody else uses the account's connection; retried slowly
│   └── AdapterUnavailable         the supervisor retries
├── DeliveryError
│   ├── DeliveryDeferred           the platform asked us to wait; the outbox retries
│   ├── DeliveryUnavailable        nothing reached the platform; the outbox retries
│   ├── DeliveryRefused            the platform will never take this; the outbox buries it
│   └── DeliveryUnknown            written, not confirmed; the outbox settles or reports, never repeats
├── ModelError
│   ├── ModelUnavailable           the fallback chain acts
│   ├── ModelRefused               a person must change something (key, billing, request)
│   └── ContextTooLong             the history is shortened
├── ToolError
│   ├── ToolFailure                the model acts
│   ├── ToolDenied                 policy said no
│   └── ToolTimeout
├── RunLimitReached                the user is told
├── StoreError
│   ├── LeaseLost                  another owner runs the session; the result is dropped
│   ├── StoreUnavailable
│   └── StoreCorrupt               the operator acts
├── QueueFull                      the sender is told
└── RoutingError                   no agent may answer; recorded and told to the operator
"""

from __future__ import annotations


class TidegateError(Exception):
    """Base of every error that Tidegate raises itself."""


class ConfigError(TidegateError):
    """The configuration cannot be used as it is. `str(error)` is ready for the operator."""


class AdapterError(TidegateError):
    """A platform connection failed."""


class AdapterConfigError(AdapterError):
    """The account cannot work until a person changes something (revoked token, missing right)."""


class AdapterConflict(AdapterError):
    """Another process uses the same connection (Telegram 409); retried slowly, with the cause shown."""


class AdapterUnavailable(AdapterError):
    """The platform cannot be reached now; the supervisor retries with back-off.

    Attributes:
        retry_after: Seconds the platform asked us to wait, or None.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DeliveryError(TidegateError):
    """A message could not be handed to a platform."""


class DeliveryDeferred(DeliveryError):
    """The platform asked us to wait; the outbox retries.

    Attributes:
        retry_after: Seconds to wait at least, as the platform stated it.
    """

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DeliveryUnavailable(DeliveryError):
    """The platform was not reached, so nothing was delivered; the outbox retries."""


class DeliveryRefused(DeliveryError):
    """The platform will never accept this message; the outbox marks it dead."""


class DeliveryUnknown(DeliveryError):
    """The request was written but its outcome is not known; it is settled or reported, never repeated."""


class ModelError(TidegateError):
    """A model call failed.

    Attributes:
        kind: The failure class: auth, billing, rate_limit, overloaded, timeout, network, server,
            not_found, format, context_overflow or refused.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class ModelUnavailable(ModelError):
    """This model cannot answer now; another model or a later try may.

    Attributes:
        retry_after: Seconds the provider asked us to wait, or None.
    """

    def __init__(self, message: str, kind: str, retry_after: float | None = None) -> None:
        super().__init__(message, kind)
        self.retry_after = retry_after


class ModelRefused(ModelError):
    """This request will not be answered by this model however often it is repeated."""


class ContextTooLong(ModelError):
    """The request does not fit the model's context window."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "context_overflow")


class ToolError(TidegateError):
    """A tool call did not produce a result."""


class ToolFailure(ToolError):
    """The call was understood and failed; the model sees the text and may try otherwise."""


class ToolDenied(ToolError):
    """Policy does not let this subject make this call."""


class ToolTimeout(ToolError):
    """The tool did not end within its deadline."""


class RunLimitReached(TidegateError):
    """A run used up one of its limits.

    Attributes:
        limit: Which one: iterations, wall_time, tokens, cost or loop.
    """

    def __init__(self, message: str, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class StoreError(TidegateError):
    """The state could not be read or written."""


class LeaseLost(StoreError):
    """The session's lease passed to another owner, or was ended by /stop, /new or an interrupt."""


class StoreUnavailable(StoreError):
    """The store is closed or cannot be opened."""


class StoreCorrupt(StoreError):
    """The store failed its integrity check; the message says what to do."""


class QueueFull(TidegateError):
    """A session has as many waiting events as it may hold."""


class RoutingError(TidegateError):
    """No agent may answer this message; never guessed.

    Attributes:
        code: `AGENT_SELECTION_REQUIRED` or `NO_AGENTS_CONFIGURED`.
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code
