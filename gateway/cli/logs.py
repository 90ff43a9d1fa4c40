"""`tidegate logs`: the gateway's log file, readable, and followed where asked."""

from __future__ import annotations

import importlib
import json
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tidegate.config.store import load_or_last_good
from tidegate.errors import ConfigError, TidegateError
from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.terminal import Style, as_json, one_line, printable
from tidegate.gateway.logging import LEVELS, log_path

POLL_SECONDS = 0.25
MAX_LINE = 1 << 20
_COLOURS = {"debug": "dim", "info": "green", "warning": "yellow", "error": "red", "critical": "red"}


class NoLog(TidegateError):
    """There is no log file."""


def logs(arguments: Arguments) -> int:
    """Print the last lines, then what comes."""
    call = Call.of(arguments)
    least = LEVELS[arguments.level]
    if call.url:
        show = importlib.import_module("tidegate.gateway.cli.watch").logs_there
        show(
            call, lambda lines: [event for event in _events(lines) if _level(event) >= least], lambda e: _print(call, e)
        )
        return 0
    path = _path(call)
    older = path.with_name(f"{path.name}.1")
    if not path.exists():
        raise NoLog(f"{path} does not exist: no gateway has run with this state directory yet")
    found: deque[dict[str, Any]] = deque(maxlen=arguments.lines)
    for file in (older, path):
        if file.exists():
            with file.open(encoding="utf-8", errors="replace") as lines:
                found.extend(event for event in _events(lines) if _level(event) >= least)
                position = lines.tell()
    for event in found:
        _print(call, event)
    if arguments.follow:
        for event in _events(_follow(path, position)):
            if _level(event) >= least:
                _print(call, event)
    return 0


def _path(call: Call) -> Path:
    try:
        started = load_or_last_good(call.site.config_path, environ=call.environ, state_dir=call.site.state_dir)
        return log_path(started.loaded.config.logging.file, call.site)
    except ConfigError:
        return call.site.log_file


def _events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            event = {"event": line.rstrip("\n")}
        if isinstance(event, dict) and line.strip():
            yield event


def _follow(path: Path, position: int) -> Iterator[str]:
    """Yield whole lines as they are written, also over a rotation, for ever."""
    file = path.open(encoding="utf-8", errors="replace")
    file.seek(position)
    pending = ""
    try:
        while True:
            pending += file.readline(MAX_LINE)
            if pending.endswith("\n"):
                yield pending
                pending = ""
                continue
            if path.exists() and path.stat().st_ino != _inode(file.fileno()):
                file.close()
                file, pending = path.open(encoding="utf-8", errors="replace"), ""
                continue
            time.sleep(POLL_SECONDS)
    finally:
        file.close()


def _inode(descriptor: int) -> int:
    return os.fstat(descriptor).st_ino


def _level(event: dict[str, Any]) -> int:
    return LEVELS.get(str(event.get("level", "info")), 50)


def _print(call: Call, event: dict[str, Any]) -> None:
    if call.arguments.json:
        print(as_json(event, indent=None), flush=True)
    else:
        print(_line(event, call.style), flush=True)


def _line(event: dict[str, Any], style: Style) -> str:
    level = one_line(event.get("level", ""), 12)
    more = {key: value for key, value in event.items() if key not in ("timestamp", "level", "event", "exception")}
    fields = " ".join(
        f"{style.dim(one_line(key) + '=')}{one_line(value)}" for key, value in more.items() if value is not None
    )
    stamp = style.dim(one_line(event.get("timestamp", ""))[:23].replace("T", " "))
    name = one_line(event.get("event", ""))
    line = f"{stamp} {style.paint(f'{level:<8}', _COLOURS.get(level, 'dim'))}{style.bold(name)} {fields}".rstrip()
    return f"{line}\n{printable(str(event['exception']))}" if event.get("exception") else line
