"""What leaves the gateway, finished or still being written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.egress import (
    Deliver,
    EgressRules,
    PrefixContext,
    Suppress,
    SuppressReason,
    filter_reply,
    prefix_template,
    resolve_prefix,
    short_model_name,
    strip_thoughts,
    visible,
    visible_so_far,
    with_prefix,
)

HEARTBEAT = EgressRules(is_heartbeat=True)
PIECES = st.lists(
    st.sampled_from(
        [
            "NO_REPLY",
            "NO_",
            "NO",
            "HEARTBEAT_OK",
            "HEART",
            "<think>",
            "</think>",
            "<final>",
            "</final>",
            "hm",
            " ",
            "\n",
            ".",
            "**",
            "`",
        ]
    ),
    max_size=8,
).map("".join)


@pytest.mark.parametrize(
    "text", ["NO_REPLY", "**no_reply**", "<think>why</think>NO_REPLY", '{"action": "NO_REPLY"}', "─────"]
)
def test_silence_is_kept(text: str) -> None:
    assert filter_reply(text) == Suppress(SuppressReason.SILENT)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("Sure, done. NO_REPLY", "Sure, done."),
        ("NO_REPLY\n\nActually, yes.", "Actually, yes."),
        ("`NO_REPLY` is the word", "`NO_REPLY` is the word"),
        ("NO_REPLY_PLEASE", "NO_REPLY_PLEASE"),
        ("<think>secret</think>Answer", "Answer"),
        ("<final>Answer</final>", "Answer"),
        ("text <thinking>x", "text"),
        ("<think>only open", "only open"),
        ("a<think>b<think>c</think>d</think>e", "ae"),
        ("use `<think>` like this", "use `<think>` like this"),
        ("```\n<think>kept</think>\n```", "```\n<think>kept</think>\n```"),
        ("1 < 2 and <b>bold</b>", "1 < 2 and <b>bold</b>"),
    ],
)
def test_what_is_meant_for_people_is_sent_and_nothing_else(text: str, sent: str) -> None:
    assert filter_reply(text) == Deliver(sent)


def test_text_beside_the_heartbeat_word_is_delivered_also_in_a_heartbeat_run() -> None:
    assert filter_reply("HEARTBEAT_OK but the disk is full", HEARTBEAT) == Deliver("but the disk is full")
    assert filter_reply("HEARTBEAT_OK", HEARTBEAT) == Suppress(SuppressReason.HEARTBEAT)
    assert filter_reply("HEARTBEAT_OK.", HEARTBEAT) == Suppress(SuppressReason.HEARTBEAT)
    tolerant = EgressRules(is_heartbeat=True, max_ack_chars=300)
    assert filter_reply("HEARTBEAT_OK all is well", tolerant) == Suppress(SuppressReason.HEARTBEAT)


def test_media_are_sent_without_the_word() -> None:
    assert filter_reply("NO_REPLY", EgressRules(has_media=True, prefix="[x]")) == Deliver("")


def test_the_prefix_comes_once_and_not_before_silence() -> None:
    rules = EgressRules(prefix="[bot]")
    assert filter_reply("hi", rules) == Deliver("[bot] hi")
    assert filter_reply("[bot] hi", rules) == Deliver("[bot] hi")
    assert filter_reply("NO_REPLY", rules) == Suppress(SuppressReason.SILENT)
    assert with_prefix("hi", "") == "hi"


@given(PIECES)
def test_a_stream_never_shows_a_silent_word_a_thought_or_a_tag_that_the_reply_would_not(text: str) -> None:
    final = filter_reply(text)
    if isinstance(final, Suppress):
        for end in range(len(text) + 1):
            assert "NO_" not in visible_so_far(text[:end]) or "`" in text


@given(st.text(alphabet="ab NO_REPLY\n", max_size=30), st.integers(0, 30))
def test_thoughts_are_never_shown_while_they_are_written(thought: str, cut: int) -> None:
    text = f"Hello <think>{thought}</think> world"
    begun = text[: len("Hello <think>") + min(cut, len(thought))]
    assert visible_so_far(begun) == "Hello"


@pytest.mark.parametrize("text", ["", "N", "no", "Hello wor", "NORTH", "HEY", "a < b"])
def test_ordinary_beginnings_are_shown(text: str) -> None:
    assert visible_so_far(text) == ("" if not text else {"a < b": "a"}.get(text, text))


@pytest.mark.parametrize("text", ["NO", "NO_", "NO_RE", "NO_REPLY", "**NO_REPLY", "HEARTBEAT_", "<thi", "<think>x"])
def test_beginnings_that_may_become_silence_are_held_back(text: str) -> None:
    assert visible_so_far(text) == ""
    assert visible_so_far("Done. " + text) == "Done."


@given(st.text(max_size=80))
def test_any_text_passes_the_filter(text: str) -> None:
    found = filter_reply(text)
    assert isinstance(found, Deliver | Suppress)
    visible_so_far(text)
    assert strip_thoughts(strip_thoughts(text)) is not None


def test_prefix_variables_are_filled_in_and_unknown_ones_stay() -> None:
    context = PrefixContext(model="opus", identity_name="Tidy")
    assert resolve_prefix("[{Model} {identity.name} {provider} {x}]", context) == "[opus Tidy {provider} {x}]"


def test_the_first_prefix_that_is_set_wins_even_when_it_is_empty() -> None:
    assert prefix_template(None, "", "[x]") == ""
    assert prefix_template(None, None, "auto", identity_name="Tidy") == "[Tidy]"
    assert prefix_template(None, "auto") == ""


def test_a_short_model_name_has_no_provider_and_no_date() -> None:
    assert short_model_name("a/b/claude-9-20260205") == "claude-9"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Run `if a < b: pass`", "Run `if a < b: pass`"),
        ("a < b", "a < b"),
        ("so far NO", "so far NO"),
        ("<think>hm</think>Hello", "Hello"),
        ("NO_REPLY", ""),
        ("", ""),
    ],
)
def test_a_finished_reply_is_shown_to_its_end(text: str, shown: str) -> None:
    assert visible(text) == shown
