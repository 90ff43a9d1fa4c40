"""`tidegate status`: how the gateway stands and what needs a person."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.deliveries import part_cells
from tidegate.gateway.cli.devices import SHORT
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.rpc import ask
from tidegate.gateway.cli.terminal import Style, ago, printable, table
from tidegate.gateway.program import hint

METHOD = "tidegate.status"
WATCH_SECONDS = 2.0
NEEDS_A_PERSON = ("stopped", "conflict")
COLOURS = {"up": "green", "connecting": "yellow", "retrying": "yellow", "conflict": "red", "stopped": "red"}
_ADVICE = {
    "conflict": "another program uses this account: stop it, or give this one a bot of its own",
    "stopped": "a person must change this; then the account connects again after a reload or restart",
    "retrying": "nothing to do: it is tried again by itself",
}


def status(arguments: Arguments) -> int:
    """Print the status; with `--watch` again and again."""
    call = Call.of(arguments)
    if not arguments.watch:
        return 1 if _show(call, ask(call, METHOD)) else 0
    if call.url:
        importlib.import_module("tidegate.gateway.cli.watch").watch_there(call, lambda data: _show_again(call, data))
        return 0
    while True:
        _show_again(call, ask(call, METHOD))
        time.sleep(WATCH_SECONDS)


def _show_again(call: Call, data: Mapping[str, Any]) -> None:
    if not call.arguments.json and sys.stdout.isatty():
        print("\x1b[H\x1b[2J", end="")
    _show(call, data)
    sys.stdout.flush()


def _show(call: Call, data: Mapping[str, Any]) -> list[str]:
    attention = needs(data)
    call.show({**data, "attention": attention}, lambda style: lines(data, style))
    return attention


def needs(data: Mapping[str, Any]) -> list[str]:
    """Return what needs a person, one line each."""
    found = [] if data.get("running") else [f"no gateway runs; {hint('up')} or {hint('gateway run')} starts one"]
    found += [str(note) for note in data.get("notes", ())]
    for row in data.get("connections", ()):
        if row["state"] in NEEDS_A_PERSON:
            found.append(connection_line(row))
    found += asking_lines(data.get("asking", ()))
    troubled = data.get("troubled", ())
    if troubled:
        found.append(f"{len(troubled)} message{'s' if len(troubled) > 1 else ''} did not certainly arrive (see below)")
    return [printable(line) for line in found]


def connection_line(row: Mapping[str, Any]) -> str:
    """Return what an account that is down needs, on one line."""
    reason = row["reason"] or row["state"]
    return f"{row['channel']}/{row['account']}: {reason} – {_ADVICE.get(row['state'], '')}"


def asking_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one line about devices that wait to be let in, or none."""
    if len(rows) > 1:
        return [f"{len(rows)} devices ask to be let in: {hint('devices list')} shows them"]
    return [
        f"{row['name']} {str(row['device'])[:SHORT]} asks to be let in as a device: "
        + hint(f"devices approve {row['request']}")
        for row in rows
    ]


def lines(data: Mapping[str, Any], style: Style) -> Iterator[str]:
    """Yield the lines for people."""
    now = int(data.get("now", 0))
    if data.get("running"):
        since = ago(int(data.get("started_at", 0)), now).removesuffix(" ago")
        yield f"{style.paint('●', 'green')} gateway runs (pid {data['pid']}, port {data['port']}, for {since})"
    else:
        yield f"{style.paint('○', 'red')} no gateway runs"
    if data.get("config"):
        yield style.dim(f"  config {data['config']}")
    for line in needs(data):
        yield style.paint(f"  ! {line}", "yellow")
    if data.get("connections"):
        yield ""
        yield from table(style, ("CONNECTION", "STATE", "ALIVE", "REASON"), _connections(data, style, now))
    sessions, workers = data["sessions"], data.get("workers", {})
    yield ""
    yield (
        f"sessions    {sessions['total']}, running {sessions['running']}, "
        f"messages waiting {sessions['waiting']}, sessions in line {workers.get('backlog', 0)}"
    )
    yield f"messages    {_messages(data['events'])}"
    yield f"deliveries  {_counts(data['deliveries'])}"
    if data.get("model"):
        yield f"model       {printable(str(data['model']))}"
    if data.get("store"):
        size = (data["store"]["bytes"] + data["store"]["wal_bytes"]) / (1 << 20)
        yield f"store       {size:.1f} MiB" + (f", {data['store']['path']}" if data["store"].get("path") else "")
    known = {row["id"]: row for row in (*data.get("troubled", ()), *data.get("recent_trouble", ()))}
    if known:
        yield ""
        cells = part_cells(sorted(known.values(), key=lambda row: -int(row["id"])), now)
        yield from table(style, ("ID", "TO", "STATE", "WRITTEN", "REASON"), cells)
        yield style.dim(f"{hint('deliveries show ID')} says more about one")


def _connections(data: Mapping[str, Any], style: Style, now: int) -> Iterator[tuple[str, str, str, str]]:
    for row in data["connections"]:
        state = style.paint(row["state"], COLOURS.get(row["state"], "yellow"))
        # Those that need a person are told in full above.
        told = "see above" if row["state"] in NEEDS_A_PERSON else row["reason"]
        if row["state"] == "retrying":
            told = f"{row['reason']} – {_ADVICE['retrying']}".removeprefix(" – ")
        yield f"{row['channel']}/{row['account']}", state, ago(row["alive_at"], now), printable(told)


def _messages(counts: Mapping[str, int]) -> str:
    """Return how many messages there ever were, and what became of the newest."""
    kinds = {name: number for name, number in counts.items() if name != "stored"}
    stored, counted = counts.get("stored", sum(kinds.values())), sum(kinds.values())
    if not kinds:
        return "none"
    return f"{stored} in all{'' if counted >= stored else f', the newest {counted}'}: {_counts(kinds)}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counts.items())) or "none"
