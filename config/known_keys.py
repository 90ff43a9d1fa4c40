"""Keys that OpenClaw knows, so that a key we do not use yet can be told from a typing mistake.

The list is read when an unknown key is met, not before.
"""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path

from tidegate.config.json5 import Node, Slot
from tidegate.config.paths import KeyPath

KeyTree = dict[str, "KeyTree"]

_FILE = Path(__file__).with_name("openclaw_keys.txt")
_ANY_KEY = "*"
_ANY_ITEM = "[]"


@cache
def key_tree() -> KeyTree:
    """All known keys, nested; `*` stands for any key, `[]` for any item, no children for an open value."""
    root: KeyTree = {}
    stack: list[KeyTree] = [root]
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        name = line.lstrip(" ")
        if not name or name.startswith("#"):
            continue
        depth = len(line) - len(name)
        del stack[depth + 1 :]
        stack.append(stack[-1].setdefault(name, {}))
    return root


def find(path: KeyPath) -> KeyTree | None:
    """What is known below a path; None when nobody knows it."""
    tree = key_tree()
    for depth, part in enumerate(path):
        if depth and not tree:
            return tree
        found = tree.get(_ANY_ITEM) if isinstance(part, int) else tree.get(part, tree.get(_ANY_KEY))
        if found is None:
            return None
        tree = found
    return tree


def unknown_below(node: Node, path: KeyPath) -> list[tuple[KeyPath, Slot]]:
    """Keys inside a known but unused section that nobody knows either."""
    known = find(path)
    return [] if not known else _unknown(node, path, known)


def _unknown(node: Node, path: KeyPath, known: KeyTree) -> list[tuple[KeyPath, Slot]]:
    found: list[tuple[KeyPath, Slot]] = []
    if isinstance(node.value, dict):
        for key, slot in node.value.items():
            below = known.get(key, known.get(_ANY_KEY))
            if below is None:
                found.append(((*path, key), slot))
            elif below:
                found.extend(_unknown(slot.node, (*path, key), below))
    elif isinstance(node.value, list) and known.get(_ANY_ITEM):
        for index, slot in enumerate(node.value):
            found.extend(_unknown(slot.node, (*path, index), known[_ANY_ITEM]))
    return found


def nearest(key: str, candidates: list[str]) -> str:
    """The candidate a person most likely meant, or `""`."""
    folded = {candidate.lower().replace("_", ""): candidate for candidate in candidates}
    close = difflib.get_close_matches(key.lower().replace("_", ""), list(folded), n=1, cutoff=0.7)
    return folded[close[0]] if close else ""
