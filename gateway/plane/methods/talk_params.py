"""Parameters of the methods that talk. Fields that change nothing here are taken and left alone."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from tidegate.gateway.plane.contract import MAX_SAID, Params, RunId, Said, Text

Words = Annotated[str, Field(min_length=1, max_length=MAX_SAID)]
Key = Annotated[str, Field(min_length=1, max_length=512)]


class File(Params):
    """A file that comes with a message."""

    type: str | None = None
    mimeType: str | None = None
    fileName: str | None = None
    origin: Literal["paste", "file"] | None = None
    content: Any = None
    sizeBytes: float | None = None
    durationMs: float | None = None
    width: float | None = None
    height: float | None = None
    source: dict[str, Any] | None = None

    def as_sent(self) -> dict[str, Any]:
        """Return it as the client wrote it."""
        return self.model_dump(exclude_unset=True)


class ChatSend(Params):
    """`chat.send`. Fields that change nothing here are taken and left alone."""

    sessionKey: Key
    message: Said
    idempotencyKey: RunId
    agentId: Text | None = None
    sessionId: Text | None = None
    thinking: str | None = None
    fastMode: bool | Literal["auto"] | None = None
    fastAutoOnSeconds: int | None = None
    queueMode: Literal["steer", "followup", "collect", "interrupt"] | None = None
    deliver: bool | None = None
    originatingChannel: str | None = None
    originatingTo: str | None = None
    originatingAccountId: str | None = None
    originatingThreadId: str | None = None
    replyToId: Text | None = None
    attachments: list[File] | None = None
    mentions: list[Any] | None = None
    workContext: dict[str, Any] | None = None
    intent: dict[str, Any] | None = None
    toolBindings: dict[str, Any] | None = None
    timeoutMs: int | None = None
    suppressCommandInterpretation: bool = False
    systemInputProvenance: dict[str, Any] | None = None
    systemProvenanceReceipt: str | None = None
    expectedLeafEntryId: Text | None = None
    expectedSessionRoutingContract: Text | None = None
    expectedPermissionMode: str | None = None
    expectedToolOverrides: dict[str, Any] | None = None


class AgentCall(Params):
    """`agent`."""

    message: Words
    idempotencyKey: RunId
    agentId: str | None = None
    provider: str | None = None
    model: str | None = None
    to: str | None = None
    replyTo: str | None = None
    sessionId: str | None = None
    sessionKey: str | None = None
    expectedExistingSessionId: Text | None = None
    thinking: str | None = None
    deliver: bool | None = None
    attachments: list[Any] | None = None
    channel: str | None = None
    replyChannel: str | None = None
    accountId: str | None = None
    replyAccountId: str | None = None
    threadId: str | None = None
    groupId: str | None = None
    groupChannel: str | None = None
    groupSpace: str | None = None
    timeout: Annotated[int, Field(ge=0)] | None = None
    bestEffortDeliver: bool | None = None
    lane: str | None = None
    extraSystemPrompt: Said | None = None
    inputProvenance: dict[str, Any] | None = None
    label: str | None = None


class AgentWait(Params):
    """`agent.wait`."""

    runId: RunId
    timeoutMs: Annotated[int, Field(ge=0)] | None = None


class SessionSend(Params):
    """`sessions.send`."""

    key: Key
    message: Said
    agentId: Text | None = None
    idempotencyKey: RunId | None = None
    thinking: str | None = None
    attachments: list[File] | None = None
    mentions: list[Any] | None = None
    timeoutMs: int | None = None


class ChatAbort(Params):
    """`chat.abort`."""

    sessionKey: Key
    agentId: Text | None = None
    runId: RunId | None = None
    preserveSideRuns: bool | None = None


class SessionsAbort(Params):
    """`sessions.abort`."""

    key: Text | None = None
    runId: RunId | None = None
    agentId: Text | None = None
    clearQueued: bool | None = None


class ChatInject(Params):
    """`chat.inject`."""

    sessionKey: Key
    message: Words
    agentId: Text | None = None
    label: Annotated[str, Field(max_length=100)] | None = None


class Wake(Params):
    """`wake`."""

    mode: Literal["now", "next-heartbeat"]
    text: Words
    sessionKey: Text | None = None
    agentId: Text | None = None


class SystemEvent(Params):
    """`system-event`."""

    text: Words
    deviceId: Text | None = None
    instanceId: Text | None = None
    host: str | None = None
    ip: str | None = None
    mode: str | None = None
    version: str | None = None
    platform: str | None = None
    deviceFamily: str | None = None
    modelIdentifier: str | None = None
    lastInputSeconds: float | None = None
    reason: str | None = None
    roles: list[str] | None = None
    scopes: list[str] | None = None
    tags: list[str] | None = None
    sessionKey: Text | None = None
