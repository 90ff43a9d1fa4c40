"""One message, its answers, and out: `tidegate chat --once` and piped input."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from tidegate.errors import TidegateError
from tidegate.gateway.cli.link import Link
from tidegate.gateway.client.errors import Unreachable
from tidegate.gateway.program import hint

ASK_SECONDS = 0.5
"""How often to ask whether anything is still to come, besides after each sign that a turn ended."""
DEFAULT_DEADLINE = 300.0


class NoAnswer(TidegateError):
    """The answer did not come in time."""

    exit_code = 3


class NotTaken(TidegateError):
    """The gateway did not take the message."""


async def ask_once(
    link: Link,
    text: str,
    seconds: float,
    show: Callable[[dict[str, Any]], None],
    failed: Callable[[dict[str, Any]], None] = lambda _: None,
) -> None:
    """Send `text` and call `show` with every reply frame until nothing more is to come.

    Args:
        failed: Called with the model, the kind and the reason when a turn fails.

    Raises:
        Unreachable: No gateway answers.
        NoAnswer: The time is up.
        NotTaken: The gateway refused the message.
    """
    if not text.strip():
        raise NotTaken("there is nothing to send")
    try:
        async with asyncio.timeout(seconds):
            await _exchange(link, text, show, failed)
    except TimeoutError as error:
        after = (
            f"the gateway did not take the message; {hint('logs')} says why"
            if link.unconfirmed
            else f"the gateway goes on with it, {hint('chat')} shows the answer"
        )
        raise NoAnswer(f"no complete answer within {seconds:g} s: {after}") from error


async def _exchange(
    link: Link,
    text: str,
    show: Callable[[dict[str, Any]], None],
    failed: Callable[[dict[str, Any]], None],
) -> None:
    if reason := await link.send(text):
        raise NotTaken(reason)
    was_connected = False
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(_keep_asking(link), name="chat.asking")
        try:
            async with aclosing(link.frames()) as frames:
                async for frame in frames:
                    match frame["type"]:
                        case "hello":
                            was_connected = True
                        case "lost" if not was_connected:
                            raise Unreachable(
                                str(frame.get("reason") or "")
                                or f"no gateway runs here; start one with {hint('up')} or {hint('gateway run')}"
                            )
                        case "refused":
                            raise NotTaken(str(frame.get("text", "the gateway did not take the message")))
                        case "reply":
                            show(frame)
                            await link.ask_state()
                        case "fact" if frame.get("name") == "turn.failed":
                            failed(frame.get("data") or {})
                        case "fact" if frame.get("name") == "turn.ended":
                            await link.ask_state()
                        case "state" if not frame["busy"] and not link.unconfirmed:
                            return
                        case _:
                            pass
        except TidegateError as error:
            failure: TidegateError | None = error
        else:
            failure = None
        finally:
            asking.cancel()
    if failure is not None:
        raise failure


async def _keep_asking(link: Link) -> None:
    while True:
        await asyncio.sleep(ASK_SECONDS)
        await link.ask_state()
