"""How an outgoing part is written to the outbox and read back; the one place that knows the payload's keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate.adapters.base import Button, Outbound, Poll, TextPart
from tidegate.events import Address
from tidegate.sessions.blobs import BlobStore
from tidegate.sessions.model import Delivery, DeliveryKind, Draft


def text_drafts(
    address: Address,
    parts: Sequence[TextPart],
    *,
    kind: DeliveryKind = DeliveryKind.REPLY,
    reply_to: str | None = None,
    reply_to_mode: str = "off",
    buttons: tuple[tuple[Button, ...], ...] = (),
) -> tuple[Draft, ...]:
    """Return one draft a part, in order.

    Args:
        reply_to: Platform id of the message that is answered.
        reply_to_mode: off, first, all or batched: which parts carry the visible reference.
        buttons: Shown under the last part.
    """
    drafts = []
    for index, part in enumerate(parts):
        payload: dict[str, Any] = {"body": part.body}
        if part.plain != part.body:
            payload["plain"] = part.plain
        if reply_to and (reply_to_mode == "all" or (index == 0 and reply_to_mode in ("first", "batched"))):
            payload["reply_to"] = reply_to
        if buttons and index == len(parts) - 1:
            payload["buttons"] = [[[b.label, b.value] for b in row] for row in buttons]
        drafts.append(Draft(address, payload, kind))
    return tuple(drafts)


def file_draft(address: Address, blob: str, name: str, kind: str, caption: TextPart | None = None) -> Draft:
    """Return a draft that sends a stored file."""
    payload: dict[str, Any] = {"file": blob, "file_name": name, "file_kind": kind}
    if caption is not None:
        payload["body"] = caption.body
        payload["plain"] = caption.plain
    return Draft(address, payload)


def edit_draft(address: Address, part: TextPart, message_id: str) -> Draft:
    """Return a draft that replaces one of our messages; when that is gone, nothing takes its place."""
    payload = {"body": part.body, "plain": part.plain, "edit_of": message_id, "only_edit": True}
    return Draft(address, payload, DeliveryKind.SEND)


def poll_draft(address: Address, poll: Poll) -> Draft:
    """Return a draft that sends a poll."""
    said = [poll.question, list(poll.options), poll.multiple, poll.anonymous, poll.seconds]
    return Draft(address, {"poll": said}, DeliveryKind.SEND)


def _poll(said: Sequence[Any]) -> Poll:
    question, options, multiple, anonymous, seconds = said
    return Poll(question, tuple(options), multiple, anonymous, seconds)


def outbound(delivery: Delivery, blobs: BlobStore) -> Outbound:
    """Return what the adapter sends for a stored part."""
    payload: Mapping[str, Any] = delivery.payload
    body = payload.get("body")
    file: Path | None = blobs.path(payload["file"]) if payload.get("file") else None
    return Outbound(
        address=delivery.address,
        token=delivery.token,
        text=TextPart(body, payload.get("plain", body)) if body is not None else None,
        file=file,
        file_kind=payload.get("file_kind", ""),
        file_name=payload.get("file_name", ""),
        reply_to=payload.get("reply_to"),
        edit_of=payload.get("edit_of"),
        buttons=tuple(tuple(Button(*b) for b in row) for row in payload.get("buttons", ())),
        poll=_poll(payload["poll"]) if payload.get("poll") else None,
        attempt=delivery.attempt,
    )
