"""`tidegate devices code`: a link or a code that lets one phone in, once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.rpc import ask
from tidegate.gateway.cli.terminal import Style, columns, printable
from tidegate.gateway.client.errors import Refused
from tidegate.gateway.plane.qr import as_lines
from tidegate.gateway.plane.reach import LOOPBACK_ONLY, NO_ADDRESS, may_be_stated
from tidegate.gateway.program import hint

_NOWHERE = {
    LOOPBACK_ONLY: "a phone cannot reach this gateway: it listens on this machine only. Set up docs/remote.md first, "
    "or give its https address with --address https://…",
    NO_ADDRESS: "a phone cannot reach this gateway: this machine's address in the network is not known now. Give the "
    "gateway's https address with --address https://…",
}


def code(arguments: Arguments) -> int:
    """Make a code and show it, as a picture for the phone's camera and as text."""
    call = Call.of(arguments)
    wanted: dict[str, Any] = {}
    if arguments.address:
        if not may_be_stated(arguments.address):
            raise Refused(
                f"--address {printable(arguments.address)[:80]} is no address that a phone can use safely: "
                "write https://HOST, or http:// with an address of a tailnet"
            )
        wanted["publicUrl"] = arguments.address
    if arguments.node:
        wanted["bootstrapProfile"] = "node"
    is_for_app = arguments.app or arguments.node
    try:
        made = ask(call, "device.pair.setupCode", **wanted, **({} if is_for_app else {"joinUrl": True}))
    except Refused as error:
        raise Refused(_NOWHERE.get(str(error), str(error))) from error
    call.show(made, lambda style: _lines(made, style, picture=not arguments.no_qr, is_for_app=is_for_app))
    return 0


def _lines(made: dict[str, Any], style: Style, *, picture: bool, is_for_app: bool) -> Iterator[str]:
    link = str(made.get("joinUrl") or "")
    text = link or str(made["setupCode"])
    if picture:
        yield from _picture(text, style)
    yield style.bold(printable(text))
    minutes = max(1, round((int(made["expiresAtMs"]) / 1000 - time.time()) / 60))
    where = printable(str(made["gatewayUrl"]))
    if link:
        yield f"opens the web chat in the browser of one phone, once, within {minutes} minutes: let its camera see this"
        yield style.dim(f"for OpenClaw's apps: {hint('devices code --app')}")
    else:
        if not is_for_app:
            why = "the web chat is off" if where.startswith(("wss:", "https:")) else f"{where} is no https address"
            yield style.paint(
                f"this is the code for OpenClaw's apps: there is no link for a browser, because {why}", "yellow"
            )
        what = "a node, which offers commands" if made.get("access") == "node" else "a device that may look and talk"
        yield f"pairs {what}, once, within {minutes} minutes, at {where}: scan or paste it in OpenClaw's app"
    yield style.dim(f"anybody who sees it can use it; {hint('devices list')} shows who did")


def _picture(text: str, style: Style) -> Iterator[str]:
    drawn, room = as_lines(text), columns()
    width = max(map(len, drawn))
    if width <= room:
        yield from drawn
    else:
        yield style.paint(f"(no picture: it needs {width} columns, and this window has {room})", "yellow")
