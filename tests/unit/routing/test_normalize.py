"""Spelling rules for names."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tidegate.routing import normalize


@given(st.text(max_size=100))
def test_an_id_is_always_plain_and_normalising_it_again_changes_nothing(text: str) -> None:
    found = normalize.agent_id(text)
    assert re.fullmatch(r"[a-z0-9_-]{1,64}", found)
    # A cut id may end in a dash, which only survives because it is a plain id already.
    assert normalize.agent_id(found) == found or not re.match(r"[a-z0-9]", found)


@given(st.text(max_size=40))
def test_an_account_falls_back_where_its_optional_form_is_nothing(text: str) -> None:
    assert normalize.account_id(text) == (normalize.optional_account_id(text) or "default")


def test_names_that_mean_something_to_other_programs_are_no_accounts() -> None:
    assert normalize.account_id("__proto__") == "default"
    assert normalize.agent_id("constructor") == "constructor"


def test_white_space_is_what_the_config_format_says_it_is() -> None:
    assert normalize.trim("\ufeff\u3000a\u00a0") == "a"
    assert normalize.trim("\x1ca") == "\x1ca"


def test_channel_variants_are_known_and_blank_is_none() -> None:
    assert normalize.message_channel(" Teams ") == "msteams"
    assert normalize.message_channel("  ") is None
    assert normalize.peer_kind(" DM ") == "direct"
