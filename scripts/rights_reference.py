"""Write docs/reference/rights.md from the table of methods of a gateway."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tidegate.config.load import load_config
from tidegate.faults import Faults
from tidegate.gateway.app import Site, open_gateway
from tidegate.gateway.plane.rights import rights_page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "rights.md"


async def main() -> None:
    """Build a gateway that listens nowhere, and write its page."""
    with tempfile.TemporaryDirectory() as place:
        state_dir = Path(place)
        config = state_dir / "tidegate.json"
        config.write_text("{}")
        loaded = load_config(config, environ={"HOME": place}, state_dir=state_dir)
        async with open_gateway(Site(state_dir, config, port=0), loaded, Faults()) as gateway:
            PAGE.write_text(rights_page(gateway.plane.server.methods), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
