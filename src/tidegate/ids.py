"""Identifiers that anyone may name: UUIDv7 (RFC 9562), so that ids sort by creation time."""

from __future__ import annotations

import os
import time


def new_id() -> str:
    """Return a fresh UUIDv7 in its usual 36-character form.

    Layout per RFC 9562 section 5.7: 48 bits of Unix milliseconds, version 7, variant 10, 74 random bits.
    """
    millis = time.time_ns() // 1_000_000
    value = (millis & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
