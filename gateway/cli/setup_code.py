"""`tidegate devices code`: a code with which one phone is paired, once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.rpc import ask
from tidegate.gateway.cli.terminal import Style, printable
from tidegate.gateway.program import hint


def code(arguments: Arguments) -> int:
    """Make a code and show it, as a picture for the phone's camera and as text."""
    call = Call.of(arguments)
    wanted: dict[str, Any] = {"publicUrl": arguments.address} if arguments.address else {}
    if arguments.node:
        wanted["bootstrapProfile"] = "node"
    made = ask(call, "device.pair.setupCode", **wanted)
    call.show(made, lambda style: _lines(made, style, picture=not arguments.no_qr))
    return 0


def _lines(made: dict[str, Any], style: Style, *, picture: bool) -> Iterator[str]:
    text = str(made["setupCode"])
    if picture:
        # Loaded here: without a picture nothing has to be drawn.
        from tidegate.gateway.plane.qr import as_lines  # noqa: PLC0415

        yield from as_lines(text)
    yield style.bold(printable(text))
    minutes = max(1, round((int(made["expiresAtMs"]) / 1000 - time.time()) / 60))
    what = "a node, which offers commands" if made.get("access") == "node" else "a device that may look and talk"
    yield f"pairs {what}, once, within {minutes} minutes, at {printable(str(made['gatewayUrl']))}"
    yield style.dim(f"anybody who sees the code can use it; {hint('devices list')} shows who did")
