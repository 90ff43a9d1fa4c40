"""The model behind the recorded runs: its answers follow from what it is asked."""

from __future__ import annotations

import json

from harness.brain import Answer, Ask, Error, Tools


async def mock(ask: Ask) -> Answer:
    """Answer as the model behind the recordings did."""
    if ask.results:
        return f"The tool returned: {ask.results[-1]}"
    if "FAIL401" in ask.last:
        return Error(401, "mock bad key")
    if "SLOW" in ask.last:
        return " ".join(f"word{number}" for number in range(40))
    if ask.last.startswith("TOOLCALL "):
        _, name, arguments = ask.last.split(" ", 2)
        return Tools(((name, json.loads(arguments)),), "Let me use a tool.")
    return "Hello from the mock model."
