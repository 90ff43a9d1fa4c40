from __future__ import annotations

import pytest

from tidegate.config import known_keys
from tidegate.config.paths import parse_path


@pytest.mark.parametrize(
    ("path", "is_known"),
    [
        ("cron.enabled", True),
        ("cron.enabeld", False),
        ("channels.telegram.groups.-100.topics.7.anything", True),
        ("bindings[3].match.peer.kind", True),
        ("bindings[3].match.pear", False),
        ("agents.defaults.params.temperature", True),
        ("models.providers.mine.models[0].cost", True),
        ("nobody", False),
    ],
)
def test_keys_of_openclaw_are_known_through_names_and_items(path: str, is_known: bool) -> None:
    assert (known_keys.find(parse_path(path)) is not None) is is_known


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("prot", "port"), ("dmscope", "dmScope"), ("dm_scope", "dmScope"), ("zzz", ""), ("", "")],
)
def test_the_key_that_was_meant_is_found(typed: str, meant: str) -> None:
    assert known_keys.nearest(typed, ["port", "dmScope", "bind"]) == meant


def test_every_top_level_key_is_in_the_list() -> None:
    tree = known_keys.key_tree()
    assert len(tree) == 44
    assert {"gateway", "agents", "channels", "cron", "plugins"} <= set(tree)
