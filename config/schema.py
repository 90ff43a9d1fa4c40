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
    root = create_model("Tidegate", **fields)
    schema = TypeAdapter(root).json_schema(by_alias=True)
    for name, definition in schema.get("$defs", {}).items():
        _describe(definition, _model_named(name))
    for name, model in SECTIONS.items():
        schema["properties"][name] = {"$ref": f"#/$defs/{model.__name__}"}
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


def _model_named(name: str) -> type[Section] | None:
    pending: list[type[Section]] = [Section]
    while pending:
        model = pending.pop()
        if model.__name__ == name:
            return model
        pending.extend(model.__subclasses__())
    return None


def _describe(definition: dict[str, Any], model: type[Section] | None) -> None:
    if model is None:
        return
    docs = field_docs(model)
    for attribute, info in model.model_fields.items():
        prop = definition.get("properties", {}).get(info.alias or attribute)
        if prop is not None and attribute in docs:
            prop["description"] = docs[attribute]
            prop.pop("title", None)
