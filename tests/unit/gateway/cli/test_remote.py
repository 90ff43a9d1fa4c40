"""What a command asks for on a gateway elsewhere, and what it shows of the answer."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.cli import remote
from tidegate.gateway.cli.remote import harmless, needs
from tidegate.gateway.client.errors import Unreachable

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=8,
)


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for item in pair for text in texts(item)]
    return [text for item in value for text in texts(item)] if isinstance(value, list) else []


@given(VALUES)
def test_nothing_that_a_gateway_answers_commands_the_terminal(value: Any):
    assert not [text for text in texts(harmless(value)) if re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)]


def test_plain_data_stays_as_it_is():
    data = {"a": ["x\ny", 1, None, True], "b": {"c": "ü"}}
    assert harmless(data) == data


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("tidegate.status", ()),
        ("tidegate.pairing.list", ("operator.pairing",)),
        ("device.pair.list", ("operator.pairing",)),
        ("config.get", ()),
        ("config.set", ("operator.admin",)),
    ],
)
def test_a_command_asks_for_no_more_than_it_needs(method: str, more: tuple[str, ...]):
    assert needs(method) == ("operator.read", "operator.write", *more)


def test_work_that_is_broken_off_again_and_again_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch):
    attempts = 0

    async def broken(_entry: object, work: Callable[[Any], Awaitable[object]]) -> object:
        nonlocal attempts
        attempts += 1
        await work(None)
        raise Unreachable("the gateway went away")

    async def nothing(_line: object) -> None:
        return None

    monkeypatch.setattr(remote, "once", broken)
    monkeypatch.setattr(remote, "Entry", lambda *_: None)
    monkeypatch.setattr(remote, "Patience", lambda: SimpleNamespace(reset=lambda: None, seconds=lambda _: 0.01))
    with pytest.raises(TimeoutError):
        remote.stay(None, None, nothing, seconds=0.2)  # type: ignore[arg-type]
    assert attempts > 1
