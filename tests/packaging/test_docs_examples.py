"""The configuration examples of the pages are configurations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegate.config.load import load_config

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = re.compile(r"^```json5\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = sorted(page for page in DOCS.glob("*.md") if EXAMPLE.search(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_example_of_a_page_loads(page: Path, tmp_path: Path) -> None:
    for number, example in enumerate(EXAMPLE.findall(page.read_text(encoding="utf-8"))):
        text = example.strip()
        path = tmp_path / f"{number}.json5"
        path.write_text(text if text.startswith("{") else f"{{ {text} }}", encoding="utf-8")
        secrets = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "a secret")
        loaded = load_config(path, environ={"HOME": str(tmp_path), **secrets}, state_dir=tmp_path / "state")
        assert not [str(warning) for warning in loaded.warnings]
