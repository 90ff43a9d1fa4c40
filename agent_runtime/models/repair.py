"""Makes sense of tool calls that a model wrote almost right.

Nothing is guessed that could change what a call does: text that was cut off is not completed, and what is
not an object is refused.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any

from tidegate.agent_runtime.messages import ToolCall

MAX_REPAIR_CHARS = 200_000
"""Longer arguments must be right as they are."""

_FENCE = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n?```\s*\Z", re.S)
_STRING_OR_BARE = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])|\b(?:True|False|None|NaN)\b|-?\bInfinity\b', re.S)
_BARE = {"True": "true", "False": "false"} | dict.fromkeys(("None", "NaN", "Infinity", "-Infinity"), "null")


def repair_arguments(text: str) -> dict[str, Any] | None:
    """Return the arguments of a call as an object, or None when they cannot be understood safely.

    Understood are: nothing at all, JSON in a code fence or inside a JSON string, control characters inside
    strings, trailing commas, single quotes, and Python's spelling of literals. NaN becomes null.
    """
    if not text.strip() or text.strip() in ("None", "null"):
        return {}
    value = _load(text)
    if value is None and len(text) <= MAX_REPAIR_CHARS:
        fenced = _FENCE.match(text)
        text = fenced.group(1) if fenced else text
        value = _load(text)
        if value is None:
            value = _load(_STRING_OR_BARE.sub(_spell_as_json, text))
        if value is None:
            value = _load_python(text)
    if isinstance(value, str):
        value = _load(value)
    return value if isinstance(value, dict) and all(isinstance(key, str) for key in value) else None


def _load(text: str) -> Any:
    try:
        return json.loads(text, strict=False, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _spell_as_json(match: re.Match[str]) -> str:
    token = match.group()
    return token if token.startswith('"') else _BARE.get(token, "")


def _load_python(text: str) -> Any:
    """Read a Python literal. Only plain data comes out; nothing is evaluated."""
    if "\\" in text:  # the two languages escape differently: rather ask again than write to a wrong path
        return None
    try:
        value = ast.literal_eval(text.strip())
        return json.loads(json.dumps(value))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME_ALIASES = {"bash": "exec", "shell": "exec", "list": "ls", "list_files": "ls", "list_dir": "ls"}
_FUZZY = 0.84
"""Similarity that a misspelt name needs; one wrong letter in nine passes."""


def repair_tool_name(name: str, known: Collection[str]) -> str:
    """Return the tool of `known` that `name` stands for, else "".

    Case, dashes, spaces, a namespace in front (`functions.`), a `_tool` ending, `()` and stray text after a
    quote do not matter; one misspelt letter in a long name neither.
    """
    plain = re.split(r"[\"'(<\s]*[\"'(<]", name.strip(), maxsplit=1)[0]
    plain = plain.rsplit(".", 1)[-1] if "." in plain else plain
    plain = re.sub(r"[\s-]+", "_", _CAMEL.sub("_", plain.strip())).lower().strip("_")
    while True:
        if plain in known:
            return plain
        if not plain.endswith("_tool"):
            break
        plain = plain.removesuffix("_tool")
    if not plain:
        return ""
    alias = _NAME_ALIASES.get(plain, "")
    if alias in known:
        return alias
    squeezed = {candidate.replace("_", ""): candidate for candidate in known}
    if plain.replace("_", "") in squeezed:
        return squeezed[plain.replace("_", "")]
    longer = [candidate for candidate in known if candidate.startswith(plain + "_")]
    if len(longer) == 1:
        return longer[0]
    close = get_close_matches(plain, known, n=2, cutoff=_FUZZY) if len(plain) >= 6 else []
    return close[0] if len(close) == 1 else ""


_TAGGED = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.S)
_FUNCTION = re.compile(r"<function=([\w.-]+)>\s*(\{.*?\})\s*</function>", re.S)
_BRACKETED = re.compile(r"\A\[TOOL_CALLS\]\s*(\[.*\])\s*\Z", re.S)


def calls_in_text(text: str, known: Collection[str]) -> tuple[ToolCall, ...]:
    """Return the tool calls that a model wrote as text, when the text is nothing else and names known tools.

    Forms: `<tool_call>{…}</tool_call>` (Hermes, Qwen), `<function=name>{…}</function>` (Llama),
    `[TOOL_CALLS] […]` (Mistral), and a bare or fenced `{"name": …, "arguments": {…}}`.
    """
    body = text.strip()
    if not body or len(body) > MAX_REPAIR_CHARS or not known:
        return ()
    if body.startswith("<tool_call>") and not _TAGGED.sub("", body).strip():
        return _calls(map(_load, _TAGGED.findall(body)), known)
    if body.startswith("<function=") and not _FUNCTION.sub("", body).strip():
        found = ({"name": name, "arguments": arguments} for name, arguments in _FUNCTION.findall(body))
        return _calls(found, known)
    bracketed = _BRACKETED.match(body)
    if bracketed:
        listed = _load(bracketed.group(1))
        return _calls(listed if isinstance(listed, list) else (), known)
    fenced = _FENCE.match(body)
    return _calls((_load(fenced.group(1) if fenced else body),), known)


def _calls(items: Iterable[Any], known: Collection[str]) -> tuple[ToolCall, ...]:
    """Return the items as calls; none at all if one of them is not a call of a known tool."""
    calls = []
    for item in items:
        if not isinstance(item, dict) or item.get("name") not in known:
            return ()
        arguments = item.get("arguments", item.get("parameters"))
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if not isinstance(arguments, str) or repair_arguments(arguments) is None:
            return ()
        calls.append(ToolCall("", item["name"], arguments))
    return tuple(calls)
