"""Parameters of the methods about sessions. Filters about things that we do not have let all or none pass."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from tidegate.gateway.plane.contract import Params, RunId, Said, Text
from tidegate.gateway.plane.methods.talk_params import File

Label = Annotated[str, Field(min_length=1, max_length=512)]


class SessionsList(Params):
    """`sessions.list`. Filters about things that we do not have let everything or nothing pass."""

    limit: Annotated[int, Field(ge=1)] | None = None
    offset: Annotated[int, Field(ge=0)] | None = None
    activeMinutes: Annotated[int, Field(ge=1)] | None = None
    activeOnly: bool | None = None
    requireLastInteraction: bool | None = None
    sortBy: Literal["updatedAt", "lastInteractionAt", "activity"] | None = None
    includeGlobal: bool | None = None
    includeUnknown: bool | None = None
    excludeSubagents: bool | None = None
    excludeCron: bool | None = None
    excludeSystem: bool | None = None
    configuredAgentsOnly: bool | None = None
    includeDerivedTitles: bool | None = None
    includeLastMessage: bool | None = None
    includeActivitySummary: bool | None = None
    label: Label | None = None
    projectId: Text | None = None
    workspaceDir: Text | None = None
    group: str | None = None
    pinned: bool | None = None
    boardFace: Literal["chat", "dashboard"] | None = None
    hasBoard: bool | None = None
    creatorId: Text | None = None
    ownerId: Text | None = None
    ownerFirst: bool | None = None
    involvingMe: bool | None = None
    profileRelation: dict[str, Any] | None = None
    involvingProfileId: Text | None = None
    includePeople: bool | None = None
    spawnedBy: Text | None = None
    agentId: Text | None = None
    search: str | None = None
    archived: bool | Literal["all"] | None = None
    excludeApi: bool | None = None
    """Ours: leave out the sessions of API requests that belong to no conversation, and tell how many there are."""


class KeyParams(Params):
    """A method about one session."""

    key: Text
    agentId: Text | None = None


class Describe(KeyParams):
    """`sessions.describe`."""

    includeDerivedTitles: bool | None = None
    includeLastMessage: bool | None = None


class Preview(Params):
    """`sessions.preview`."""

    keys: Annotated[list[Text], Field(max_length=64)]
    limit: Annotated[int, Field(ge=1)] | None = None
    maxChars: Annotated[int, Field(ge=20)] | None = None


class Resolve(Params):
    """`sessions.resolve`."""

    key: Text | None = None
    sessionId: Text | None = None
    label: Label | None = None
    reference: dict[str, Any] | None = None
    shortId: Text | None = None
    slugHint: Text | None = None
    agentId: Text | None = None
    spawnedBy: Text | None = None
    includeGlobal: bool | None = None
    includeUnknown: bool | None = None
    allowMissing: bool | None = None


class Create(Params):
    """`sessions.create`."""

    key: Text | None = None
    idempotencyKey: RunId | None = None
    agentId: Text | None = None
    label: Label | None = None
    displayName: Annotated[str, Field(max_length=500)] | None = None
    model: Text | None = None
    thinkingLevel: Text | None = None
    parentSessionKey: Text | None = None
    emitCommandHooks: bool | None = None
    timeoutMs: int | None = None
    message: Said | None = None
    task: Said | None = None
    attachments: list[File] | None = None


class Patch(KeyParams):
    """`sessions.patch`. None clears a field."""

    expectedSessionId: Text | None = None
    expectedLifecycleRevision: Text | None = None
    label: Label | None = None
    displayName: Annotated[str, Field(max_length=500)] | None = None
    icon: Annotated[str, Field(max_length=64)] | None = None
    color: Annotated[str, Field(max_length=64)] | None = None
    category: Label | None = None
    archived: bool | None = None
    pinned: bool | None = None
    unread: bool | None = None
    thinkingLevel: Text | None = None
    verboseLevel: Text | None = None
    reasoningLevel: Text | None = None
    queueMode: Text | None = None
    model: Text | None = None


class Reset(KeyParams):
    """`sessions.reset`."""

    reason: Literal["new", "reset"] | None = None
    expectedSessionId: Text | None = None


class Delete(KeyParams):
    """`sessions.delete`."""

    deleteTranscript: bool | None = None
    expectedSessionId: Text | None = None
    expectedLifecycleRevision: Text | None = None
    expectedSessionUpdatedAt: float | None = None
    emitLifecycleHooks: bool | None = None
    archivedOnly: bool | None = None


class Compact(KeyParams):
    """`sessions.compact`."""

    maxLines: Annotated[int, Field(ge=1)] | None = None


class MessagesSubscribe(KeyParams):
    """`sessions.messages.subscribe`."""

    includeApprovals: bool | None = None
