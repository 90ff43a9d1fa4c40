"""Frames of the control plane: one JSON object a text message, closed envelopes, and the texts that clients match.

The rules are those of OpenClaw's gateway protocol, version 4.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, from_json, to_json

from tidegate.gateway.plane.contract import Code, RpcError

PROTOCOL = 4
MAX_BEFORE_AUTH = 65_536
"""Bytes of a frame before the handshake has succeeded."""
MAX_PAYLOAD = 26_214_400
"""Bytes of a frame after it."""
MAX_BUFFERED = 52_428_800
"""Bytes that may wait for one client."""
MAX_REASON = 123
"""Bytes of a close reason (RFC 6455, section 5.5)."""

CLOSE_OK = 1000
CLOSE_PROTOCOL = 1002
CLOSE_POLICY = 1008
CLOSE_TOO_BIG = 1009
CLOSE_RESTART = 1012
CLOSE_BUSY = 1013
CLOSE_REVOKED = 4001

NonEmpty = Annotated[str, Field(min_length=1)]


class RequestFrame(BaseModel):
    """What a client sends. `params` may be missing."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    type: Literal["req"]
    id: NonEmpty
    method: NonEmpty
    params: Any = None
    traceparent: Annotated[str, Field(max_length=128)] = ""
    expectedProfileId: Annotated[str, Field(max_length=128)] = ""


MAX_INTEGER = 2**53 - 1
"""No parameter is larger: what JavaScript holds exactly (ECMA-262, Number.MAX_SAFE_INTEGER)."""


def parse_json(text: str) -> Any:
    """Return the value of a JSON text. Raises ValueError when it is none, too deep, or holds NaN."""
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        # A cut emoji is half a surrogate pair; JavaScript sends it and it must not cost the whole request.
        if "\\u" not in text:
            raise
    try:
        loose = json.dumps(json.loads(text, parse_constant=_refuse), ensure_ascii=False)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    return from_json(loose.encode("utf-16", "surrogatepass").decode("utf-16", "replace"), allow_inf_nan=False)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def encode(value: Any) -> str:
    """Return the JSON text of a value; text that is no Unicode is escaped rather than refused, NaN is null.

    Raises:
        ValueError: It is nested too deep.
    """
    try:
        return to_json(value, inf_nan_mode="null").decode()
    except (PydanticSerializationError, UnicodeEncodeError):
        pass
    try:
        # Python's own writer takes more, but writes NaN as a word that is no JSON.
        return json.dumps(json.loads(json.dumps(value, default=str), parse_constant=lambda _: None))
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def read_request(data: Any) -> RequestFrame:
    """Return the request of a JSON value.

    Raises:
        RpcError: It is none; the text lists the problems as clients know them.
    """
    try:
        return RequestFrame.model_validate(data)
    except ValidationError as error:
        raise RpcError(Code.INVALID_REQUEST, f"invalid request frame: {problems(error)}") from error


def looks_like_request(data: Any) -> bool:
    """Return whether a first frame is a request at all, so that it deserves an answer."""
    try:
        read_request(data)
    except RpcError:
        return False
    return True


def echo_id(data: Any) -> str:
    """Return the id under which a malformed request is answered."""
    found = data.get("id") if isinstance(data, Mapping) else None
    return found if isinstance(found, str) else "invalid"


def validate(model: type[BaseModel], params: Any, method: str) -> Any:
    """Return the parameters of a method as its model.

    Raises:
        RpcError: They do not fit: `invalid <method> params: <problem>; <problem>`.
    """
    for name, value in params.items() if isinstance(params, dict) else ():
        if type(value) is int and abs(value) > MAX_INTEGER:
            raise RpcError(Code.INVALID_REQUEST, f"invalid {method} params: at /{name}: must be a safe integer")
    try:
        # JSON mode is the strict mode in which a list may become a tuple and a text an enumeration.
        return model.model_validate_json(to_json({} if params is None else params), strict=True)
    except ValidationError as error:
        raise RpcError(Code.INVALID_REQUEST, f"invalid {method} params: {problems(error)}") from error


def problems(error: ValidationError) -> str:
    """Return the problems in the order and the words of the reference server.

    Of several missing properties of one object the first is named; missing comes before unexpected, both before
    the rest.
    """
    missing: dict[str, str] = {}
    extra: list[str] = []
    rest: list[str] = []
    for item in error.errors(include_url=False, include_input=False):
        path = "".join(f"/{part}" for part in item["loc"])
        parent, _, name = path.rpartition("/")
        if item["type"] == "missing":
            missing.setdefault(parent, f"{_at(parent)}must have required property '{name}'")
        elif item["type"] == "extra_forbidden":
            extra.append(f"at {parent or 'root'}: unexpected property '{name}'")
        else:
            rest.append(f"{_at(path)}{_words(item)}")
    return "; ".join([*missing.values(), *extra, *rest])


def _at(path: str) -> str:
    return f"at {path}: " if path else ""


_TYPES = {
    "string_type": "must be string",
    "int_type": "must be integer",
    "int_from_float": "must be integer",
    "float_type": "must be number",
    "bool_type": "must be boolean",
    "list_type": "must be array",
    "tuple_type": "must be array",
    "dict_type": "must be object",
    "model_type": "must be object",
    "model_attributes_type": "must be object",
    "none_required": "must be null",
    "enum": "must be equal to one of the allowed values",
}


def _words(item: ErrorDetails) -> str:
    kind, context = item["type"], item.get("ctx", {})
    if kind in _TYPES:
        return _TYPES[kind]
    match kind:
        case "literal_error":
            one = " or " not in str(context.get("expected", "")) and "," not in str(context.get("expected", ""))
            return "must be equal to constant" if one else "must be equal to one of the allowed values"
        case "string_too_short":
            return f"must not have fewer than {context['min_length']} characters"
        case "string_too_long":
            return f"must not have more than {context['max_length']} characters"
        case "too_short":
            return f"must not have fewer than {context['min_length']} items"
        case "too_long":
            return f"must not have more than {context['max_length']} items"
        case "greater_than_equal":
            return f"must be >= {context['ge']}"
        case "less_than_equal":
            return f"must be <= {context['le']}"
        case "greater_than":
            return f"must be > {context['gt']}"
        case "value_error":
            return str(context.get("error", item["msg"]))
    return item["msg"]


def response(request_id: str, payload: Any) -> str:
    """Return the frame of a successful response."""
    return encode({"type": "res", "id": request_id, "ok": True, "payload": payload})


def failure(request_id: str, error: RpcError) -> str:
    """Return the frame of a failed one."""
    return encode({"type": "res", "id": request_id, "ok": False, "error": error.as_wire()})


def event_text(
    name: str, payload_json: str, *, seq: int | None = None, state_version: Mapping[str, int] | None = None
) -> str:
    """Return the frame of an event whose payload is JSON text already: one payload is encoded once for all clients."""
    tail = "" if seq is None else f',"seq":{seq}'
    if state_version is not None:
        tail += f',"stateVersion":{encode(dict(state_version))}'
    return f'{{"type":"event","event":"{name}","payload":{payload_json}{tail}}}'


def close_reason(text: str) -> bytes:
    """Return a close reason cut to the length that a WebSocket carries."""
    return text.encode("utf-8", "replace")[:MAX_REASON].decode("utf-8", "ignore").encode()
