"""Identity links."""

from __future__ import annotations

from tidegate.routing.links import IdentityLinks


def test_an_entry_matches_with_its_channel_or_on_every_channel() -> None:
    links = IdentityLinks.build({"Ann": ["telegram:1", "5"]})
    assert links.canonical("telegram", "1") == "ann"
    assert links.canonical("discord", "1") is None
    assert links.canonical("discord", "5") == "ann"


def test_the_name_listed_first_wins_whatever_entry_matched() -> None:
    links = IdentityLinks.build({"First": ["telegram:1"], "Second": ["1"]})
    assert links.canonical("telegram", "1") == "first"
    assert links.canonical("discord", "1") == "second"


def test_blank_names_and_entries_link_nobody() -> None:
    links = IdentityLinks.build({" ": ["1"], "ann": ["", " "]})
    assert links.canonical("telegram", "1") is None
    assert links.canonical("telegram", "") is None
    assert links.names_of("ann") == ()
