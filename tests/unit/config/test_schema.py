from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidegate.config.model import SECTIONS
from tidegate.config.reference import reference
from tidegate.config.schema import field_docs, json_schema
from tidegate.config.sections.base import Section
from tidegate.config.sections.bindings import Binding
from tidegate.config.sections.channels import ChannelsSection

ROOT = Path(__file__).resolve().parents[3]


def models(model: type[Section] = Section) -> Iterator[type[Section]]:
    for below in model.__subclasses__():
        yield below
        yield from models(below)


def test_the_committed_reference_page_is_current() -> None:
    page = (ROOT / "docs" / "reference" / "config.md").read_text(encoding="utf-8")
    assert page == reference(), "run scripts/config_reference.py"


def test_every_setting_says_what_it_is() -> None:
    assert Binding in set(models())
    undocumented = [
        f"{model.__name__}.{name}"
        for model in models()
        if model.__module__.startswith("tidegate.")
        for name in model.model_fields
        if not field_docs(model).get(name)
    ]
    assert undocumented == []


def test_the_schema_names_every_section_and_refuses_unknown_keys_in_them() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == {*SECTIONS, "bindings", "accessGroups"}
    gateway = resolve(schema, schema["properties"]["gateway"])
    assert gateway["additionalProperties"] is False
    assert gateway["properties"]["port"]["maximum"] == 65535
    assert gateway["properties"]["port"]["description"] == field_docs(SECTIONS["gateway"])["port"]


def test_nested_settings_are_described_as_well() -> None:
    schema = json_schema()
    channels = resolve(schema, schema["properties"]["channels"])
    telegram = resolve(schema, channels["properties"]["telegram"]["anyOf"][0])
    assert telegram["properties"]["streaming"]["properties"]["mode"]["description"]
    assert "telegram" in ChannelsSection.model_fields


def resolve(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in part:
        part = schema["$defs"][part["$ref"].rsplit("/", 1)[1]]
    return part
