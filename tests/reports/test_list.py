"""The list of bug reports says the truth about the tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_every_report_that_claims_a_test_has_one_in_the_named_file() -> None:
    rows = re.findall(r"^\| (R\d+) \| \w+ \| (test|later): (.*?) \|$", (HERE / "REPORTS.md").read_text(), re.MULTILINE)
    assert len(rows) == 58
    for report, outcome, text in rows:
        if outcome == "later":
            continue
        name = re.findall(r"`([\w/]+\.py)`", text)[0]
        source = (HERE.parent / name).read_text()
        assert re.search(rf"def test_\w*{report}_", source), f"{name} has no test of {report}"
