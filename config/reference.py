"""The reference page of all settings, written from the models so that it cannot go stale."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tidegate.config.model import SECTIONS
from tidegate.config.schema import field_docs
from tidegate.config.sections.base import ModelChoice, SecretRef, Section
from tidegate.config.sections.bindings import AccessGroup, Binding
from tidegate.config.sections.telegram import TelegramAccount

_INTRO = """# Configuration reference

Made by `scripts/config_reference.py` from the models in `config/sections/`; change it there.

One JSON5 file, `~/.tidegate/tidegate.json` unless `--config` or `TIDEGATE_CONFIG` names another. Any text may hold
`${NAME}` (process environment, then `.env` in the state directory, then `env.vars`); `$${NAME}` stands for the text
itself. `$include` joins other files below the same folder. A key that nobody knows is an error; a key that OpenClaw
knows and this version does not use is a warning.
"""

_SIMPLE = {str: "text", int: "integer", float: "number", bool: "true/false", timedelta: "duration", Any: "anything"}


def reference() -> str:
    """The whole page, in Markdown."""
    parts = [_INTRO]
    sections: dict[str, type[Section]] = {**SECTIONS, "bindings[]": Binding, "accessGroups.<name>": AccessGroup}
    for key, model in sorted(sections.items()):
        parts.append(f"\n## {key}\n\n{(model.__doc__ or '').strip()}\n\n")
        parts.append("| key | value | default | meaning |\n|---|---|---|---|\n")
        parts.extend(_rows(model, key, 0))
    return "".join(parts)


def _rows(model: type[Section], prefix: str, depth: int) -> Iterator[str]:
    docs = field_docs(model)
    for name, info in model.model_fields.items():
        path = f"{prefix}.{info.alias or name}"
        cells = (f"`{path}`", _value(info.annotation), _default(info), docs.get(name, ""))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
        if name == "accounts" and prefix == "channels.telegram":
            continue
        for suffix, nested in _nested(info.annotation):
            if nested not in (SecretRef, ModelChoice, TelegramAccount) and depth < 6:
                yield from _rows(nested, path + suffix, depth + 1)


def _nested(annotation: Any) -> Iterator[tuple[str, type[Section]]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if issubclass(annotation, Section):
            yield "", annotation
        return
    origin, arguments = get_origin(annotation), get_args(annotation)
    suffix = ".<key>" if origin is dict else "[]" if origin is tuple else ""
    inner = arguments[1:] if origin is dict else arguments[:1] if origin in (tuple, Annotated) else arguments
    for argument in inner:
        for below, model in _nested(argument):
            yield suffix + below, model


def _value(annotation: Any) -> str:
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return "text or object" if annotation is ModelChoice else "object"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _value(arguments[0])
    if origin is Literal:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_value(item) for item in arguments if item is not type(None)))
    if origin is tuple:
        return f"list of {_value(arguments[0])}"
    if origin is dict:
        return f"map to {_value(arguments[1])}"
    return "anything"


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True, validated_data={})
    if value is None or isinstance(value, BaseModel) or value in ((), {}):
        return ""
    if isinstance(value, timedelta):
        return f"`{_spell(value)}`"
    return f"`{json.dumps(value, default=list)}`"


def _spell(value: timedelta) -> str:
    seconds = int(value.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
