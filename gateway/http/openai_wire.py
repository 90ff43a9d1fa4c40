"""OpenAI's formats: what a request asks for. No I/O.

Sources: https://platform.openai.com/docs/api-reference/chat and …/responses; texts of refusals follow the gateway
protocol that existing clients know.

What was called and what came of it is told as text: a caller's story about calls is never taken for our own work.
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
MAX_ID = 128
"""Characters of a call's id."""
MAX_USER = 512
"""Characters of `user`."""
OWNERS = ("tidegate", "openclaw")
INVALID = "invalid_request_error"
INVALID_MODEL = "Invalid `model`. Use `openclaw` or `openclaw/<agentId>`."
NO_USER_MESSAGE = "Missing user message in `messages`."
ONLY_TEXT = "Only text and pictures are supported as content."
ONLY_DATA = "Pictures are taken as data: URLs only; addresses are not fetched."
MAX_PICTURES = 16
RESULT = "result"
"""The role of what came of a call of the client's tools."""
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
    given = data.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ApiError(400, "input: Invalid input")
    lines = _lines([message for item in items if (message := _message_of(item)) is not None])
    instructions = data.get("instructions")
    if isinstance(instructions, str) and instructions.strip():
        lines = [Said("system", clean_text(instructions)), *lines]
    return _asked(data, lines, "Missing user message in `input`.", previous=_text_of(data, "previous_response_id"))


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
    at = max((index for index, said in enumerate(lines) if said.role in ("user", RESULT)), default=-1)
    if at < 0:
        raise ApiError(400, missing)
    first = at
    while first > 0 and lines[first - 1].role == RESULT:
        # What came of several calls is told together, and with what the person says about it.
        first -= 1
    text = "\n\n".join(said.text for said in lines[first : at + 1] if said.text)
    newest = Said("user", text, lines[at].pictures)
    merged = _merged([*((said.role, said.told) for said in lines[:first]), ("user", newest.text)])
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


def _message_of(item: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return an item of Responses as a message of Chat Completions; None for what tells nothing."""
    match item.get("type", "message"):
        case "message":
            return item
        case "function_call":
            call = {
                "id": item.get("call_id"),
                "function": {"name": item.get("name"), "arguments": item.get("arguments")},
            }
            return {"role": "assistant", "tool_calls": [call]}
        case "function_call_output":
            output = item.get("output")
            told = output if isinstance(output, str | list) else json.dumps(output)
            return {"role": "tool", "tool_call_id": item.get("call_id"), "content": told}
    return None


def _called(message: Mapping[str, Any], names: dict[str, str]) -> str:
    """Return the calls of an assistant message as text, and note their names by id."""
    told = []
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            continue
        name, arguments = str(function.get("name"))[:64], str(function.get("arguments") or "{}")
        names[str(call.get("id"))] = name
        told.append(f"[I called {name} with {arguments}]")
    return "\n".join(told)


def _what_was_called(message: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return name and id of a call, as far as the request tells them."""
    given = message.get("tool_call_id")
    call = given[:MAX_ID] if isinstance(given, str) else ""
    name = names.get(str(given)) or str(message.get("name") or "")[:64]
    return f"{name} ({call})" if name and call else name or call or "a call"


def _lines(messages: Sequence[Any]) -> list[Said]:
    """Return each message that says or shows something, and what came of calls."""
    if len(messages) > MAX_MESSAGES:
        raise ApiError(400, f"At most {MAX_MESSAGES} messages can be sent.")
    lines = []
    names: dict[str, str] = {}
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ApiError(400, "Every message needs a `role`.")
        role = "system" if message["role"] == "developer" else message["role"]
        text, pictures = _content(message.get("content"))
        if role == "assistant":
            text = "\n".join(part for part in (text, _called(message, names)) if part)
        elif role in ("tool", "function"):
            role, text = RESULT, f"[Result of {_what_was_called(message, names)}]\n{text}"
        text = clean_text(text)
        if role in ("system", "user", "assistant", RESULT) and (text.strip() or (pictures and role == "user")):
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
