"""Write docs/reference/config.md from the configuration models; `--check` only says whether it is current."""

from __future__ import annotations

import sys
from pathlib import Path

from tidegate.config.reference import reference

TARGET = Path(__file__).resolve().parents[1] / "docs" / "reference" / "config.md"


def main(arguments: list[str]) -> int:
    """Write or check the page."""
    text = reference()
    if "--check" in arguments:
        current = TARGET.read_text(encoding="utf-8") if TARGET.exists() else ""
        if current != text:
            print(f"{TARGET} is not current; run scripts/config_reference.py", file=sys.stderr)
            return 1
        return 0
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
