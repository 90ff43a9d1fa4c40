from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.model import Config
from tidegate.config.reload import Change, diff, effect_of, restarts, watch
from tidegate.config.sources import read_tree

values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
sections = st.dictionaries(st.sampled_from(["gateway", "agents", "channels", "new"]), values, max_size=4)


def changes(before: dict[str, Any], after: dict[str, Any]) -> tuple[Change, ...]:
    return diff(Config(raw=before), Config(raw=after))


@given(sections)
def test_nothing_changed_means_no_changes(data: dict[str, Any]) -> None:
    assert changes(data, dict(data)) == ()


@given(sections, sections)
def test_a_difference_is_seen_from_both_sides(before: dict[str, Any], after: dict[str, Any]) -> None:
    there, back = changes(before, after), changes(after, before)
    assert {change.path for change in there} == {change.path for change in back}
    assert there or before == after


def test_true_and_one_are_different_settings() -> None:
    assert changes({"a": 1}, {"a": True}) == (Change("a", "gateway"),)


@pytest.mark.parametrize(
    ("path", "effect"),
    [
        ("messages.ackReaction", "none"),
        ("agents.defaults.model", "none"),
        ("bindings", "none"),
        ("gateway.port", "gateway"),
        ("gateway.bind", "gateway"),
        ("gateway.auth.mode", "gateway"),
        ("gateway.auth.token", "none"),
        ("gateway.auth.rateLimit.maxAttempts", "none"),
        ("gateway.reload.mode", "none"),
        ("gateway.trustedProxies", "none"),
        ("secrets.egressProxy.enabled", "gateway"),
        ("secrets.providers.a.path", "none"),
        ("discovery.mdns", "gateway"),
        ("nobody.knows", "gateway"),
        ("channels.defaults.groupPolicy", "none"),
        ("channels.telegram.botToken", "channel:telegram:*"),
        ("channels.telegram.allowFrom", "none"),
        ("channels.telegram.accounts.ops.botToken", "channel:telegram:ops"),
        ("channels.telegram.accounts.ops.groups.*.requireMention", "none"),
        ("channels.telegram.accounts.ops", "channel:telegram:ops"),
        ("channels.telegram", "channel:telegram:*"),
    ],
)
def test_the_longest_prefix_decides_what_restarts(path: str, effect: str) -> None:
    assert effect_of(tuple(path.split("."))) == effect


def test_changes_are_told_key_by_key_and_lists_as_wholes() -> None:
    before = {"gateway": {"port": 1, "auth": {"token": "a"}}, "bindings": [1]}
    after = {"gateway": {"port": 2}, "bindings": [1, 2], "channels": {"telegram": {"accounts": {"x": {"name": "y"}}}}}
    found = changes(before, after)
    assert found == (
        Change("bindings", "none"),
        Change("channels.telegram.accounts.x.name", "channel:telegram:x"),
        Change("gateway.auth.token", "none"),
        Change("gateway.port", "gateway"),
    )
    assert restarts(found) == {"gateway"}
    assert restarts(found[:3]) == {"channel:telegram:x"}
    assert restarts(found[:1]) == frozenset()


class Script:
    """Time that passes by steps: whenever the watcher sleeps, the next step is done."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self._steps = [*steps, *[lambda: None] * 3]

    async def sleep(self, _: float) -> None:
        if not self._steps:
            raise EndOfScript
        self._steps.pop(0)()


class EndOfScript(Exception):
    pass


def reports(file: Path, *steps: Callable[[], object], digest: str | None = None) -> int:
    """How often a watcher reports while the steps are done."""
    seen = 0

    async def count() -> None:
        nonlocal seen
        async for _ in watch((file,), digest=digest, sleep=Script(*steps).sleep):
            seen += 1

    with pytest.raises(EndOfScript):
        asyncio.run(count())
    return seen


def test_an_editors_churn_is_one_change(tmp_path: Path) -> None:
    file, other = tmp_path / "c.json", tmp_path / "c.json.tmp"
    file.write_text("{}", encoding="utf-8")

    def replace() -> None:
        other.write_text("{ a: 1 }", encoding="utf-8")
        os.replace(other, file)

    empty, half = (lambda: file.write_text("")), (lambda: file.write_text("{ a: 1"))
    assert reports(file, empty, half, replace) == 1


def test_two_changes_with_quiet_between_are_two(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text("{}", encoding="utf-8")
    quiet = [lambda: None] * 3
    first, second = (lambda: file.write_text("{ a: 1 }")), (lambda: file.write_text("{ a: 22 }"))
    assert reports(file, first, *quiet, second) == 2


def test_a_file_touched_but_not_changed_is_no_change(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text("{}", encoding="utf-8")
    assert reports(file, lambda: os.utime(file, ns=(1, 1))) == 0


def test_a_file_that_appears_or_goes_is_a_change(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    assert reports(file, lambda: file.write_text("{}", encoding="utf-8")) == 1
    assert reports(file, file.unlink) == 1


def test_a_change_made_before_the_watch_began_is_not_missed(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text("{}", encoding="utf-8")
    digest = read_tree(file).digest
    assert reports(file, digest=digest) == 0
    file.write_text("{ a: 1 }", encoding="utf-8")
    assert reports(file, digest=digest) == 1
