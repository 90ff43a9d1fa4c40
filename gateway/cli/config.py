"""`tidegate config`: look at the configuration, check it, change single keys of it."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidegate.config.json5 import Json5Error, parse, to_plain
from tidegate.config.known_keys import nearest
from tidegate.config.load import Loaded, load_config
from tidegate.config.paths import KeyPath, format_path, parse_path
from tidegate.config.problems import InvalidConfig
from tidegate.config.reload import GATEWAY, effect_of
from tidegate.config.schema import json_schema
from tidegate.config.sections.agents import MAIN_AGENT
from tidegate.config.store import ConfigWriter
from tidegate.config.view import redacted, value_at
from tidegate.errors import ConfigError
from tidegate.gateway.cli.call import Call, warn
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.rpc import ask, running_pid
from tidegate.gateway.cli.terminal import Style, as_json, printable
from tidegate.gateway.client.errors import Refused
from tidegate.gateway.config_report import config_report
from tidegate.gateway.program import hint

ELSEWHERE = "tidegate.gateway.cli.config_there"


def check(arguments: Arguments) -> int:
    """Print every problem and warning with its place; 1 when there are problems."""
    call = Call.of(arguments)
    if call.url:
        data = ask(call, "tidegate.config.check", effective=arguments.effective)
    else:
        data = config_report(call.site, call.environ, effective=arguments.effective)
    call.show(data, lambda style: _report(data, style))
    return 0 if data["ok"] else 1


def _report(data: dict[str, Any], style: Style) -> Iterator[str]:
    problems = data["problems"]
    for problem in problems:
        yield f"{style.paint('error', 'red')}    {_told_place(problem)}"
    for warning in data["warnings"]:
        yield f"{style.paint('warning', 'yellow')}  {_told_place(warning)}"
    if "effective" in data:
        yield as_json(data["effective"])
    if problems:
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        yield style.paint(f"{data['file']}: {count}", "red")
    elif not data["exists"]:
        yield f"{data['file']} does not exist; the defaults are in use"
    else:
        yield style.paint(f"{data['file']} is in order", "green")


def _told_place(row: dict[str, Any]) -> str:
    what = f"{row['path']}: {row['message']}" if row["path"] else row["message"]
    told = f"{row['file']}:{row['line']}:{row['column']}: {what}"
    return printable(f"{told} ({row['hint']})" if row["hint"] else told)


def get(arguments: Arguments) -> int:
    """Print what is in force at a path: the file's value, else the default. Secrets are masked."""
    call = Call.of(arguments)
    path = _path(arguments.path) if arguments.path else ()
    if call.url:
        shown = importlib.import_module(ELSEWHERE).fetch(call, path)
    else:
        shown = redacted(_value(_load(call), path), path)
    call.show(shown, lambda _: [printable(shown) if isinstance(shown, str) else as_json(shown)])
    return 0


def _value(loaded: Loaded, path: KeyPath) -> object:
    """Return the value with defaults filled in; keys that we do not use are only in the file's own data."""
    for data in (loaded.config.effective(), loaded.config.raw):
        try:
            return value_at(data, path)
        except KeyError:
            continue
    raise Refused(f"there is no such setting{_meant(loaded, path)}; {hint('config schema')} has them all")


def _meant(loaded: Loaded, path: KeyPath) -> str:
    """Return what was probably meant by a path that leads nowhere, or empty."""
    held: object = loaded.config.effective()
    for depth, key in enumerate(path):
        if not isinstance(held, dict):
            return ""
        if key not in held:
            close = nearest(str(key), [str(known) for known in held])
            return f" (did you mean {format_path((*path[:depth], close))}?)" if close else ""
        held = held[key]
    return ""


def put(arguments: Arguments) -> int:
    """Change one key; comments and layout of the file stay."""
    call = Call.of(arguments)
    path = _path(arguments.path)
    if call.url:
        return _changed_there(call, path, _parsed(arguments.value), "is set")
    folder = call.site.config_path.parent
    notes = [] if folder.exists() else [f"{folder} is new"]
    before = _agents(call)
    with _unchanged():
        loaded = _writer(call).set(path, _parsed(arguments.value))
    notes += _lost_agents(before, loaded)
    return _told(call, f"{arguments.path} is set in {call.site.config_path}", [*notes, *_taken_up(call, path)])


