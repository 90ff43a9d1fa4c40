"""From the joined tree to validated sections; every complaint keeps its place."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tidegate.config import known_keys
from tidegate.config.environment import substitute
from tidegate.config.json5 import Node
from tidegate.config.model import SECTIONS
from tidegate.config.paths import KeyPath, format_path
from tidegate.config.problems import Problem, ProblemKind
from tidegate.config.sections.base import NESTED_ERROR, Section
from tidegate.config.sections.bindings import AccessGroup, Binding
from tidegate.config.sections.channels import AVAILABLE_CHANNELS, CHANNEL_SETTINGS, KNOWN_CHANNELS
from tidegate.config.sources import child, descend, locate_key, locate_node

S = TypeVar("S", bound=Section)

TOP_LEVEL = frozenset({*SECTIONS, "bindings", "accessGroups"})
TOLERATED = frozenset({"$schema", "meta", "wizard"})
"""Root keys that other tools write and nobody needs to hear about."""

_EXPECTED = {
    "string_type": "expected text in quotes",
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "bool_type": "expected true or false",
    "dict_type": "expected an object: { … }",
    "model_type": "expected an object: { … }",
    "tuple_type": "expected a list: [ … ]",
    "list_type": "expected a list: [ … ]",
}

_MOVED = {
    "session.idleMinutes": "write it as session.reset.idleMinutes",
    "session.resetByType.dm": "write it as session.resetByType.direct",
    "messages.tts": "write it as tts, at the root",
    "agents.defaults.memorySearch": "write it as memory.search, at the root",
}
"""Places of settings in older files of OpenClaw, and where they belong now."""


@dataclass(slots=True)
class Findings:
    """Problems and warnings collected while one configuration is read."""

    root: Node | None
    main: Path
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def at(
        self, path: KeyPath, message: str, hint: str = "", kind: ProblemKind = ProblemKind.INVALID, key: bool = False
    ) -> Problem:
        """A problem at a path's value, or at its key."""
        place = locate_key(self.root, path) if key else locate_node(self.root, path)
        line, column, file = 1, 1, self.main
        if place is not None:
            file = place[0].file
            line, column = place[0].position(place[1])
        return Problem(file, line, column, format_path(path), message, hint, kind)

    def refuse(
        self, path: KeyPath, message: str, hint: str = "", kind: ProblemKind = ProblemKind.INVALID, key: bool = False
    ) -> None:
        """Note something that makes the configuration unusable."""
        self.problems.append(self.at(path, message, hint, kind, key))

    def warn(
        self, path: KeyPath, message: str, hint: str = "", kind: ProblemKind = ProblemKind.INVALID, key: bool = False
    ) -> None:
        """Note something the operator should know."""
        self.warnings.append(self.at(path, message, hint, kind, key))


def plain_data(findings: Findings, environment: Mapping[str, str], dotenv: Path | None = None) -> dict[str, Any]:
    """The tree as plain data with `${NAME}` filled in; missing names are warned about and left as written.

    Args:
        dotenv: The file of variables, named in hints.
    """
    place = f"{dotenv} or the environment" if dotenv is not None else "the environment"

    def convert(node: Node, path: KeyPath) -> Any:
        if isinstance(node.value, dict):
            return {key: convert(slot.node, (*path, key)) for key, slot in node.value.items()}
        if isinstance(node.value, list):
            return [convert(slot.node, (*path, index)) for index, slot in enumerate(node.value)]
        if not isinstance(node.value, str):
            return node.value
        text, missing = substitute(node.value, environment)
        for name in missing:
            message = f"the variable {name} is not set; what needs this value will not work"
            findings.warn(path, message, f"set {name} in {place}", ProblemKind.MISSING_VALUE)
        return text

    data = convert(findings.root, ()) if findings.root is not None else {}
    return data if isinstance(data, dict) else {}


