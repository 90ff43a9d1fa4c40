"""What a person does to sessions from outside, without a chat message: stop, rename, begin anew, write a note."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.events import MessageEvent
from tidegate.sessions.model import Changed, SessionChange, TurnState


@dataclass(frozen=True, slots=True)
class Usage:
    """What the turns of one day (UTC, `YYYY-MM-DD`) with one model used, in tokens."""

    day: str
    model: str
    turns: int
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ended that gave no whole answer.

    Attributes:
        state: STOPPED or FAILED.
        at: Microseconds UTC.
        told: What the person was told in place of an answer; may be empty.
    """

    state: TurnState
    at: int
    reason: str = ""
    told: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One message of a transcript with what is known about it.

    Attributes:
        at: When its turn began; microseconds UTC, 0 for a note.
        run: Id of the run that wrote it, empty for a note.
        model: `provider/model` that answered in that turn; empty while it runs.
        ending: Only with the last message of a turn that was stopped or failed.
    """

    seq: int
    body: str
    at: int = 0
    run: str = ""
    model: str = ""
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class SessionUsage:
    """What the turns of one session, in one day (UTC) and with one model, used, in tokens."""

    session: str
    agent: str
    day: str
    model: str
    turns: int
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The turn in which a message was answered, or is to be.

    Attributes:
        state: Of the turn; a turn that runs may run for the second time.
        conversation: Id of its conversation.
        bodies: What the turn wrote into the transcript.
    """

    run: str
    state: TurnState
    conversation: str
    model: str
    tokens_in: int
    tokens_out: int
    bodies: tuple[str, ...]


class OperatorStore(Protocol):
    """Changes that an operator makes."""

    async def change_session(self, key: str, change: SessionChange, agent: str = "") -> Changed | None:
        """Change a session; None when there is none of this key and no `agent` to make it for.

        `then` is not used here. A stop ends everything that was stored up to now.
        """
        ...

    async def add_message(self, key: str, body: str, agent: str = "", run: str = "") -> tuple[str, int] | None:
        """Append to the transcript of a session that runs no turn; returns conversation id and seq.

        What a turn had said when it was stopped names the turn's `run`; it belongs to that turn while that is the
        last one of the session.

        None when a turn runs, whose transcript must not be cut into, or when there is no such session and no
        `agent` to make it for. A session without a conversation gets one.
        """
        ...

    async def lines(self, conversation: str, limit: int, before: int = 0) -> Sequence[Line]:
        """Return messages of a conversation, oldest first: the last ones, or the last ones before seq `before`."""
        ...

    async def usage(self, since: int) -> Sequence[Usage]:
        """Return what turns that began at `since` (microseconds UTC) or later used, oldest day first."""
        ...

    async def usage_of_sessions(self, since: int, key: str = "", limit: int = 10_000) -> Sequence[SessionUsage]:
        """Return the same by session, or of one session; the newest days first, at most `limit` rows."""
        ...

    async def prune_sessions(self, keys: Sequence[str], keep: int, limit: int = 200) -> int:
        """Forget sessions whose keys match one of these patterns (`*` and `?`), for ever, with all that was said.

        The `keep` newest ones stay, and those in which something waits, runs or is on its way. Returns how many went,
        at most `limit`.
        """
        ...

    async def answered(self, event: MessageEvent) -> Answered | None:
        """Return the newest turn that a message was part of; None when it was never taken up by one."""
        ...
