"""Files and places that come with a Telegram message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.events import Attachment, MediaKind, clean_text

Json = Mapping[str, Any]

_FILES = (
    ("animation", MediaKind.VIDEO, "video/mp4", "animation.mp4"),
    ("video", MediaKind.VIDEO, "video/mp4", "video.mp4"),
    ("video_note", MediaKind.VIDEO, "video/mp4", "video-note.mp4"),
    ("audio", MediaKind.AUDIO, "audio/mpeg", "audio.mp3"),
    ("voice", MediaKind.VOICE, "audio/ogg", "voice.ogg"),
    ("document", MediaKind.DOCUMENT, "application/octet-stream", "document"),
)


def attachments_of(message: Json, max_download: int) -> tuple[Attachment, ...]:
    """Return what came with a message. A file that the Bot API will not hand out says so at once."""
    if message.get("photo"):
        largest = max(message["photo"], key=lambda size: int(size.get("width", 0)) * int(size.get("height", 0)))
        return (_file(MediaKind.IMAGE, largest, "image/jpeg", "photo.jpg", max_download),)
    for field, kind, mime, name in _FILES:
        if message.get(field):
            return (_file(kind, message[field], mime, name, max_download),)
    if message.get("sticker"):
        return (_sticker(message["sticker"], max_download),)
    if message.get("venue"):
        venue = message["venue"]
        words = f"{venue.get('title', '')}, {venue.get('address', '')} ({_point(venue['location'])})"
        return (Attachment(MediaKind.LOCATION, name=clean_text(words)),)
    if message.get("location"):
        return (Attachment(MediaKind.LOCATION, name=_point(message["location"])),)
    return ()


def described(message: Json) -> str:
    """Return a line for what has neither words nor a file but was meant for a reader; empty for service messages."""
    if message.get("sticker"):
        return str(message["sticker"].get("emoji") or "")
    if message.get("contact"):
        contact = message["contact"]
        name = " ".join(part for part in (contact.get("first_name"), contact.get("last_name")) if part)
        return f"[contact] {name}: {contact.get('phone_number', '')}"
    if message.get("poll"):
        poll = message["poll"]
        options = ", ".join(str(option.get("text", "")) for option in poll.get("options", ()))
        return f"[poll] {poll.get('question', '')} ({options})"
    if message.get("dice"):
        return f"[dice] {message['dice'].get('emoji', '')} {message['dice'].get('value', '')}"
    return ""


def too_large(size: int, limit: int) -> str:
    """Return why a file cannot be had, in the words of both sides' limits."""
    return f"too large: {size / 1e6:.1f} MB, Telegram hands bots no more than {limit / (1 << 20):.0f} MB"


def _file(kind: MediaKind, file: Json, mime: str, name: str, max_download: int) -> Attachment:
    size = file.get("file_size")
    size = int(size) if size is not None else None
    mime = str(file.get("mime_type") or mime)
    if kind is MediaKind.DOCUMENT and mime.startswith("image/"):
        kind = MediaKind.IMAGE
    return Attachment(
        kind=kind,
        remote=str(file["file_id"]),
        name=clean_text(str(file.get("file_name") or file.get("title") or name)),
        mime=mime,
        size=size,
        problem=too_large(size, max_download) if size is not None and size > max_download else "",
    )


def _sticker(sticker: Json, max_download: int) -> Attachment:
    if sticker.get("is_video"):
        mime, name = "video/webm", "sticker.webm"
    elif sticker.get("is_animated"):
        mime, name = "application/x-tgsticker", "sticker.tgs"
    else:
        mime, name = "image/webp", "sticker.webp"
    return _file(MediaKind.STICKER, sticker, mime, name, max_download)


def _point(location: Json) -> str:
    return f"{float(location['latitude']):.6f}, {float(location['longitude']):.6f}"