class Validator:
    """Validates the sections that are present, in the file's order."""

    def __init__(self, findings: Findings, data: Mapping[str, Any]) -> None:
        self._findings = findings
        self._data = data

    def sections(self) -> dict[str, Any]:
        """Constructor arguments for `Config`; sections with problems are missing."""
        found: dict[str, Any] = {}
        for key, value in self._data.items():
            if key in SECTIONS:
                value = self._channels(value) if key == "channels" else value
                section = self._validate(SECTIONS[key], value, (key,))
                if section is not None:
                    found[key] = section
            elif key == "bindings":
                found["bindings"] = self._bindings(value)
            elif key == "accessGroups":
                found["access_groups"] = self._access_groups(value)
            elif key not in TOLERATED:
                self._unused((key,), TOP_LEVEL)
        return found

    def _bindings(self, value: object) -> tuple[Binding, ...]:
        if not isinstance(value, list):
            self._findings.refuse(("bindings",), "expected a list: [ … ]")
            return ()
        bindings = (self._validate(Binding, item, ("bindings", index)) for index, item in enumerate(value))
        return tuple(binding for binding in bindings if binding is not None)

    def _access_groups(self, value: object) -> dict[str, AccessGroup]:
        if not isinstance(value, dict):
            self._findings.refuse(("accessGroups",), "expected an object: { … }")
            return {}
        groups = {name: self._validate(AccessGroup, item, ("accessGroups", name)) for name, item in value.items()}
        return {name: group for name, group in groups.items() if group is not None}

    def _channels(self, value: object) -> object:
        if not isinstance(value, dict):
            return value
        kept = dict(value)
        for name in value:
            path = ("channels", name)
            if name in AVAILABLE_CHANNELS or name in CHANNEL_SETTINGS:
                continue
            del kept[name]
            if name in KNOWN_CHANNELS:
                message = "this channel is not available in this version; its settings are not used"
                self._findings.warn(path, message, kind=ProblemKind.UNSUPPORTED, key=True)
                self._unknown_inside(path)
            else:
                self._unknown(path, KNOWN_CHANNELS | CHANNEL_SETTINGS, "unknown channel")
        return kept

    def _validate(self, model: type[S], value: object, prefix: KeyPath) -> S | None:
        try:
            return model.model_validate(value)
        except ValidationError as error:
            errors = _flat(error.errors(include_url=False))
        extra = [details for details in errors if details["type"] == "extra_forbidden"]
        if extra:
            trimmed = copy.deepcopy(value)
            for details in extra:
                path = self._path(details, prefix)
                self._unused(path, _field_names(model, details["loc"][:-1]))
                _remove(trimmed, path[len(prefix) :])
            try:
                section = model.model_validate(trimmed)
            except ValidationError as error:
                errors = _flat(error.errors(include_url=False))
            else:
                return section
        seen: set[KeyPath] = set()
        for details in errors:
            path = self._path(details, prefix)
            if details["type"] != "extra_forbidden" and path not in seen:
                seen.add(path)
                self._explain(details, path)
        return None

    def _path(self, details: ErrorDetails, prefix: KeyPath) -> KeyPath:
        """The error's place in the file: names of union branches are no keys and are left out."""
        node = descend(self._findings.root, prefix)
        path = prefix
        for number, part in enumerate(details["loc"]):
            slot = child(node, part) if node is not None else None
            last = number == len(details["loc"]) - 1
            if slot is not None:
                node, path = slot.node, (*path, part)
            elif last and details["type"] in ("missing", "extra_forbidden"):
                path = (*path, part)
        return path

    def _explain(self, details: ErrorDetails, path: KeyPath) -> None:
        kind = details["type"]
        given = details["input"]
        if kind == "missing":
            self._findings.refuse(path, "this key is required")
            return
        message, hint = _EXPECTED.get(kind, ""), ""
        if message:
            message = f"{message}, found {_kind_of(given)}"
            hint = (
                f"write it as {{ mode: '{given[:20]}' }}" if path[-1] == "streaming" and isinstance(given, str) else ""
            )
        elif kind == "literal_error":
            allowed = details.get("ctx", {}).get("expected", "")
            message = f"must be {allowed}"
            if isinstance(given, str):
                close = known_keys.nearest(given, allowed.replace("'", "").replace(" or ", ", ").split(", "))
                hint = f"did you mean '{close}'?" if close else ""
                message += f", found '{given[:40]}'"
            else:
                message += f", found {_kind_of(given)}"
        else:
            message = details["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
            message = message[:1].lower() + message[1:]
        self._findings.refuse(path, message, hint)

    def _unused(self, path: KeyPath, ours: Iterable[str]) -> None:
        """Warn about a key that OpenClaw knows and we do not use; refuse a key that nobody knows."""
        known = known_keys.find(path)
        if known is None:
            siblings = known_keys.find(path[:-1]) or {}
            self._unknown(path, {*ours, *siblings} - {"*", "[]"}, "unknown key")
            return
        message = "this setting is not used in this version"
        self._findings.warn(path, message, kind=ProblemKind.UNSUPPORTED, key=True)
        self._unknown_inside(path)

    def _unknown_inside(self, path: KeyPath) -> None:
        node = descend(self._findings.root, path)
        if node is None:
            return
        for below, _ in known_keys.unknown_below(node, path):
            siblings = known_keys.find(below[:-1]) or {}
            self._unknown(below, set(siblings) - {"*", "[]"}, "unknown key")

    def _unknown(self, path: KeyPath, candidates: Iterable[str], what: str) -> None:
        key = str(path[-1])
        moved = _MOVED.get(format_path(path))
        if moved:
            hint = moved
        elif path[:-1] == ("env",) and key.isupper():
            hint = f"write it as env.vars.{key}"
        else:
            close = known_keys.nearest(key, sorted(candidates))
            hint = f"did you mean '{close}'?" if close and close != key else ""
        self._findings.refuse(path, f"{what} '{key}'", hint, ProblemKind.UNKNOWN_KEY, key=True)


def _flat(errors: list[ErrorDetails], loc: tuple[int | str, ...] = ()) -> list[ErrorDetails]:
    """Errors of nested sections beside those of their parents, each with its whole place."""
    flat: list[ErrorDetails] = []
    for details in errors:
        place = (*loc, *details["loc"])
        if details["type"] == NESTED_ERROR:
            flat.extend(_flat(details["ctx"]["errors"], place))
        else:
            flat.append({**details, "loc": place})
    return flat


def _kind_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    for types, name in (((int, float), "a number"), (str, "text"), (dict, "an object"), (list, "a list")):
        if isinstance(value, types):
            return name
    return "something else"


def _field_names(model: type[Section], loc: tuple[str | int, ...]) -> set[str]:
    """The keys our model of the section at `loc` has; the section's own if we cannot tell."""
    current = model
    for part in loc:
        nested = next((f for f in current.model_fields.values() if f.alias == part), None)
        candidates = _models_in(nested.annotation) if nested is not None else []
        current = candidates[0] if candidates else current
    return {info.alias or name for name, info in current.model_fields.items()}


def _models_in(annotation: Any) -> list[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [model for argument in getattr(annotation, "__args__", ()) for model in _models_in(argument)]


def _remove(value: Any, path: KeyPath) -> None:
    for part in path[:-1]:
        value = value[part]
    value.pop(path[-1], None)
