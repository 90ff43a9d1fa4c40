"""Answers for the control plane's clients are handed over once."""

from __future__ import annotations

from fakes.event_loop import on_loop
from tidegate.adapters.base import AdapterHooks, Outbound, TextPart
from tidegate.adapters.webchat.adapter import WebchatAdapter, address_of, render


def part(token: str, text: str = "hi") -> Outbound:
    return Outbound(address_of("agent:main:main"), token, TextPart(text, text), reply_to="run-1")


@on_loop
async def test_a_part_is_shown_once_however_often_it_is_sent() -> None:
    shown: list[Outbound] = []
    alive: list[bool] = []
    async with WebchatAdapter(shown.append, AdapterHooks(lambda: alive.append(True), lambda _: None)) as adapter:
        assert await adapter.send(part("t1")) == "t1"
        assert await adapter.send(part("t1")) == "t1"
        await adapter.send(part("t2"))
    assert [item.token for item in shown] == ["t1", "t2"]
    assert alive == [True]


def test_a_session_has_one_address_whichever_client_speaks() -> None:
    assert address_of("agent:main:x") == address_of("agent:main:x")
    assert address_of("agent:main:x") != address_of("agent:main:y")


def test_text_stays_as_it_is_and_nothing_is_no_part() -> None:
    assert render("**bold**") == (TextPart("**bold**", "**bold**"),)
    assert render("  \n") == ()
