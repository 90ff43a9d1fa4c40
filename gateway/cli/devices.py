"""`tidegate devices`: which devices may steer the gateway, and which ask to."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.rpc import ask
from tidegate.gateway.cli.terminal import Style, ago, one_line, table
from tidegate.gateway.client.errors import Refused
from tidegate.gateway.program import command, hint

SHORT = 12
"""Characters of a device's id that are shown."""
LEAST = 6
"""Characters of an id that name it, when they name one only."""
_MEANINGS = {
    "operator.admin": "everything, also the configuration and other devices",
    "operator.write": "talk to agents and send messages",
    "operator.read": "see sessions, messages and settings",
    "operator.pairing": "let people and devices in",
    "operator.approvals": "approve what tools want to do",
    "operator.questions": "answer questions of agents",
}
OWN_ONLY = "managing others needs operator.admin or the gateway's token"
_ROLES = {"node": "a machine that offers commands to agents"}


def devices_list(arguments: Arguments) -> int:
    """Print devices that wait and devices that are paired."""
    call = Call.of(arguments)
    data = ask(call, "device.pair.list")
    call.show(data, lambda style: _devices(data, style))
    return 0


def _devices(data: dict[str, Any], style: Style) -> Iterator[str]:
    pending, paired = data["pending"], data["paired"]
    now = time.time_ns() // 1000
    if pending:
        heads = ("REQUEST", "NAME", "PLATFORM", "ASKED", "ASKS FOR")
        yield from table(style, heads, [_request_cells(row, now, style) for row in pending])
        yield ""
        if not data.get("ownOnly"):
            yield style.dim(command(["devices", "approve", str(pending[0]["requestId"])]))
            yield ""
    if paired:
        heads = ("DEVICE", "NAME", "PLATFORM", "SEEN", "MAY")
        yield from table(style, heads, [_device_cells(row, now, style) for row in paired])
    elif not data.get("ownOnly"):
        yield "no device is paired" if pending else "no device is paired, and none waits"
    if data.get("ownOnly"):
        yield style.dim(f"(only this device: {OWN_ONLY})")


def _request_cells(row: dict[str, Any], now: int, style: Style) -> tuple[str, ...]:
    remote = f", from {one_line(row['remoteIp'])}" if row.get("remoteIp") else ""
    repair = ", known already" if row.get("isRepair") else ""
    return (
        style.bold(one_line(row["requestId"])),
        _name(row),
        one_line(row.get("platform", ""), 40),
        ago(int(row["ts"]) * 1000, now),
        f"{_rights(str(row['role']), row['scopes'])}{remote}{repair}",
    )


def _device_cells(row: dict[str, Any], now: int, style: Style) -> tuple[str, ...]:
    seen = "connected" if row.get("connected") else ago(int(row.get("lastSeenAtMs", 0)) * 1000, now)
    tokens = row.get("tokens", ())
    may = "; ".join(
        style.paint(f"{token['role']} revoked", "red") if token.get("revokedAtMs") else _rights(**_role(token))
        for token in tokens
    )
    return one_line(row["deviceId"])[:SHORT], _name(row), one_line(row.get("platform", ""), 40), seen, may


def _role(token: dict[str, Any]) -> dict[str, Any]:
    return {"role": str(token["role"]), "scopes": token["scopes"]}


def _name(row: dict[str, Any]) -> str:
    return one_line(row.get("displayName") or row.get("clientId") or "", 40)


def _rights(role: str, scopes: Sequence[Any]) -> str:
    names = ", ".join(str(scope).removeprefix("operator.") for scope in scopes)
    return one_line(names or ("nothing" if role == "operator" else role))


def approve(arguments: Arguments) -> int:
    """Let a device in, after showing what that gives."""
    call = Call.of(arguments)
    row = _asked(ask(call, "device.pair.list"), arguments.request, latest=arguments.latest)
    if not arguments.json:
        for line in _grant_lines(row, call.style):
            print(line)
    _confirm(call, "let it in?", must_ask=arguments.request is None)
    done = ask(call, "device.pair.approve", requestId=row["requestId"])
    call.show(done, lambda _: [f"{_name(row)} ({row['deviceId'][:SHORT]}) may connect now"])
    return 0


