"""Changing one key of a JSON5 text and leaving everything else as its author wrote it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tidegate.config.json5 import Document, Node, Slot, parse, to_plain
from tidegate.config.paths import KeyPath, format_path

_BARE_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_INDENT = re.compile(r"[ \t]*")
_SAME_LINE_COMMENT = re.compile(r"[ \t]*(?://[^\n\r]*|/\*[^\n\r]*?\*/[ \t]*(?=[\n\r]|$))?")
_SHORT_LINE = 60


class EditError(ValueError):
    """The path does not fit the document, for instance a key inside a list."""


def set_value(text: str, path: KeyPath, value: object, file: Path = Path("configuration")) -> str:
    """Put a value at a path; missing objects on the way are made. An index equal to a list's length appends.

    Args:
        file: Named in errors only.

    Raises:
        EditError: A part of the path is not an object or list.
        Json5Error: The text is not JSON5.
    """
    text = text if text.strip() else "{}\n"
    document = parse(text, file)
    node = document.root
    for depth, part in enumerate(path):
        slot = _slot(node, part, path[:depth])
        if slot is None:
            rest = path[depth + 1 :]
            edited = _insert(text, document, node, part, _nested(rest, value))
            return _checked(edited, document, path, value)
        node = slot.node
    rendered = render(value, _indent_at(text, node.start), _unit(text))
    return _checked(text[: node.start] + rendered + text[node.end :], document, path, value)


def unset_value(text: str, path: KeyPath, file: Path = Path("configuration")) -> str:
    """Take a key or an item away, with the comment behind it if it has a line of its own.

    Args:
        file: Named in errors only.

    Raises:
        KeyError: There is nothing at the path.
        EditError: A part of the path is not an object or list.
        Json5Error: The text is not JSON5.
    """
    document = parse(text if text.strip() else "{}", file)
    node, parent = document.root, document.root
    for depth, part in enumerate(path):
        slot = _slot(node, part, path[:depth])
        if slot is None:
            raise KeyError(format_path(path))
        parent, node, last = node, slot.node, slot
    return _remove(text, parent, last)


def is_bare(text: str, path: KeyPath) -> bool:
    """Tell whether an object stands at a path that holds nothing at all, not even a comment."""
    node = parse(text, Path("configuration")).root
    for depth, part in enumerate(path):
        slot = _slot(node, part, path[:depth])
        if slot is None:
            return False
        node = slot.node
    return node.value == {} and not text[node.start + 1 : node.end - 1].strip()


def render(value: object, indent: str = "", unit: str = "  ") -> str:
    """A value as JSON5, on one line if it is short, else one member a line."""
    if isinstance(value, dict | list) and value:
        flat = _flat(value)
        if len(flat) <= _SHORT_LINE:
            return flat
        inner = indent + unit
        if isinstance(value, dict):
            lines = [f"{inner}{_key(key)}: {render(item, inner, unit)},\n" for key, item in value.items()]
            return "{\n" + "".join(lines) + indent + "}"
        return "[\n" + "".join(f"{inner}{render(item, inner, unit)},\n" for item in value) + indent + "]"
    return _flat(value)


def _flat(value: object) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(key)}: {_flat(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flat(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _key(key: object) -> str:
    text = str(key)
    return text if _BARE_KEY.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _nested(path: KeyPath, value: object) -> object:
    for part in reversed(path):
        if isinstance(part, int):
            if part != 0:
                raise EditError(f"a new list begins at [0], not at [{part}]")
            value = [value]
        else:
            value = {part: value}
    return value


def _slot(node: Node, part: str | int, path: KeyPath) -> Slot | None:
    where = format_path(path) or "the document"
    if isinstance(node.value, dict):
        if isinstance(part, int):
            raise EditError(f"{where} is an object; [{part}] needs a list")
        return node.value.get(part)
    if isinstance(node.value, list):
        if not isinstance(part, int):
            raise EditError(f"{where} is a list; '{part}' needs an object")
        if part > len(node.value):
            raise EditError(f"{where} has {len(node.value)} items; [{part}] is beyond its end")
        return node.value[part] if part < len(node.value) else None
    raise EditError(f"{where} is neither an object nor a list")


def _insert(text: str, document: Document, parent: Node, part: str | int, value: object) -> str:
    slots = list(parent.value.values()) if isinstance(parent.value, dict) else parent.value
    if not isinstance(slots, list):
        raise EditError("only objects and lists have members")
    slots = sorted(slots, key=lambda slot: slot.start)
    label = "" if isinstance(part, int) else f"{_key(part)}: "
    unit = _unit(text)
    multiline = "\n" in text[parent.start : parent.end]
    closer = parent.end - 1
    if not slots and not multiline:
        return _insert_into_empty(text, parent, label, value, unit)
    if multiline and (not slots or "\n" in text[_after(slots[-1]) : closer]):
        indent = _indent_at(text, slots[-1].start) if slots else _indent_at(text, closer) + unit
        member = f"{indent}{label}{render(value, indent, unit)},"
        line = text.rfind("\n", 0, closer) + 1
        edited = text[:line] + member + "\n" + text[line:] if not text[line:closer].strip() else ""
        if not edited:
            edited = text[:closer].rstrip(" \t") + "\n" + member + "\n" + _indent_at(text, parent.start) + text[closer:]
        return _with_comma(edited, slots)
    last = slots[-1] if slots else None
    anchor = _after(last) if last is not None else parent.start + 1
    comma = "" if last is None or last.comma >= 0 else ","
    rendered = f"{label}{render(value, _indent_at(text, parent.start), unit)}"
    trailing = "," if last is not None and last.comma >= 0 else ""
    return f"{text[:anchor]}{comma} {rendered}{trailing}{text[anchor:]}"


def _insert_into_empty(text: str, parent: Node, label: str, value: object, unit: str) -> str:
    inside = text[parent.start + 1 : parent.end - 1].rstrip()
    indent = _indent_at(text, parent.start)
    rendered = render(value, indent + unit, unit)
    head, tail = text[: parent.start + 1] + inside, text[parent.end - 1 :]
    if parent.start == 0 or "\n" in rendered:
        return f"{head}\n{indent}{unit}{label}{rendered},\n{indent}{tail}"
    space = " " if label else ""
    return f"{head}{space}{label}{rendered}{space}{tail}"


def _with_comma(text: str, slots: list[Slot]) -> str:
    """Give the member that was last so far the comma it now needs."""
    if not slots or slots[-1].comma >= 0:
        return text
    end = slots[-1].node.end
    return text[:end] + "," + text[end:]


def _remove(text: str, parent: Node, slot: Slot) -> str:
    start, end = slot.start, _after(slot)
    line_start = text.rfind("\n", 0, start) + 1
    rest = _SAME_LINE_COMMENT.match(text, end)
    line_end = rest.end() if rest else end
    alone = not text[line_start:start].strip() and text[line_end : line_end + 1] in ("\n", "\r", "")
    if alone and line_start > parent.start:
        newline = text.find("\n", line_end)
        cut = newline + 1 if newline >= 0 else len(text)
        return text[:line_start] + text[cut:]
    while end < len(text) and text[end] in " \t" and text[start - 1 : start] in (" ", "\t", "{", "["):
        end += 1
    slots = list(parent.value.values()) if isinstance(parent.value, dict) else parent.value
    before = [other for other in slots if other.start < slot.start] if isinstance(slots, list) else []
    if slot.comma < 0 and before:
        # The comma before goes as well, unless a comment stands between.
        previous = max(before, key=lambda other: other.start)
        if not text[previous.comma + 1 : start].strip():
            return text[: previous.comma] + (" " if text[end - 1 : end] == " " else "") + text[end:]
    return text[:start] + text[end:]


def _after(slot: Slot) -> int:
    return slot.comma + 1 if slot.comma >= 0 else slot.node.end


def _indent_at(text: str, offset: int) -> str:
    line = text.rfind("\n", 0, offset) + 1
    match = _INDENT.match(text, line)
    return match[0] if match else ""


def _unit(text: str) -> str:
    """The author's indentation: that of the first indented line, two blanks if there is none."""
    match = re.search(r"\n([ \t]+)[^\s/*]", text)
    return match[1] if match else "  "


def _checked(edited: str, before: Document, path: KeyPath, value: object) -> str:
    """The edit did what it should and nothing else; anything else would be our mistake."""
    expected = to_plain(before.root)
    if not path:
        expected = value
    else:
        target = expected
        for index, part in enumerate(path[:-1]):
            target = _step(target, part, path[index + 1])
        _assign(target, path[-1], value)
    if to_plain(parse(edited, Path("configuration")).root) != json.loads(json.dumps(expected)):
        raise EditError(f"the text around {format_path(path)} is laid out in a way that cannot be edited safely")
    return edited


def _step(target: object, part: str | int, following: str | int) -> object:
    fresh: object = [] if isinstance(following, int) else {}
    if isinstance(target, dict):
        return target.setdefault(part, fresh)
    if isinstance(target, list) and isinstance(part, int):
        if part == len(target):
            target.append(fresh)
        return target[part]
    raise EditError("the path leads through a plain value")


def _assign(target: object, part: str | int, value: object) -> None:
    if isinstance(target, list) and part == len(target):
        target.append(value)
    elif isinstance(target, dict | list):
        target[part] = value  # type: ignore[index]
