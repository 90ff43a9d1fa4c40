"""OpenAI's formats: what a request asks for, and what answers look like. No I/O.

Sources: https://platform.openai.com/docs/api-reference/chat and …/responses; texts of refusals follow the gateway
protocol that existing clients know.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.agent_runtime.messages import Message, Role
from tidegate.events import clean_text

MAX_BODY = 20 << 20
"""Bytes of a request."""
MAX_MESSAGES = 2_000
MAX_USER = 512
"""Characters of `user`."""
OWNERS = ("tidegate", "openclaw")
INVALID = "invalid_request_error"
INVALID_MODEL = "Invalid `model`. Use `openclaw` or `openclaw/<agentId>`."
NO_USER_MESSAGE = "Missing user message in `messages`."
NO_TOOLS = "Tools of the client are not supported; the agent uses its own."
ONLY_TEXT = "Only text and pictures are supported as content."
ONLY_DATA = "Pictures are taken as data: URLs only; addresses are not fetched."
MAX_PICTURES = 16
PICTURE = "[a picture]"
"""Stands for a picture of an earlier message."""
INSTRUCTIONS = "[Instructions for this conversation]"
BEGINNING = "[Beginning of the conversation]"

_PICTURE_PARTS = frozenset({"image_url", "input_image"})
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})


class ApiError(Exception):
    """A request that is answered with an error in OpenAI's format."""

    def __init__(
        self, status: int, message: str, kind: str = INVALID, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        """The answer's body."""
        return {"error": {"message": str(self), "type": self.kind}}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for.

    Attributes:
        text: What the agent is to answer when it knows the conversation already.
        opening: The same when it does not: with the instructions that belong to it.
        context: What was said before, for a session that knows nothing yet.
        pictures: `data:` URLs of what came with the message.
        user: Names a conversation that lasts; empty for a new one.
        previous: Id of the response that this one follows; empty for none.
    """

    model: str
    text: str
    opening: str
    context: tuple[Message, ...] = ()
    pictures: tuple[str, ...] = ()
    user: str = ""
    stream: bool = False
    include_usage: bool = False
    previous: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a request. Its pictures are `data:` URLs."""

    role: str
    text: str
    pictures: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """What stands for it in a transcript that shows no pictures."""
        return "\n".join([*([self.text] if self.text else []), *(PICTURE for _ in self.pictures)])


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a run used."""

    given: int = 0
    made: int = 0

    def chat(self) -> dict[str, Any]:
        """Return it as Chat Completions tells it."""
        return {"prompt_tokens": self.given, "completion_tokens": self.made, "total_tokens": self.given + self.made}

    def responses(self) -> dict[str, Any]:
        """Return it as Responses tells it."""
        return {
            "input_tokens": self.given,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": self.made,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self.given + self.made,
        }


def read_body(raw: bytes) -> dict[str, Any]:
    """Return the JSON object of a request. Raises ApiError."""
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ApiError(400, f"The body is not JSON: {reason}") from error
    if not isinstance(data, dict):
        raise ApiError(400, "The body must be a JSON object.")
    return data


def read_chat(data: Mapping[str, Any]) -> Asked:
    """Return what a Chat Completions request asks for. Raises ApiError."""
    _refuse_tools(data)
    messages = data.get("messages")
    if not isinstance(messages, list):
        raise ApiError(400, NO_USER_MESSAGE)
    options = data.get("stream_options")
    return _asked(
        data,
        _lines(messages),
        NO_USER_MESSAGE,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def read_responses(data: Mapping[str, Any]) -> Asked:
    """Return what a Responses request asks for. Raises ApiError."""
    _refuse_tools(data)
    given = data.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ApiError(400, "input: Invalid input")
    lines = _lines([item for item in items if item.get("type", "message") == "message"])
    instructions = data.get("instructions")
    if isinstance(instructions, str) and instructions.strip():
        lines = [Said("system", clean_text(instructions)), *lines]
    return _asked(data, lines, "Missing user message in `input`.", previous=_text_of(data, "previous_response_id"))


def _refuse_tools(data: Mapping[str, Any]) -> None:
    if data.get("tool_choice") != "none" and (data.get("tools") or data.get("functions")):
        raise ApiError(400, NO_TOOLS)


def _text_of(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MAX_USER:
        raise ApiError(400, f"{name}: must be a text of at most {MAX_USER} characters")
    return clean_text(value).strip()


def _asked(
    data: Mapping[str, Any],
    lines: Sequence[Said],
    missing: str,
    *,
    include_usage: bool = False,
    previous: str = "",
) -> Asked:
    at = max((index for index, said in enumerate(lines) if said.role == "user"), default=-1)
    if at < 0:
        raise ApiError(400, missing)
    newest = lines[at]
    merged = _merged([*((said.role, said.told) for said in lines[:at]), ("user", newest.text)])
    return Asked(
        model=_text_of(data, "model") or "openclaw",
        text=newest.text,
        opening=merged[-1].text,
        context=tuple(merged[:-1]),
        pictures=newest.pictures,
        user=_text_of(data, "user"),
        stream=data.get("stream") is True,
        include_usage=include_usage,
        previous=previous,
    )


def _lines(messages: Sequence[Any]) -> list[Said]:
    """Return each message that says or shows something; results of tools are not part of what was said."""
    if len(messages) > MAX_MESSAGES:
        raise ApiError(400, f"At most {MAX_MESSAGES} messages can be sent.")
    lines = []
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ApiError(400, "Every message needs a `role`.")
        role = "system" if message["role"] == "developer" else message["role"]
        text, pictures = _content(message.get("content"))
        text = clean_text(text)
        if role in ("system", "user", "assistant") and (text.strip() or (pictures and role == "user")):
            lines.append(Said(role, text, pictures if role == "user" else ()))
    return lines


def _content(content: Any) -> tuple[str, tuple[str, ...]]:
    if content is None or isinstance(content, str):
        return content or "", ()
    if not isinstance(content, list):
        raise ApiError(400, ONLY_TEXT)
    texts: list[str] = []
    pictures: list[str] = []
    for part in content:
        if isinstance(part, dict) and part.get("type") == "refusal":
            continue
        if isinstance(part, dict) and part.get("type") in _PICTURE_PARTS:
            pictures.append(_picture(part))
            continue
        if not (isinstance(part, dict) and part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str)):
            raise ApiError(400, ONLY_TEXT)
        texts.append(part["text"])
    if len(pictures) > MAX_PICTURES:
        raise ApiError(400, f"At most {MAX_PICTURES} pictures go with one message.")
    return "\n".join(texts), tuple(pictures)


def _picture(part: Mapping[str, Any]) -> str:
    """Return the `data:` URL of a picture. What lies elsewhere is not fetched: it could lie inside our network."""
    given = part.get("image_url")
    url = given.get("url") if isinstance(given, dict) else given
    if not isinstance(url, str) or not url.startswith("data:"):
        raise ApiError(400, ONLY_DATA)
    return url


def _merged(lines: Iterable[tuple[str, str]]) -> list[Message]:
    """Return the messages of a transcript: person and agent in turns, instructions as said by the person."""
    merged: list[Message] = []
    for role, text in lines:
        speaker = Role.ASSISTANT if role == "assistant" else Role.USER
        said = f"{INSTRUCTIONS}\n{text}" if role == "system" else text
        if not merged and speaker is Role.ASSISTANT:
            merged.append(Message(Role.USER, BEGINNING))
        if merged and merged[-1].role is speaker:
            merged[-1] = Message(speaker, f"{merged[-1].text}\n\n{said}")
        else:
            merged.append(Message(speaker, said))
    return merged


def model_entry(name: str) -> dict[str, Any]:
    """Return the line of one model."""
    return {"id": name, "object": "model", "created": 0, "owned_by": name.partition("/")[0], "permission": []}


def model_names(agents: Iterable[str]) -> list[str]:
    """Return every name under which agents can be asked."""
    own = [f"tidegate/{agent}" for agent in agents]
    return [*own, "openclaw", "openclaw/default", *(name.replace("tidegate", "openclaw", 1) for name in own)]


def named_agent(model: str) -> str | None:
    """Return the id of the agent that a model name means, empty for the default one; None when it is no such name."""
    head, slash, agent = model.partition("/")
    if not slash:
        head, slash, agent = model.partition(":")
    if not slash:
        return "" if model in OWNERS else None
    if head not in (*OWNERS, "agent") or not agent.strip():
        return None
    return "" if agent == "default" else agent.strip()


def sse(data: Mapping[str, Any], event: str = "") -> bytes:
    """Return one server-sent event."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class ChatShape:
    """The answer of Chat Completions, whole or in pieces. `created` is seconds UTC."""

    id: str
    created: int
    model: str
    include_usage: bool = False

    def whole(self, text: str, tokens: Tokens) -> dict[str, Any]:
        """Return the whole answer."""
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {**self._head("chat.completion"), "choices": [choice], "usage": tokens.chat()}

    def begin(self) -> list[bytes]:
        """Return what comes first."""
        return [self._chunk({"role": "assistant"})]

    def piece(self, text: str) -> list[bytes]:
        """Return a piece of text."""
        return [self._chunk({"content": text})]

    def end(self, text: str, tokens: Tokens) -> list[bytes]:
        """Return what comes last."""
        del text
        usage = [sse({**self._head("chat.completion.chunk"), "choices": [], "usage": tokens.chat()})]
        return [self._chunk({}, "stop"), *(usage if self.include_usage else []), DONE]

    def failed(self, error: ApiError) -> list[bytes]:
        """Return the end of an answer that failed."""
        return [sse(error.body), DONE]

    def _chunk(self, delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return sse({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


class ResponsesShape:
    """The answer of Responses, whole or as events. `created` is seconds UTC."""

    def __init__(self, response_id: str, message_id: str, created: int, model: str) -> None:
        self.id = response_id
        self._message_id = message_id
        self._created = created
        self._model = model
        self._number = 0

    def whole(self, text: str, tokens: Tokens) -> dict[str, Any]:
        """Return the whole answer."""
        return self._response("completed", [self._item("completed", text)], tokens)

    def begin(self) -> list[bytes]:
        """Return what comes first."""
        return [
            self._event("response.created", response=self._response("in_progress")),
            self._event("response.in_progress", response=self._response("in_progress")),
            self._event("response.output_item.added", output_index=0, item=self._item("in_progress", None)),
            self._event("response.content_part.added", **self._where(), part=_part("")),
        ]

    def piece(self, text: str) -> list[bytes]:
        """Return a piece of text."""
        return [self._event("response.output_text.delta", **self._where(), delta=text, logprobs=[])]

    def end(self, text: str, tokens: Tokens) -> list[bytes]:
        """Return what comes last."""
        return [
            self._event("response.output_text.done", **self._where(), text=text, logprobs=[]),
            self._event("response.content_part.done", **self._where(), part=_part(text)),
            self._event("response.output_item.done", output_index=0, item=self._item("completed", text)),
            self._event("response.completed", response=self.whole(text, tokens)),
            DONE,
        ]

    def failed(self, error: ApiError) -> list[bytes]:
        """Return the end of an answer that failed."""
        detail = {"code": error.kind, "message": str(error)}
        return [self._event("response.failed", response={**self._response("failed"), "error": detail}), DONE]

    def _where(self) -> dict[str, Any]:
        return {"item_id": self._message_id, "output_index": 0, "content_index": 0}

    def _event(self, name: str, **fields: Any) -> bytes:
        self._number += 1
        return sse({"type": name, "sequence_number": self._number - 1, **fields}, name)

    def _item(self, status: str, text: str | None) -> dict[str, Any]:
        return {
            "type": "message",
            "id": self._message_id,
            "role": "assistant",
            "content": [] if text is None else [_part(text)],
            "phase": "final_answer",
            "status": status,
        }

    def _response(
        self, status: str, output: Sequence[Mapping[str, Any]] = (), tokens: Tokens | None = None
    ) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "model": self._model,
            "output": list(output),
            "usage": (tokens or Tokens()).responses(),
        }


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}
