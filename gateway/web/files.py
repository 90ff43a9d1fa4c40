"""The files of the page, and the headers that keep it what it is."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

FOLDER = Path(__file__).with_name("page")
INDEX = "index.html"
POLICY_NAME = "tidegate-html"
"""The one Trusted Types policy; `dom.js` makes it, for HTML that `web.render` wrote."""
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
CONTENT_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        f"trusted-types {POLICY_NAME}",
    ]
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CONTENT_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    # Every use asks whether it is still current: a page and a gateway of two versions would not understand each other.
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file, as it is sent."""

    content: bytes
    kind: str
    etag: str


class PageFiles:
    """All files, read with the first request."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._files: dict[str, PageFile] | None = None

    async def answer(self, request: web.Request, name: str) -> web.Response:
        """Return a file, or that it has not changed. Raises HTTPNotFound."""
        if self._files is None:
            self._files = await asyncio.to_thread(_read, self._folder)
        file = self._files.get(name)
        if file is None:
            raise web.HTTPNotFound
        known = {tag.value for tag in request.if_none_match or ()}
        if file.etag in known or "*" in known:
            return web.Response(status=304, headers={**HEADERS, "ETag": f'"{file.etag}"'})
        # A response takes its body away when the request was for the head only.
        return web.Response(
            body=file.content,
            content_type=file.kind,
            charset="utf-8" if file.kind.startswith("text/") else None,
            headers={**HEADERS, "ETag": f'"{file.etag}"'},
        )


def _read(folder: Path) -> dict[str, PageFile]:
    found = {}
    for path in sorted(folder.iterdir()):
        kind = TYPES.get(path.suffix)
        if kind is not None:
            content = path.read_bytes()
            found[path.name] = PageFile(content, kind, hashlib.sha256(content).hexdigest()[:32])
    return found