def _asked(data: dict[str, Any], request: str | None, *, latest: bool) -> dict[str, Any]:
    """Return the request that is meant. Raises Refused when that is not one and only one."""
    if (request is None) is not latest:
        raise Refused(f"name the request, or say --latest; {hint('devices list')} prints those that wait")
    pending = data["pending"]
    found = pending if request is None else _matching(pending, "requestId", request)
    if data.get("ownOnly") and (latest or not found):
        raise Refused(f"this device sees only itself: {OWN_ONLY}")
    if len(found) == 1:
        return found[0]
    if not found:
        raise Refused(
            "no device waits" if latest else f"no device waits under {request!r}; requests end after 5 minutes"
        )
    raise Refused(f"{len(found)} devices wait; name the request, as {hint('devices list')} prints it")


def _matching(rows: list[dict[str, Any]], key: str, text: str) -> list[dict[str, Any]]:
    whole = [row for row in rows if row[key] == text]
    return whole or [row for row in rows if len(text) >= LEAST and str(row[key]).startswith(text)]


def _grant_lines(row: dict[str, Any], style: Style) -> Iterator[str]:
    where = f", from {row['remoteIp']}" if row.get("remoteIp") else ", on this machine"
    platform = one_line(row.get("platform", ""), 40)
    yield one_line(f"{_name(row)} {str(row['deviceId'])[:SHORT]} ({platform}{where}) asks for:")
    for scope in row["scopes"]:
        colour = "yellow" if scope == "operator.admin" else "cyan"
        name = one_line(str(scope).removeprefix("operator."), 40)
        yield f"  {style.paint(f'{name:<10}', colour)} {_MEANINGS.get(scope, '')}".rstrip()
    if row["role"] != "operator":
        yield f"  {one_line(row['role'])}: {_ROLES.get(row['role'], '')}".rstrip(": ")


def _confirm(call: Call, question: str, *, must_ask: bool = False) -> None:
    """Ask in a terminal. Raises Refused when the answer is no, or nobody can answer and somebody should."""
    if call.arguments.yes:
        return
    if not sys.stdin.isatty():
        if must_ask:
            raise Refused("say --yes, or name the request: there is no terminal to ask in")
        return
    print(f"{question} [y/N] ", end="", flush=True, file=sys.stderr)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Refused("nothing was changed")


def reject(arguments: Arguments) -> int:
    """Turn a request down; the device hears of it."""
    call = Call.of(arguments)
    row = _asked(ask(call, "device.pair.list"), arguments.request, latest=arguments.latest)
    done = ask(call, "device.pair.reject", requestId=row["requestId"])
    call.show(done, lambda _: [f"the request of {_name(row)} ({row['deviceId'][:SHORT]}) was turned down"])
    return 0


def _paired(call: Call) -> dict[str, Any]:
    data = ask(call, "device.pair.list")
    text = call.arguments.device
    found = _matching(data["paired"], "deviceId", text)
    if not found and data.get("ownOnly"):
        raise Refused(f"this device sees only itself: {OWN_ONLY}")
    if len(found) != 1:
        why = "no paired device has" if not found else "more than one device has"
        raise Refused(f"{why} an id that begins with {text!r}; {hint('devices list')} prints them")
    return found[0]


def revoke(arguments: Arguments) -> int:
    """Take a device's rights away; only a person's word gives them back."""
    call = Call.of(arguments)
    row = _paired(call)
    live = [str(token["role"]) for token in row["tokens"] if not token.get("revokedAtMs")]
    roles = [role for role in live if arguments.role in (None, role)]
    if not roles:
        raise Refused(f"{_name(row)} ({row['deviceId'][:SHORT]}) has no right that could be taken away")
    _confirm(call, f"take the rights of {_name(row)} ({row['deviceId'][:SHORT]}) away?")
    done = [ask(call, "device.token.revoke", deviceId=row["deviceId"], role=role) for role in roles]
    told = f"{_name(row)} ({row['deviceId'][:SHORT]}) may not connect any more as {' and '.join(roles)}"
    call.show({"revoked": done}, lambda _: [told])
    return 0


def remove(arguments: Arguments) -> int:
    """Forget a device; it may ask again like a new one."""
    call = Call.of(arguments)
    row = _paired(call)
    _confirm(call, f"forget {_name(row)} ({row['deviceId'][:SHORT]})?")
    done = ask(call, "device.pair.remove", deviceId=row["deviceId"])
    call.show(done, lambda _: [f"{_name(row)} ({row['deviceId'][:SHORT]}) is forgotten"])
    return 0


def rename(arguments: Arguments) -> int:
    """Give a device a name."""
    call = Call.of(arguments)
    row = _paired(call)
    done = ask(call, "device.pair.rename", deviceId=row["deviceId"], label=arguments.name)
    call.show(done, lambda _: [f"{row['deviceId'][:SHORT]} is called {one_line(done['label'])} now"])
    return 0
