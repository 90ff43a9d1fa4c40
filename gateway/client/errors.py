"""Why a gateway could not be used. Each text is one line that says what to do.

ClientError
├── Unreachable                 nobody answers there, or the connection broke; exit code 4
│   ├── NotAGateway             somebody answers, and it is no gateway
│   └── TlsFailed               its certificate was not accepted
├── BadAddress                  the address may not be used
├── Denied                      it does not let us in
│   ├── NotPaired               a person has to approve this device
│   ├── TurnedDown              a person said no
│   ├── WrongSecret             token, password or device token
│   ├── RateLimited             too many wrong secrets
│   └── OtherProtocol           it speaks another version
└── Refused                     it let us in, and says no to this
    ├── Forbidden               this device may not do that
    └── Unanswered              it took the request and did not answer in time; exit code 3
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.errors import TidegateError

MAX_TEXT = 600


class ClientError(TidegateError):
    """A gateway could not be used. What others wrote in the text can do nothing to a terminal."""

    def __init__(self, text: str) -> None:
        line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
        super().__init__(line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…")


class Unreachable(ClientError):
    """The gateway does not answer."""

    exit_code = 4


class NotAGateway(Unreachable):
    """Something else answers at the address."""


class TlsFailed(Unreachable):
    """The certificate was not accepted."""


class BadAddress(ClientError):
    """The address may not be used."""


class Denied(ClientError):
    """The gateway does not let us in.

    Attributes:
        code: `details.code` of the refusal, or empty.
    """

    exit_code = 4

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class NotPaired(Denied):
    """A person has to approve this device.

    Attributes:
        request: Id of the request that waits for them.
        reason: `not-paired`, `scope-upgrade`, `role-upgrade` or `metadata-upgrade`.
        what: What waits, for people.
        command: What approves it, on the gateway's machine.
    """

    def __init__(self, what: str, request: str, reason: str, command: str) -> None:
        super().__init__(f"{what}. {self.where(command)} within five minutes, then try again", "PAIRING_REQUIRED")
        self.request = request
        self.reason = reason
        self.what = what
        self.command = command

    @staticmethod
    def where(command: str) -> str:
        """Return where a command is to be typed."""
        return f"On the gateway's machine: `{command}`"


class TurnedDown(Denied):
    """A person said no to what this device asked for."""


class WrongSecret(Denied):
    """What we showed is missing or wrong.

    Attributes:
        is_device_token: It was the device's own token.
        try_device_token: The gateway would look at the device's own token.
    """

    def __init__(self, text: str, code: str, *, is_device_token: bool = False, try_device_token: bool = False) -> None:
        super().__init__(text, code)
        self.is_device_token = is_device_token
        self.try_device_token = try_device_token


class RateLimited(Denied):
    """Too many wrong secrets came from here.

    Attributes:
        seconds: How long to wait.
    """

    def __init__(self, text: str, seconds: float) -> None:
        super().__init__(text, "AUTH_RATE_LIMITED")
        self.seconds = seconds


class OtherProtocol(Denied):
    """The gateway speaks another version of the protocol."""


class Refused(ClientError):
    """The gateway said no; the text says why.

    Attributes:
        code: Class of the error on the wire, or empty.
        details: What the gateway says about it, for programs.
    """

    def __init__(self, text: str, code: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.details = dict(details or {})


class Forbidden(Refused):
    """This device does not hold the right.

    Attributes:
        scope: The one that is missing.
    """

    def __init__(self, text: str, scope: str) -> None:
        super().__init__(text, "FORBIDDEN", {"missingScope": scope})
        self.scope = scope


class Unanswered(Refused):
    """The gateway took a request and did not answer in time."""

    exit_code = 3
