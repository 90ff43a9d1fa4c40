"""Files that come with a message over the control plane: checked, stored, and then like files from any platform.

What a file is follows from its first bytes, never from what the client calls it; its name is only shown.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import Any

from tidegate.events import Attachment, MediaKind
from tidegate.gateway.plane.contract import Code, RpcError
from tidegate.gateway.plane.hello import ATTACHMENT_BYTES, IMAGE_BYTES
from tidegate.sessions.blobs import BlobStore

MAX_FILES = 16
MAX_NAME = 200
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_KINDS = {"image": MediaKind.IMAGE, "audio": MediaKind.AUDIO, "video": MediaKind.VIDEO}


async def take_attachments(blobs: BlobStore, sent: Sequence[Any] | None) -> tuple[Attachment, ...]:
    """Return the files of a request, stored.

    Raises:
        RpcError: One is no file, or they are too many or too large; nothing is said into the session then.
        StoreUnavailable: The disk did not take one.
    """
    if not sent:
        return ()
    if len(sent) > MAX_FILES:
        raise RpcError(Code.INVALID_REQUEST, f"at most {MAX_FILES} attachments go with one message")
    files = await asyncio.to_thread(_read_all, sent)
    return tuple([await store_file(blobs, name, mime, content) for name, mime, content in files])


async def store_file(blobs: BlobStore, name: str, mime: str, content: bytes) -> Attachment:
    """Return a file as an attachment whose content is stored. Raises RpcError for a picture that is too large."""
    found = image_type(content)
    if found and len(content) > IMAGE_BYTES:
        raise RpcError(
            Code.INVALID_REQUEST,
            f"attachment {name or 'image'}: exceeds size limit ({len(content)} > {IMAGE_BYTES} bytes)",
        )
    kind = MediaKind.IMAGE if found else _kind(mime)
    blob = await blobs.put(content)
    return Attachment(kind, "", " ".join(name.split())[:MAX_NAME], found or mime[:100], len(content), blob)


def image_type(content: bytes) -> str:
    """Return the MIME type of a picture that models take, by its first bytes; empty for anything else."""
    for start, mime in _SIGNATURES:
        if content.startswith(start):
            return mime
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else ""


def _kind(mime: str) -> MediaKind:
    # What says that it is a picture and is none is a file.
    kind = _KINDS.get(mime.partition("/")[0].strip().lower(), MediaKind.DOCUMENT)
    return MediaKind.DOCUMENT if kind is MediaKind.IMAGE else kind


def _read_all(sent: Sequence[Any]) -> list[tuple[str, str, bytes]]:
    files, total = [], 0
    for number, item in enumerate(sent, start=1):
        name, mime, content = _read(item, number)
        total += len(content)
        if total > ATTACHMENT_BYTES:
            text = f"attachment {name or number}: exceeds size limit (attachments together > {ATTACHMENT_BYTES} bytes)"
            raise RpcError(Code.INVALID_REQUEST, text)
        files.append((name, mime, content))
    return files


def _read(item: Any, number: int) -> tuple[str, str, bytes]:
    if not isinstance(item, dict):
        raise RpcError(Code.INVALID_REQUEST, f"attachment {number}: must be object")
    wrapped = item.get("source")
    source: dict[str, Any] = wrapped if isinstance(wrapped, dict) else {}
    name, mime = _text(item.get("fileName")), _text(item.get("mimeType") or source.get("media_type"))
    label = name[:80] or str(number)
    text = item.get("content") or source.get("data")
    if not isinstance(text, str):
        raise RpcError(Code.INVALID_REQUEST, f"attachment {label}: content must be base64 string")
    if text.startswith("data:"):
        told, _, text = text.partition(",")
        mime = mime or told.removeprefix("data:").partition(";")[0]
    return name, mime, decode_base64(text, f"attachment {label}")


def decode_base64(text: str, what: str) -> bytes:
    """Return what a base64 text stands for; both alphabets, white space and missing padding are taken.

    Raises:
        RpcError: It is none, or stands for nothing.
    """
    packed = "".join(text.split()).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        content = base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise RpcError(Code.INVALID_REQUEST, f"{what}: invalid base64 content") from None
    if not content:
        raise RpcError(Code.INVALID_REQUEST, f"{what}: is empty")
    return content


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
