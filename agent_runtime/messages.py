"""What a conversation is made of, independent of any provider's wire format."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Image:
    """A picture for the model, by content address in the blob store."""

    blob: str
    mime: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that the model asks for.

    Attributes:
        id: Unique within the conversation.
        arguments: JSON text as the model wrote it, repaired but not validated.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a transcript.

    Attributes:
        tool_calls: Only on an assistant message.
        tool_call_id: Only on a tool message: the call that this answers.
        is_error: Only on a tool message: the call failed.
        opaque: Provider state that must be sent back unchanged (reasoning signatures), as JSON text;
            may be "".
    """

    role: Role
    text: str = ""
    images: tuple[Image, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    is_error: bool = False
    opaque: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a model call or a whole run used."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )
