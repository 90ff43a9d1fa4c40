"""The configuration: read without its secrets, changed under the hash of what was read.

A secret reads as `KEPT`; written back like that, it stays what it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from tidegate.config.json5 import Json5Error, parse, to_plain
from tidegate.config.load import Loaded
from tidegate.config.paths import KeyPath, format_path, parse_path
from tidegate.config.problems import InvalidConfig, Problem, ProblemKind, WriteRefused
from tidegate.config.schema import json_schema
from tidegate.config.sources import INCLUDE, read_text
from tidegate.config.store import REMOVED, ConfigWriter
from tidegate.config.view import MASK, redacted
from tidegate.gateway.plane.contract import Call, Code, Method, NoParams, Params, PlaneEvent, RpcError, Scope
from tidegate.gateway.plane.methods.desk import Desk
from tidegate.gateway.plane.methods.settings_text import shown_text, value_of

KEPT = "__OPENCLAW_REDACTED__"
"""Stands for a secret in what clients read and write."""
HASH = "sha256:v1:"
MAX_RAW = 1 << 20
STALE = "config changed since last load; re-run config.get and retry"
Raw = Annotated[str, Field(min_length=1, max_length=MAX_RAW)]


class ConfigSet(Params):
    """`config.set`."""

    raw: Raw
    baseHash: Annotated[str, Field(min_length=1)] | None = None


class ConfigApply(ConfigSet):
    """`config.apply`."""

    sessionKey: str | None = None
    deliveryContext: dict[str, Any] | None = None
    note: str | None = None
    restartDelayMs: Annotated[int, Field(ge=0)] | None = None


class ConfigPatch(ConfigApply):
    """`config.patch`."""

    replacePaths: Annotated[list[str], Field(max_length=256)] | None = None


class SchemaLookup(Params):
    """`config.schema.lookup`."""

    path: Annotated[str, Field(min_length=1, max_length=1024)]


class Settings:
    """The methods."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def _writer(self) -> ConfigWriter:
        gateway = self._desk.gateway
        return ConfigWriter(
            gateway.site.config_path, environ=gateway.loaded.environment, state_dir=gateway.site.state_dir
        )

    def _hash(self) -> str:
        return HASH + self._writer().base_hash()

    async def get(self, call: Call) -> Any:
        """Return the configuration without its secrets; comments, which may hold anything, to an admin only."""
        return await asyncio.to_thread(self._get, with_comments=call.caller.may(Scope.ADMIN))

    def _get(self, *, with_comments: bool) -> dict[str, Any]:
        gateway = self._desk.gateway
        path = gateway.site.config_path
        text, plain, problems = self._read()
        config_hash = self._hash()
        in_force = _shown(gateway.loaded.config.effective())
        source = _shown(plain)
        return {
            "path": str(path),
            "exists": path.exists(),
            "raw": shown_text(text, path, _shown, with_comments=with_comments) if text else "",
            "parsed": source,
            "sourceConfig": source,
            "resolved": in_force,
            "runtimeConfig": in_force,
            "config": in_force,
            "valid": not problems,
            "hash": config_hash,
            "configRevisionHash": config_hash,
            "issues": problems,
            "warnings": [{"path": item.path, "message": item.message} for item in gateway.loaded.warnings],
            "legacyIssues": [],
            "includedPaths": [str(file) for file in gateway.loaded.files if file != path],
            "includeProvenance": [],
            "agentRosterIncludeOwned": False,
            "bindingsIncludeOwned": False,
        }

    def _read(self) -> tuple[str, dict[str, Any], list[dict[str, str]]]:
        """Return the main file's text, its plain data, and what is wrong with it."""
        path = self._desk.gateway.site.config_path
        try:
            text = read_text(path)
            return text, _object(to_plain(parse(text, path).root)), []
        except FileNotFoundError:
            return "", {}, []
        except (Json5Error, OSError, ValueError) as error:
            return "", {}, [{"path": "", "message": str(error)}]

    async def set(self, call: Call) -> Any:
        """Make the file say what `raw` says; its comments and layout stay where they can."""
        params: ConfigSet = call.params
        wanted = self._parse(params.raw)
        if params.baseHash is None:
            raise RpcError(Code.INVALID_REQUEST, "config base hash required; re-run config.get and retry with baseHash")
        _, before, _ = await asyncio.to_thread(self._read)
        changes = list(_difference(before, _restored(wanted, before)))
        return await self.change(changes, params.baseHash, "config-apply", None)

    async def patch(self, call: Call) -> Any:
        """Merge a patch into the file: objects merge, null removes, everything else replaces."""
        params: ConfigPatch = call.params
        patch = self._parse(params.raw)
        _, before, _ = await asyncio.to_thread(self._read)
        changes = list(_merge(before, _restored(patch, before)))
        if params.baseHash is None:
            where = ", ".join(format_path(path) for path, _ in changes) or "this change"
            message = f"config base hash required for {where}; re-run config.get and retry with baseHash"
            raise RpcError(Code.INVALID_REQUEST, message)
        return await self.change(changes, params.baseHash, "config-patch", params.note)

    def _parse(self, raw: str) -> dict[str, Any]:
        path = self._desk.gateway.site.config_path
        try:
            return _object(to_plain(parse(raw, path).root))
        except Json5Error as error:
            raise RpcError(Code.INVALID_REQUEST, f"SyntaxError: JSON5: {error}") from error
        except ValueError as error:
            raise RpcError(Code.INVALID_REQUEST, str(error)) from error

    async def read(self) -> tuple[dict[str, Any], str]:
        """Return what the file says, and the hash that a change of it has to name."""
        config_hash = await asyncio.to_thread(self._hash)
        _, plain, problems = await asyncio.to_thread(self._read)
        if problems:
            raise RpcError(Code.UNAVAILABLE, f"the configuration cannot be read: {problems[0]['message']}")
        return plain, config_hash

    async def change(
        self, changes: list[tuple[KeyPath, object]], base_hash: str, kind: str, note: str | None
    ) -> dict[str, Any]:
        """Change the file if it is still what the hash says, and go on with it. Raises RpcError."""
        desk = self._desk
        writer = self._writer()
        if base_hash.removeprefix(HASH) != await asyncio.to_thread(writer.base_hash):
            raise RpcError(Code.INVALID_REQUEST, STALE)
        try:
            loaded: Loaded = await asyncio.to_thread(writer.change, changes, base_hash.removeprefix(HASH))
        except InvalidConfig as error:
            raise _refused(error) from error
        except WriteRefused as error:
            text = STALE if "changed by somebody else" in str(error) else str(error)
            raise RpcError(Code.INVALID_REQUEST, text) from error
        paths = [format_path(path) for path, _ in changes]
        path, now = str(desk.gateway.site.config_path), desk.now()
        config_hash = await asyncio.to_thread(self._hash)
        desk.hub.publish(PlaneEvent("chat.metadata.changed", {}))
        desk.hub.publish(PlaneEvent("config.changed", {"path": path, "hash": config_hash, "ts": now}))
        notice = {"kind": kind, "status": "ok", "ts": now, "message": note, "doctorHint": "tidegate doctor"}
        answer: dict[str, Any] = {
            "ok": True,
            "path": path,
            "hash": config_hash,
            "config": _shown(loaded.config.effective()),
            "changedPaths": paths,
            "sentinel": {"persisted": False, "payload": notice},
        }
        try:
            answer["reload"] = dict(await desk.gateway.control.reload())
        except ValueError:
            # Nobody reads the file again by himself here; it counts at the next start.
            answer["restart"] = {"required": True}
        return answer

    async def schema(self, _: Call) -> Any:
        """Return the JSON schema of the configuration."""
        return {"schema": await asyncio.to_thread(json_schema), "uiHints": {}, "version": "1"}

    async def lookup(self, call: Call) -> Any:
        """Return the schema of one key and its children."""
        params: SchemaLookup = call.params
        try:
            path = parse_path(params.path)
        except ValueError as error:
            raise RpcError(Code.INVALID_REQUEST, str(error)) from error
        whole = await asyncio.to_thread(json_schema)
        found = _descend(whole, path)
        if found is None:
            raise RpcError(Code.INVALID_REQUEST, f"config path not found: {params.path}")
        children = []
        for key, child in sorted(found.get("properties", {}).items()):
            inner = _resolved(whole, child)
            children.append(
                {
                    "key": key,
                    "path": f"{params.path}.{key}",
                    "type": inner.get("type"),
                    "required": key in found.get("required", ()),
                    "hasChildren": "properties" in inner,
                    "hint": {"label": key, "help": inner.get("description", ""), "advanced": False},
                }
            )
        plain = {name: value for name, value in found.items() if name not in ("properties", "$defs")}
        hint = {"label": str(path[-1]), "help": found.get("description", ""), "advanced": False}
        reload_kind = "restart" if path[0] == "gateway" else "hot"
        about = {"reloadKind": reload_kind, "hint": hint, "hintPath": params.path}
        return {"path": params.path, "schema": plain, **about, "children": children}


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a configuration is an object")
    return value


def _shown(data: object) -> Any:
    """Return data with every secret replaced."""
    return _kept(redacted(data))


def _kept(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _kept(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_kept(value) for value in data]
    if isinstance(data, str):
        return KEPT if data == MASK else data
    return data if isinstance(data, int | float | bool) or data is None else str(data)


def _restored(data: Any, before: Any, path: KeyPath = ()) -> Any:
    """Return what a client wrote, with the secrets that it was not shown. Raises RpcError where there is none."""
    if isinstance(data, Mapping):
        return {key: _restored(value, before, (*path, str(key))) for key, value in data.items()}
    if isinstance(data, list):
        return [_restored(value, before, (*path, index)) for index, value in enumerate(data)]
    if not isinstance(data, str) or (KEPT not in data and MASK not in data):
        return data
    old = value_of(before, path)
    if old is not None and value_of(_shown(before), path) == data:
        return old
    if KEPT in data:
        raise RpcError(Code.INVALID_REQUEST, f"{format_path(path)} has no value that could be kept; state it")
    return data


def _merge(before: Any, patch: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Yield the single changes that a merge patch makes (RFC 7386)."""
    for key, value in patch.items():
        here = (*path, key)
        old = before.get(key) if isinstance(before, Mapping) else None
        if value is None:
            yield here, REMOVED
        elif isinstance(value, Mapping) and isinstance(old, Mapping):
            yield from _merge(old, value, here)
        elif value != old or type(value) is not type(old):
            yield here, _without_nulls(value)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def _difference(before: Any, after: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Yield the single changes between two states of a file."""
    for key in before:
        if key not in after:
            yield (*path, key), REMOVED
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping) and INCLUDE not in value:
            yield from _difference(old, value, (*path, key))
        elif key not in before or value != old or type(value) is not type(old):
            yield (*path, key), value


def _refused(error: InvalidConfig) -> RpcError:
    issues = [_issue(problem) for problem in error.problems]
    first = issues[0] if issues else {"path": "", "message": str(error)}
    where = f"{first['path']}: " if first["path"] else ""
    return RpcError(Code.INVALID_REQUEST, f"invalid config: {where}{first['message']}", {"issues": issues})


def _issue(problem: Problem) -> dict[str, str]:
    """Return a problem in the words that clients look for."""
    if problem.kind is ProblemKind.UNKNOWN_KEY and problem.path:
        section, _, key = problem.path.rpartition(".")
        return {"path": section, "message": f'Unrecognized key: "{key}"'}
    return {"path": problem.path, "message": problem.message}


def _resolved(whole: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Follow references, and take the object of several possible kinds."""
    for _ in range(8):
        reference = schema.get("$ref")
        if reference is None:
            choices = [item for item in schema.get("anyOf", ()) if item.get("type") != "null"]
            if len(choices) != 1:
                break
            schema = {**{k: v for k, v in schema.items() if k != "anyOf"}, **choices[0]}
            continue
        target: Any = whole
        for part in str(reference).removeprefix("#/").split("/"):
            target = target[part]
        schema = {**target, **{k: v for k, v in schema.items() if k != "$ref"}}
    return schema


def _descend(whole: dict[str, Any], path: KeyPath) -> dict[str, Any] | None:
    found = _resolved(whole, whole)
    for part in path:
        if part in found.get("properties", {}):
            found = _resolved(whole, found["properties"][part])
        elif isinstance(part, int) and isinstance(found.get("items"), dict):
            found = _resolved(whole, found["items"])
        elif isinstance(found.get("additionalProperties"), dict):
            found = _resolved(whole, found["additionalProperties"])
        else:
            return None
    return found


def settings_methods(desk: Desk) -> list[Method]:
    """Return the methods."""
    s = Settings(desk)
    return [
        Method("config.get", NoParams, s.get, Scope.READ),
        Method("config.set", ConfigSet, s.set, Scope.ADMIN),
        Method("config.apply", ConfigApply, s.set, Scope.ADMIN, write_budget=True),
        Method("config.patch", ConfigPatch, s.patch, Scope.ADMIN, write_budget=True),
        Method("config.schema", NoParams, s.schema, Scope.READ),
        Method("config.schema.lookup", SchemaLookup, s.lookup, Scope.READ),
    ]
