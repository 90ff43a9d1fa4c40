"""The `session_status` tool: the clock, and where the conversation is."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from tidegate.agent_runtime.tools.base import Effect, ToolArgs, ToolContext, ToolResult
from tidegate.clock import SECOND, Clock
from tidegate.errors import ToolFailure


class SessionStatusArgs(ToolArgs):
    """Arguments of `session_status`."""

    sessionKey: Annotated[str | None, Field(description="Only this session's own key.")] = None


class SessionStatus:
    """Tells the time and facts about the session."""

    name: ClassVar[str] = "session_status"
    description: ClassVar[str] = "Tell the present date and time, the model, and facts about this session."
    args: ClassVar[type[ToolArgs]] = SessionStatusArgs
    effect: ClassVar[Effect] = Effect.READ
    idempotent: ClassVar[bool] = True
    seconds: ClassVar[float] = 5.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def run(self, args: SessionStatusArgs, context: ToolContext) -> ToolResult:
        """Return the facts, one a line.

        Raises:
            ToolFailure: Another session was asked about.
        """
        session = context.session
        if args.sessionKey not in (None, "", "current", session.session_key):
            raise ToolFailure("only this session's own status can be read")
        now = datetime.fromtimestamp(self._clock.now() / SECOND, zone_of(session.timezone))
        lines = [
            f"Time: {now:%A, %Y-%m-%d %H:%M} {session.timezone} (UTC{now:%z})",
            f"Session: {session.session_key}",
        ]
        facts = {"Agent": session.agent, "Channel": session.channel, "Model": session.model}
        lines += [f"{label}: {value}" for label, value in facts.items() if value]
        return ToolResult("\n".join(lines))


def zone_of(name: str) -> ZoneInfo:
    """Return the zone of an IANA name; UTC for one that does not exist."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")
