"""The colours of the page: every pair of text and ground can be read (WCAG 2.2, 1.4.3), in light and in dark."""

from __future__ import annotations

import re

import pytest

from tidegate.gateway.web.files import FOLDER

SHEET = (FOLDER / "base.css").read_text()
PAIRS = [
    ("ink", "paper"),
    ("ink", "surface"),
    ("ink", "side"),
    ("ink", "raised"),
    ("ink", "code"),
    ("ink", "danger-tint"),
    ("soft", "paper"),
    ("soft", "surface"),
    ("soft", "side"),
    ("soft", "raised"),
    ("soft", "code"),
    ("accent", "paper"),
    ("accent", "raised"),
    ("on-accent", "accent"),
    ("on-accent", "accent-strong"),
    ("tint-ink", "tint"),
    ("danger", "paper"),
    ("danger", "surface"),
]


def colours(block: str) -> dict[str, str]:
    """Return the colours that a block of the sheet names."""
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))


LIGHT = colours(SHEET.partition("@media")[0])
DARK = LIGHT | colours(SHEET.partition("@media")[2].partition("\n}\n")[0])


def luminance(colour: str) -> float:
    """Return how bright a colour is (https://www.w3.org/TR/WCAG22/#dfn-relative-luminance)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("text", "ground"), PAIRS)
@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_words_stand_out_from_their_ground(scheme: dict[str, str], text: str, ground: str) -> None:
    one, two = sorted((luminance(scheme[text]), luminance(scheme[ground])))
    assert (two + 0.05) / (one + 0.05) >= 4.5


def test_both_schemes_name_every_colour() -> None:
    assert set(colours(SHEET.partition("@media")[2].partition("\n}\n")[0])) == set(LIGHT)


def test_every_colour_that_is_used_is_named() -> None:
    for sheet in FOLDER.glob("*.css"):
        used = set(re.findall(r"var\(--([\w-]+)\)", sheet.read_text()))
        named = set(re.findall(r"--([\w-]+):", SHEET))
        assert used <= named, (sheet.name, used - named)
