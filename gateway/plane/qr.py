"""QR codes. The library is loaded when one is drawn: a start pays nothing for it."""

from __future__ import annotations

import io


def as_image(text: str) -> str:
    """Return a QR code as a `data:` URL of an SVG picture."""
    import segno  # noqa: PLC0415

    url: str = segno.make_qr(text, error="L").svg_data_uri(scale=4)
    return url


def as_lines(text: str) -> list[str]:
    """Return a QR code as lines for a terminal, two rows of it in one line."""
    import segno  # noqa: PLC0415

    drawn = io.StringIO()
    segno.make_qr(text, error="L").terminal(drawn, compact=True)
    return drawn.getvalue().rstrip("\n").split("\n")
