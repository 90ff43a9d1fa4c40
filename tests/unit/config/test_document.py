from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.document import EditError, render, set_value, unset_value
from tidegate.config.json5 import parse, to_plain
from tidegate.config.paths import KeyPath

names = st.sampled_from(["a", "b", "c-d", "e f", "ü"])
scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["x", "it's", '"', "// no comment", "}"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)
objects = st.dictionaries(names, values, max_size=4)


class Layout:
    """Writes a value the way people do: some parts on one line, some spread out, with numbered comments."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self.comments: list[str] = []

    def comment(self) -> str:
        self.comments.append(f"note {len(self.comments)};")
        return self.comments[-1]

    def write(self, value: Any, indent: str = "") -> str:
        if not isinstance(value, dict | list) or (not value and self._draw(st.booleans())):
            return render(value)
        opener, closer = ("{", "}") if isinstance(value, dict) else ("[", "]")
        pairs = value.items() if isinstance(value, dict) else [(None, item) for item in value]
        inner = indent + "  "
        if self._draw(st.booleans()):
            parts = [self._label(key) + self.write(item, indent) for key, item in pairs]
            tail = "," if parts and self._draw(st.booleans()) else ""
            space = self._draw(st.sampled_from(["", " "]))
            return opener + space + ", ".join(parts) + tail + space + closer
        lines = []
        members = list(pairs)
        for number, (key, item) in enumerate(members):
            if self._draw(st.booleans()):
                lines.append(f"{inner}// {self.comment()}")
            comma = "," if number < len(members) - 1 or self._draw(st.booleans()) else ""
            behind = f" // {self.comment()}" if self._draw(st.booleans()) else ""
            lines.append(f"{inner}{self._label(key)}{self.write(item, inner)}{comma}{behind}")
        if self._draw(st.booleans()):
            lines.append(f"{inner}/* {self.comment()} */")
        return "\n".join([opener, *lines, indent + closer])

    def _label(self, key: str | None) -> str:
        return "" if key is None else render({key: 0})[2:-3]


def places(value: Any, path: KeyPath = ()) -> list[KeyPath]:
    found: list[KeyPath] = [path] if path else []
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in members:
        found.extend(places(item, (*path, key)))
    return found


def containers(value: Any, path: KeyPath = ()) -> list[KeyPath]:
    if not isinstance(value, dict | list):
        return []
    members = value.items() if isinstance(value, dict) else enumerate(value)
    return [path, *(found for key, item in members for found in containers(item, (*path, key)))]


def at(value: Any, path: KeyPath) -> Any:
    for part in path:
        value = value[part]
    return value


def plain(text: str) -> Any:
    return to_plain(parse(text, Path("x")).root)


def order(value: Any) -> Any:
    """Keys in order, so that a comparison notices a changed order."""
    if isinstance(value, dict):
        return [(key, order(item)) for key, item in value.items()]
    return [order(item) for item in value] if isinstance(value, list) else value


@given(st.data(), objects.filter(bool), values)
def test_replacing_a_value_changes_nothing_else(data: st.DataObject, document: Any, value: Any) -> None:
    text = Layout(data.draw).write(document)
    path = data.draw(st.sampled_from(places(document)))
    expected = copy.deepcopy(document)
    at(expected, path[:-1])[path[-1]] = value
    edited = set_value(text, path, value)
    assert order(plain(edited)) == order(expected)
    node = parse(text, Path("x")).root
    for part in path:
        node = node.value[part].node  # type: ignore[index]
    assert edited.startswith(text[: node.start])
    assert edited.endswith(text[node.end :])


@given(st.data(), objects, values)
def test_adding_a_key_keeps_every_comment_and_the_order(data: st.DataObject, document: Any, value: Any) -> None:
    layout = Layout(data.draw)
    text = layout.write(document)
    holder = data.draw(st.sampled_from(containers(document)))
    target = at(document, holder)
    part: str | int = len(target) if isinstance(target, list) else "brand new"
    edited = set_value(text, (*holder, part), value)
    expected = copy.deepcopy(document)
    if isinstance(target, list):
        at(expected, holder).append(value)
    else:
        at(expected, holder)["brand new"] = value
    assert order(plain(edited)) == order(expected)
    assert [comment for comment in layout.comments if comment not in edited] == []


@given(st.data(), objects.filter(bool))
def test_taking_a_key_away_keeps_the_rest(data: st.DataObject, document: Any) -> None:
    text = Layout(data.draw).write(document)
    path = data.draw(st.sampled_from(places(document)))
    expected = copy.deepcopy(document)
    del at(expected, path[:-1])[path[-1]]
    edited = unset_value(text, path)
    assert order(plain(edited)) == order(expected)
    # Only comments inside the removed value or behind it on its line may go.
    kept = set(re.findall(r"note \d+;", edited))
    lost = [note for note in re.findall(r"note \d+;", text) if note not in kept]
    node = parse(text, Path("x")).root
    for part in path:
        slot = node.value[part]  # type: ignore[index]
        node = slot.node
    end_of_line = text.find("\n", slot.node.end)
    region = text[slot.start : end_of_line if end_of_line >= 0 else len(text)]
    assert [note for note in lost if note not in region] == []


def test_a_new_key_joins_its_section_in_the_authors_layout() -> None:
    text = '{\n    // the door\n    gateway: {\n        port: 1, // mine\n    },\n    session: { scope: "global" }\n}\n'
    edited = set_value(text, ("gateway", "bind"), "loopback")
    edited = set_value(edited, ("session", "dmScope"), "main")
    edited = set_value(edited, ("logging", "level"), "debug")
    assert edited == (
        '{\n    // the door\n    gateway: {\n        port: 1, // mine\n        bind: "loopback",\n    },\n'
        '    session: { scope: "global", dmScope: "main" },\n    logging: { level: "debug" },\n}\n'
    )


def test_a_removed_line_takes_its_own_comment_along_and_no_other() -> None:
    text = "{\n  // about a\n  a: 1, // gone\n  b: 2, // stays\n}\n"
    assert unset_value(text, ("a",)) == "{\n  // about a\n  b: 2, // stays\n}\n"


def test_an_empty_file_becomes_an_object() -> None:
    assert plain(set_value("", ("gateway", "port"), 1)) == {"gateway": {"port": 1}}


def test_lists_grow_at_their_end_only() -> None:
    assert plain(set_value("{a: [1]}", ("a", 1), 2)) == {"a": [1, 2]}
    with pytest.raises(EditError, match="beyond its end"):
        set_value("{a: [1]}", ("a", 3), 2)


def test_a_path_through_a_plain_value_is_refused() -> None:
    with pytest.raises(EditError, match="neither an object nor a list"):
        set_value("{a: 1}", ("a", "b"), 2)
    with pytest.raises(EditError, match="needs a list"):
        set_value("{a: {}}", ("a", 0), 2)
    with pytest.raises(EditError, match="needs an object"):
        set_value("{a: []}", ("a", "b"), 2)


def test_what_is_not_there_cannot_be_taken_away() -> None:
    with pytest.raises(KeyError):
        unset_value("{a: 1}", ("b",))
