"""Write docs/images/tui.svg: the full-screen chat as an emulator of a terminal sees it, before a scripted model.

Needs the test tools: `make install`, then `.venv/bin/python scripts/tui_picture.py`.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from cli.test_tui import chatting  # noqa: E402
from harness.brain import Ask, Tools  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "tui.svg"
COLUMNS, ROWS = 88, 24
CELL, LINE, EDGE = 8.4, 18, 12
COLOURS = {
    "default": "#d8dee9",
    "black": "#2e3440",
    "red": "#e06c75",
    "green": "#98c379",
    "brown": "#e5c07b",
    "blue": "#61afef",
    "cyan": "#56b6c2",
}
BACKGROUND, FAINT = "#1e222a", "#7f8896"


async def think(ask: Ask) -> str | Tools:
    """Answer as somebody who is asked to tidy up would."""
    if "backup" in ask.last:
        await asyncio.sleep(60)
    if not ask.results:
        return Tools((("ls", {"path": "notes"}), ("read", {"path": "notes/plan.md"})), "Let me look at your notes.")
    return (
        "You have **three notes**:\n\n- `plan.md`: the move to the new flat, two points open\n"
        "- `books.md`: what to read\n- `todo.md`: empty\n\nShall I put the two open points into `todo.md`?"
    )


async def main() -> None:
    """Play the scene and write the picture."""
    with tempfile.TemporaryDirectory(prefix="tg", dir="/tmp") as place:
        async with chatting(Path(place), columns=COLUMNS, rows=ROWS) as chat:
            shown = chat.glass
            chat.place.brain.think = think
            notes = Path(place) / "workspace" / "notes"
            notes.mkdir(parents=True)
            (notes / "plan.md").write_text("The move.\n")
            shown.type("what is in my notes?\r")
            await shown.until("Shall I put")
            for key, label in (("travel", "Trip to Lisbon"), ("telegram:direct:4242", "Ana on Telegram")):
                await chat.call("sessions.patch", key=key, label=label)
            await chat.call("chat.send", sessionKey="telegram:direct:4242", message="hello", idempotencyKey="1")
            await chat.call("chat.send", sessionKey="travel", message="check the backup", idempotencyKey="2")
            await shown.until(" ● Trip")
            await shown.until(" ● Ana")
            shown.type("then make a backup, please\r")
            await shown.until("◐ answering")
            shown.type("and tell me when it is done\r")
            await shown.until("1 waiting")
            await asyncio.sleep(1.2)
            PICTURE.parent.mkdir(exist_ok=True)
            PICTURE.write_text(svg(shown.screen), encoding="utf-8")
            for key in ("main", "travel"):
                await chat.call("chat.abort", sessionKey=key)


def svg(screen: object) -> str:
    """Return the screen as a picture."""
    wide, high = COLUMNS * CELL + 2 * EDGE, ROWS * LINE + 2 * EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" role="img" '
        'aria-label="The full-screen chat">',
        f'<rect width="{wide:.0f}" height="{high:.0f}" rx="8" fill="{BACKGROUND}"/>',
        '<g font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" '
        'xml:space="preserve">',
    ]
    for number in range(ROWS):
        parts += _row(screen.buffer[number], EDGE + number * LINE)  # type: ignore[attr-defined]
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _row(cells: object, top: float) -> list[str]:
    found = []
    row = [cells[column] for column in range(COLUMNS)]  # type: ignore[index]
    if any(cell.reverse for cell in row):
        ground = COLOURS["default"]
        wide = COLUMNS * CELL
        found.append(f'<rect x="{EDGE}" y="{top:.0f}" width="{wide:.0f}" height="{LINE}" fill="{ground}"/>')
    for column, cell in enumerate(row):
        if cell.data.strip():
            ink = BACKGROUND if cell.reverse else _colour(cell.fg)
            weight = ' font-weight="bold"' if cell.bold else ""
            left = EDGE + column * CELL
            found.append(
                f'<text x="{left:.1f}" y="{top + LINE - 5:.0f}" fill="{ink}"{weight}>{escape(cell.data)}</text>'
            )
    return found


def _colour(name: str) -> str:
    if name in COLOURS:
        return COLOURS[name]
    return f"#{name}" if len(name) == 6 else FAINT


if __name__ == "__main__":
    asyncio.run(main())