def unset(arguments: Arguments) -> int:
    """Take one key away."""
    call = Call.of(arguments)
    path = _path(arguments.path)
    if call.url:
        return _changed_there(call, path, importlib.import_module(ELSEWHERE).REMOVED, "is gone")
    with _unchanged():
        _writer(call).unset(path)
    return _told(call, f"{arguments.path} is gone from {call.site.config_path}", _taken_up(call, path))


def _changed_there(call: Call, path: KeyPath, value: object, told: str) -> int:
    done = importlib.import_module(ELSEWHERE).change(call, path, value)
    needs_start = effect_of(path) == GATEWAY or done.get("restart")
    notes = ["the gateway takes this up only when it is started again"] if needs_start else []
    file = printable(str(done.get("path", "")))
    data = {"file": done.get("path"), "notes": notes, "warnings": []}
    call.show(data, lambda _: [f"{call.arguments.path} {told} in {file} of {call.url}", *notes])
    return 0


def _taken_up(call: Call, path: KeyPath) -> list[str]:
    """Let a running gateway take up a change, and return what it still needs for that."""
    if running_pid(call.site) is None:
        return []
    if _load(call).config.gateway.reload.mode == "off":
        return ["the gateway that runs takes this up only when it is started again (gateway.reload.mode)"]
    done = ask(call, "tidegate.reload")
    if not done.get("reloaded"):
        problems = "; ".join(str(problem) for problem in done.get("problems", []))
        return [f"the gateway that runs does not take this up: {problems}"]
    if effect_of(path) == GATEWAY:
        return ["the gateway that runs takes this up only when it is started again"]
    return []


def _agents(call: Call) -> frozenset[str]:
    """Return the agents that there are, none where the file cannot be read."""
    try:
        return frozenset(_load(call).config.agents.members())
    except ConfigError:
        return frozenset()


def _lost_agents(before: frozenset[str], loaded: Loaded) -> list[str]:
    """Tell that the agent of a file without agents is gone, because the file names another one now."""
    now = frozenset(loaded.config.agents.members())
    if MAIN_AGENT not in before - now:
        return []
    others = ", ".join(sorted(now))
    keep = hint(f"config set agents.entries.{MAIN_AGENT} '{{default: true}}'")
    return [
        f"the agent {MAIN_AGENT} was there only because no other was named; {others} answers now. To keep it: {keep}"
    ]


@contextmanager
def _unchanged() -> Iterator[None]:
    """Say first that nothing was changed when a change is refused: the places that follow are in no file."""
    try:
        yield
    except InvalidConfig:
        warn("nothing was changed, because the file would then say:")
        raise


def schema(arguments: Arguments) -> int:
    """Print the JSON schema of the file."""
    call = Call.of(arguments)
    found = ask(call, "config.schema")["schema"] if call.url else json_schema()
    json.dump(found, sys.stdout, indent=2, ensure_ascii=False)
    print()
    return 0


def path(arguments: Arguments) -> int:
    """Print where the configuration and the state are."""
    call = Call.of(arguments)
    data = {"config": str(call.site.config_path), "state_dir": str(call.site.state_dir)}
    call.show(data, lambda _: [data["config"]])
    return 0


def _load(call: Call) -> Loaded:
    return load_config(call.site.config_path, environ=call.environ, state_dir=call.site.state_dir)


def _writer(call: Call) -> ConfigWriter:
    return ConfigWriter(call.site.config_path, environ=call.environ, state_dir=call.site.state_dir)


def _path(text: str) -> KeyPath:
    try:
        return parse_path(text)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _parsed(text: str) -> object:
    """Read a value as JSON5; what is not JSON5 is the text itself, so that words need no quotes."""
    try:
        return to_plain(parse(text, Path("value")).root)
    except Json5Error as error:
        if text.lstrip()[:1] in ("{", "[", '"', "'"):
            raise ConfigError(f"the value is not JSON5: {error}") from error
        return text


def _told(call: Call, text: str, notes: list[str]) -> int:
    data = {
        "file": str(call.site.config_path),
        "notes": notes,
        "warnings": config_report(call.site, call.environ)["warnings"],
    }
    told = [_told_place(warning) for warning in data["warnings"]]
    call.show(data, lambda style: [text, *notes, *(f"{style.paint('warning', 'yellow')}  {line}" for line in told)])
    return 0
