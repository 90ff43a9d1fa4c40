"""Lets a test be a coroutine."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

P = ParamSpec("P")
LIMIT = 20.0
"""Seconds after which a test that waits for something that never comes fails."""


def on_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a coroutine test on an event loop of its own, within a deadline."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def limited() -> None:
            async with asyncio.timeout(LIMIT):
                await test(*args, **kwargs)

        asyncio.run(limited())

    return run
