"""The configuration as a JSON schema, and what the models' field docstrings say.

The docstrings are read from the source when somebody asks, so that a start does not pay for it.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from typing import Any

from pydantic import TypeAdapter, create_model

from tidegate.config.model import SECTIONS
from tidegate.config.sections.base import Section
from tidegate.config.sections.bindings import AccessGroup, Binding

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """JSON schema of the configuration file: the settings this version uses.

    Settings that are only accepted for compatibility are not in it, so it leaves the root open.
    """
    fields: dict[str, Any] = {name: (model | None, None) for name, model in SECTIONS.items()}
    fields["bindings"] = (tuple[Binding, ...], ())
    fields["accessGroups"] = (dict[str, AccessGroup], {})
    schema = TypeAdapter(create_model("Tidegate", **fields)).json_schema(by_alias=True)
    definitions = schema.get("$defs", {})
    for name, model in SECTIONS.items():
        schema["properties"][name] = schema["properties"][name]["anyOf"][0]
        _describe(schema["properties"][name], model, definitions)
    _describe(schema["properties"]["bindings"]["items"], Binding, definitions)
    _describe(schema["properties"]["accessGroups"]["additionalProperties"], AccessGroup, definitions)
    return {"$schema": SCHEMA_DIALECT, **schema, "title": "Tidegate configuration"}


def field_docs(model: type[Section]) -> dict[str, str]:
    """Attribute name → docstring, for the model's own and inherited fields."""
    docs: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if isinstance(base, type) and issubclass(base, Section) and base is not Section:
            docs.update(_docs_in_module(base.__module__).get(base.__name__, {}))
    return docs


@cache
def _docs_in_module(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    found: dict[str, dict[str, str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = dict(_docs_in_class(node))
    return found


def _docs_in_class(node: ast.ClassDef) -> list[tuple[str, str]]:
    docs: list[tuple[str, str]] = []
    for statement, following in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            docs.append((statement.target.id, " ".join(following.value.value.split())))
    return docs


def models_in(annotation: Any) -> list[type[Section]]:
    """The sections an annotation speaks of, in order."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [model for argument in getattr(annotation, "__args__", ()) for model in models_in(argument)]


def _describe(schema: dict[str, Any], model: type[Section], definitions: dict[str, Any]) -> None:
    """Put docstrings into the objects of a schema that stand for a model."""
    docs = field_docs(model)
    for definition in _objects_in(schema, definitions):
        for attribute, info in model.model_fields.items():
            prop = definition["properties"].get(info.alias or attribute)
            if prop is None:
                continue
            for nested in models_in(info.annotation):
                _describe(prop, nested, definitions)
            prop.pop("title", None)
            if attribute in docs:
                prop["description"] = docs[attribute]


def _objects_in(schema: Any, definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """Objects with named members at or just inside a schema, through references, unions, lists and maps."""
    if not isinstance(schema, dict):
        return []
    if "properties" in schema:
        return [schema]
    inner = [*schema.get("anyOf", ()), *schema.get("oneOf", ()), schema.get("items")]
    inner.append(schema.get("additionalProperties"))
    if "$ref" in schema:
        inner.append(definitions.get(schema["$ref"].rsplit("/", 1)[1]))
    return [found for part in inner for found in _objects_in(part, definitions)]
