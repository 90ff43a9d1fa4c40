"""One key of somebody else's configuration, changed in plain data."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.config.paths import parse_path
from tidegate.gateway.cli.config_there import REMOVED, _masked, _put
from tidegate.gateway.client.errors import Refused


@pytest.mark.parametrize(
    ("path", "value", "after"),
    [
        ("a.b", 2, {"a": {"b": 2}, "l": [1, 2]}),
        ("new.deep.key", "x", {"a": {"b": 1}, "l": [1, 2], "new": {"deep": {"key": "x"}}}),
        ("l[1]", 9, {"a": {"b": 1}, "l": [1, 9]}),
        ("l[2]", 3, {"a": {"b": 1}, "l": [1, 2, 3]}),
        ("a", REMOVED, {"l": [1, 2]}),
        ("l[0]", REMOVED, {"a": {"b": 1}, "l": [2]}),
    ],
)
def test_a_key_is_set_or_taken_away(path: str, value: object, after: dict[str, Any]):
    data = {"a": {"b": 1}, "l": [1, 2]}
    _put(data, parse_path(path), value)
    assert data == after


@pytest.mark.parametrize(
    ("path", "value"), [("a.b.c", 1), ("l[5]", 1), ("l.x", 1), ("none", REMOVED), ("a.x.y", REMOVED), ("l[7]", REMOVED)]
)
def test_a_path_that_leads_nowhere_is_refused(path: str, value: object):
    with pytest.raises(Refused, match="is not"):
        _put({"a": {"b": 1}, "l": [1, 2]}, parse_path(path), value)


def test_secrets_read_the_same_as_here():
    assert _masked({"t": ["__OPENCLAW_REDACTED__"], "n": 1}) == {"t": ["***"], "n": 1}
