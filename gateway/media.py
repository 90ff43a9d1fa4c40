"""Files in both directions: fetched for the agent once its turn runs, and attached when the agent names them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from tidegate.adapters.base import Adapter, Fetches
from tidegate.agent_runtime.messages import Image, Message, Role
from tidegate.agent_runtime.transcript import decode_message, encode_message
from tidegate.agent_runtime.workspace import WorkspaceFiles
from tidegate.errors import AdapterUnavailable, DeliveryError, StoreUnavailable, ToolFailure
from tidegate.events import Attachment, MediaKind, MessageEvent
from tidegate.gateway.connections import Connections
from tidegate.gateway.ruleset import ChannelRules
from tidegate.sessions.blobs import BlobStore
from tidegate.sessions.model import ClaimedTurn, JournalEntry
from tidegate.sessions.store import TurnStore

WAIT_FOR_ADAPTER = 60.0
"""Seconds that a turn waits for the platform, so that files of messages from before a restart are still fetched."""
MAX_IMAGE = 5 << 20
"""Bytes of a picture that is shown to the model; larger ones are only named."""
HEADING = "[Files that came with the message]"
FOLDER = "media/inbound"

_MODEL_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_DIRECTIVE = re.compile(r"^MEDIA:[ \t]*(?P<path>\S.*?)[ \t]*$", re.MULTILINE)
_FENCE = re.compile(r"(?ms)^(```|~~~).*?(?:^\1|\Z)")
_UNSAFE = re.compile(r"[^\w.()\- ]+")

log = structlog.get_logger("media")


class InboundMedia:
    """Fetches what came with the messages of a turn and shows it to the agent."""

    def __init__(self, connections: Connections, blobs: BlobStore, store: TurnStore) -> None:
        self._connections = connections
        self._blobs = blobs
        self._store = store

    async def take(self, turn: ClaimedTurn, workspace: WorkspaceFiles, rules: ChannelRules) -> Sequence[Message]:
        """Return one more user message about the files of a turn, made durable; nothing when there are none.

        A file that cannot be had is told as such: to the agent here, and through its answer to the sender.
        """
        with_files = [event for event in turn.events if event.attachments]
        if not with_files or _was_taken(turn):
            return ()
        lines, images = [HEADING], []
        for event in with_files:
            for attachment in event.attachments:
                line, image = await self._take_one(event, attachment, workspace, rules)
                lines.append(f"- {line}")
                if image is not None:
                    images.append(image)
        message = Message(Role.USER, "\n".join(lines), tuple(images))
        await self._store.journal(turn, JournalEntry((encode_message(message),)))
        return (message,)

    async def _take_one(
        self, event: MessageEvent, attachment: Attachment, workspace: WorkspaceFiles, rules: ChannelRules
    ) -> tuple[str, Image | None]:
        name = " ".join(attachment.name.split())[:120] or attachment.kind.value
        if attachment.kind is MediaKind.LOCATION:
            return f"location: {name}", None
        if attachment.problem:
            return f"{name}: not received ({attachment.problem})", None
        try:
            content, blob = await self._content(event, attachment, rules.media_max)
            path = f"{FOLDER}/{_place(event)}-{event.message_id}-{_safe_name(attachment)}"
            await workspace.write(path, content, rules.media_max)
        except (DeliveryError, AdapterUnavailable, StoreUnavailable, ToolFailure) as error:
            log.warning("media.not_fetched", lane=str(event.address), kind=attachment.kind.value, reason=str(error))
            return f"{name}: not received ({error}). Tell the sender.", None
        image = None
        if attachment.kind is MediaKind.IMAGE and attachment.mime in _MODEL_IMAGES and len(content) <= MAX_IMAGE:
            image = Image(blob, attachment.mime)
        return f"{attachment.kind.value} {name} ({len(content)} bytes), saved as {path}", image

    async def _content(self, event: MessageEvent, attachment: Attachment, limit: int) -> tuple[bytes, str]:
        """Return what is in a file, and its address in the blob store. What came with the message is there already."""
        if attachment.blob is not None:
            return await self._blobs.load(attachment.blob), attachment.blob
        where = event.address
        adapter = await self._connections.wait_for(where.channel, where.account, WAIT_FOR_ADAPTER)
        content = await _fetch(adapter, attachment, limit)
        return content, await self._blobs.put(content)


async def _fetch(adapter: Adapter | None, attachment: Attachment, limit: int) -> bytes:
    if not isinstance(adapter, Fetches):
        raise AdapterUnavailable("the platform cannot be reached")
    return await adapter.fetch(attachment, limit)


def _was_taken(turn: ClaimedTurn) -> bool:
    """Return whether an earlier attempt of this turn fetched its files already."""
    own = (decode_message(row.body) for row in turn.history if row.turn == turn.turn)
    return any(message.role is Role.USER and message.text.startswith(HEADING) for message in own)


def _place(event: MessageEvent) -> str:
    """Return a few letters that tell chats apart: message ids repeat between them."""
    return hashlib.blake2b(str(event.address).encode(), digest_size=3).hexdigest()


def _safe_name(attachment: Attachment) -> str:
    base = attachment.name.replace("\\", "/").rsplit("/", 1)[-1]
    return _UNSAFE.sub("_", base).strip(". ")[:80] or attachment.kind.value


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """A file that the agent attached."""

    blob: str
    name: str
    kind: str


class OutboundMedia:
    """Turns `MEDIA:<path>` lines of an answer into attachments."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    async def take(self, text: str, workspace: WorkspaceFiles, limit: int) -> tuple[str, list[OutgoingFile]]:
        """Return the text without its directives, and the files. A file that fails leaves a word in the text."""
        if "MEDIA:" not in text:
            return text, []
        fences = [match.span() for match in _FENCE.finditer(text)]
        files, kept, at = [], [], 0
        for match in _DIRECTIVE.finditer(text):
            if any(start <= match.start() < end for start, end in fences):
                continue
            kept.append(text[at : match.start()])
            at = match.end()
            try:
                files.append(await self._one(match["path"], workspace, limit))
            except (ToolFailure, StoreUnavailable) as error:
                kept.append(f"(I could not attach {match['path']}: {error})")
        kept.append(text[at:])
        return "".join(kept).strip(), files

    async def _one(self, path: str, workspace: WorkspaceFiles, limit: int) -> OutgoingFile:
        content = await workspace.read(path, limit)
        name = path.rsplit("/", 1)[-1]
        return OutgoingFile(await self._blobs.put(content), name, _kind(name))


def _kind(name: str) -> str:
    ending = name.rsplit(".", 1)[-1].lower()
    kinds = {
        "image": ("jpg", "jpeg", "png", "webp", "gif"),
        "voice": ("ogg", "opus"),
        "audio": ("mp3", "m4a", "flac", "wav"),
        "video": ("mp4", "mov", "webm"),
    }
    return next((kind for kind, endings in kinds.items() if ending in endings), "document")
